"""Changes to a board's files that happen whole or not at all, whenever the cable is pulled.

The new files are written beside the old ones, below `/upyclaw.new`; renaming that folder to
`/upyclaw.ready` is the one moment at which the update becomes valid; from then on `settle.py`,
which lies in it, moves every file to its place, at once or at the next start (boot.py).

Owns these two folders. Must not touch any path it was not given.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Set
from importlib.resources import files as package_files

from upyclaw_host.errors import UserError
from upyclaw_host.repl import OnBoard, Progress, Repl

NEW = "/upyclaw.new"
READY = "/upyclaw.ready"
BOOT = "/boot.py"
_HOOK = b"upyclaw.ready"  # a boot.py with this in it finishes updates
_BLOCK = 4096
_RESERVE = 8 * _BLOCK  # LittleFS moves data with these


def is_staging(path: str) -> bool:
    """True for a path inside the folders of an unfinished update."""
    return path.startswith((NEW + "/", READY + "/"))


def finish_pending(repl: Repl) -> bool:
    """Put an update in place that was whole when the power went; False if there is none."""
    try:
        repl.run(f"os.stat({READY + '/settle.py'!r})")
    except OnBoard:
        return False
    repl.run(_SETTLE)
    return True


_SETTLE = f"with open({READY + '/settle.py'!r}) as _f:\n    exec(_f.read(), {{}})\n"


def put(
    repl: Repl,
    files: Mapping[str, bytes],
    gone: Set[str] = frozenset(),
    *,
    boot: bytes | None = None,
    progress: Progress | None = None,
) -> None:
    """Replace `files` (path on the board -> content) and remove `gone`, all or nothing.

    `boot`: our boot.py, written first if the board's own would not finish an update. Raises
    UserError; before the moment of commitment the board is as it was, after it the update is
    finished by the next start.
    """
    finish_pending(repl)
    staged = _staged(repl, files, gone)
    _check_room(repl, staged)
    for path, data in staged.items():
        repl.write(NEW + path, data, progress)
    _verify(repl, files, gone)
    if boot is not None and _HOOK not in (repl.text(BOOT) or b""):
        repl.write(BOOT + ".new", boot)
        repl.run(f"os.rename({BOOT + '.new'!r}, {BOOT!r})")
    repl.run(f"os.rename({NEW!r}, {READY!r})")
    repl.run(_SETTLE)


def _tree(files: Mapping[str, bytes], gone: Set[str]) -> dict[str, bytes]:
    """What must lie below `/upyclaw.new`: path there -> content."""
    script = package_files("upyclaw_host.install").joinpath("device/settle.py").read_bytes()
    tree = {"/root" + path: data for path, data in files.items()}
    tree["/gone.txt"] = "".join(f"{path}\n" for path in sorted(gone)).encode()
    tree["/settle.py"] = script
    return tree


def _staged(repl: Repl, files: Mapping[str, bytes], gone: Set[str]) -> dict[str, bytes]:
    """What is still to be written: an update that broke off goes on where it was."""
    tree = _tree(files, gone)
    there = repl.hashes(NEW)
    for path, (_, digest) in there.items():
        wanted = tree.get(path[len(NEW) :])
        if wanted is None or _sha(wanted) != digest:
            repl.run(f"os.remove({path!r})")
        else:
            del tree[path[len(NEW) :]]
    if len(tree) == len(_tree(files, gone)):
        repl.remove_tree(NEW)
    return tree


def _check_room(repl: Repl, staged: Mapping[str, bytes]) -> None:
    need = sum(-(-len(data) // _BLOCK) * _BLOCK for data in staged.values() if len(data) > 250)
    folders = {path.rpartition("/")[0] for path in staged}
    need += 2 * _BLOCK * len(folders) + _RESERVE
    free = repl.free()
    if need > free:
        raise UserError(
            f"The flash of the board at {repl.port} has {free} bytes free and this needs {need}: "
            "delete a session there, after a backup, and try again; nothing was changed."
        )


def _verify(repl: Repl, files: Mapping[str, bytes], gone: Set[str]) -> None:
    there = {path: digest for path, (_, digest) in repl.hashes(NEW).items()}
    for path, data in _tree(files, gone).items():
        if there.get(NEW + path) != _sha(data):
            raise UserError(
                f"{path.removeprefix('/root')} did not arrive whole on the board at {repl.port}; "
                "nothing was changed there. Try again, with another cable if it happens often."
            )


def _sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
