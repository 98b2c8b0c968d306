"""A simulated board for each test: same firmware image, fresh copy, real MicroPython."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.rig import Scripted
from upyclaw_host.sim import SimBoard, build_flash


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Real processes, ports and clocks on a busy machine: a second try tells a fault from load."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.flaky(reruns=2, reruns_delay=1))


@pytest.fixture(autouse=True)
def no_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody's own settings take part."""
    monkeypatch.setenv("UPYCLAW_CONFIG", str(tmp_path / "config.toml"))
    for name in ("UPYCLAW_PROVIDER", "OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session")
def flash_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("flash") / "template.img"
    build_flash(path)
    return path


@pytest.fixture
def flash(tmp_path: Path, flash_template: Path) -> Path:
    """A flash image of its own with the firmware and no memory yet."""
    path = tmp_path / "flash.img"
    shutil.copy(flash_template, path)
    return path


@pytest.fixture
def board(flash: Path) -> Iterator[SimBoard]:
    simulated = SimBoard(flash)
    simulated.start()
    yield simulated
    simulated.stop()


@pytest.fixture
def scripted(tmp_path: Path) -> Callable[[list[dict[str, Any]]], Scripted]:
    return lambda lines: Scripted(tmp_path, lines)
