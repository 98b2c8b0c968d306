"""The cable is pulled at every step of an update: the board has the old version or the new one.

Every call that the PC makes is a step: each file boundary, and inside each file that takes more
than one. The flash operations of the move into place are cut one by one as well.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.boardrig import files_on, make_image, running_version, small_firmware
from upyclaw_host.errors import UserError
from upyclaw_host.flash.image import open_image
from upyclaw_host.install import firmware, update
from upyclaw_host.repl import Repl
from upyclaw_host.sim import SimBoard

OLD, NEW = "old old old", "new new new"
MEMORY = b"never touched" * 100


class Pulled(Exception):
    """The test pulled the cable."""


class CutRepl(Repl):
    """A prompt whose cable is pulled at the `at`-th call from now on."""

    at = 0
    calls = 0

    def pull(self) -> None:
        raise Pulled

    def run(self, code: str) -> str:
        self.calls += 1
        if self.at and self.calls == self.at:
            self.pull()
        return super().run(code)


@pytest.fixture(scope="module")
def versions() -> dict[str, dict[str, bytes]]:
    return {version: small_firmware(version) for version in ("old", "new")}


KEPT = {"/data/sessions/s_a_00000000.log": MEMORY, "/config.json": b'{"name":"kept"}'}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("template") / "old.img"
    make_image(path, {**small_firmware("old"), **KEPT})
    return path


@pytest.fixture
def image(tmp_path: Path, template: Path) -> Path:
    return Path(shutil.copy(template, tmp_path / "flash.img"))


def bring_up_to_date(repl: Repl, wanted: dict[str, bytes]) -> None:
    firmware.apply(repl, firmware.changes(repl, wanted), wanted)


def check_files(image: Path, wanted: dict[str, bytes]) -> None:
    found = {p: d for p, d in files_on(image).items() if not update.is_staging(p)}
    assert found == {**wanted, **KEPT}


def count_calls(image: Path, wanted: dict[str, bytes]) -> int:
    with SimBoard(image, update=False) as board:
        with CutRepl(board.port) as repl:
            bring_up_to_date(repl, wanted)
            return repl.calls


@pytest.fixture(scope="module")
def steps(
    tmp_path_factory: pytest.TempPathFactory, template: Path, versions: dict[str, dict[str, bytes]]
) -> int:
    image = Path(shutil.copy(template, tmp_path_factory.mktemp("count") / "flash.img"))
    steps = count_calls(image, versions["new"])
    check_files(image, versions["new"])
    return steps


def cut_once(
    board: SimBoard, at: int, how: str, versions: dict[str, dict[str, bytes]]
) -> tuple[bool, str]:
    """Update with a cut at call `at`: (was it cut, the version the board starts then)."""
    cut = False
    repl = CutRepl(board.port)

    def pull() -> None:
        board.unplug()
        if how == "power":
            board.power_off()

    repl.at = at
    repl.pull = pull  # type: ignore[method-assign]
    try:
        bring_up_to_date(repl, versions["new"])
    except UserError:
        cut = True
    repl.close()
    if cut:
        board.plug()
    # After a cable that was not its power, the board is reset by its button.
    board.kill()
    return cut, running_version(board.port)


@pytest.mark.parametrize("how", ["power", "cable"])
def test_every_step_leaves_a_whole_version(
    how: str, tmp_path: Path, template: Path, versions: dict[str, dict[str, bytes]], steps: int
) -> None:
    seen = []
    assert steps > 15
    # What the board does after a pulled cable is the same as after a cut: fewer steps will do.
    for at in [*range(1, steps, 1 if how == "power" else 3), steps]:
        image = Path(shutil.copy(template, tmp_path / f"{how}{at}.img"))
        with SimBoard(image, update=False) as board:
            cut, version = cut_once(board, at, how, versions)
            assert version in (OLD, NEW), f"cut at call {at} of {steps}"
            seen.append((cut, version))
        check_files(image, versions["old" if version == OLD else "new"])
        image.unlink()
    # The moment of commitment is one: old up to it, new from it on.
    order = [version for _, version in seen]
    assert order == sorted(order, reverse=True) and order[0] == OLD and order[-1] == NEW
    assert all(cut for cut, _ in seen[:-1])


def test_an_update_that_broke_off_goes_on_where_it_was(
    image: Path, versions: dict[str, dict[str, bytes]], steps: int
) -> None:
    with SimBoard(image, update=False) as board:
        cut, version = cut_once(board, steps - 4, "power", versions)
        assert cut and version == OLD
        with CutRepl(board.port) as repl:
            bring_up_to_date(repl, versions["new"])
            again = repl.calls
    assert again < steps - 6
    check_files(image, versions["new"])


@pytest.fixture
def committed(image: Path, versions: dict[str, dict[str, bytes]]) -> Iterator[Path]:
    """A board that lost its power right after the moment of commitment."""
    with open_image(image, write=True) as opened:
        wanted = versions["new"]
        gone = {"/upyclaw/old/only.txt"}
        for path, data in update._tree(wanted, gone).items():
            opened.write(update.READY + path, data)
    yield image


def test_every_flash_operation_of_the_move_may_be_cut(
    committed: Path, tmp_path: Path, versions: dict[str, dict[str, bytes]]
) -> None:
    at, finished = 1, False
    while not finished:
        image = Path(shutil.copy(committed, tmp_path / f"cut{at}.img"))
        board = SimBoard(image, update=False)
        board._cut_at = at  # from the very first start
        try:
            board.start()
            end = time.monotonic() + 3.0
            while board.powered and time.monotonic() < end:
                time.sleep(0.01)
            finished = board.powered
            board.start()
            assert running_version(board.port) == NEW, f"cut at flash operation {at}"
        finally:
            board.stop()
        check_files(image, versions["new"])
        image.unlink()
        at += 1
    assert at > 20
