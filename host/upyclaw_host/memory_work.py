"""The device's own memory code on the PC: recall, forget and the gates, on a copy or in place.

Owns: getting a memory folder to where `upyclaw.memory` can work on it, and back. Reading what
there is is the business of `formats.memory` (the witness).
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from upyclaw_host.errors import UserError
from upyclaw_host.flash.image import Image, open_image
from upyclaw_host.formats.memory import DIGEST, FILES, PROFILE, RECORDS, Memory, read_memory
from upyclaw_host.source import DirectorySource, Source
from upyclaw_host.source_image import ImageSource


@contextlib.contextmanager
def _sentences(label: str) -> Iterator[None]:
    """Errors of the device's code as one sentence."""
    from upyclaw.storage import StorageError

    try:
        yield
    except (StorageError, OSError) as error:
        raise UserError(f"The memory in {label} could not be worked on: {error}.", 1) from None


def _store(folder: Path, readonly: bool = False, now: int | None = None) -> Any:
    """The device's store on a folder, with the clock and the time zone of this PC."""
    from upyclaw.memory.store import MemoryStore

    if now is None:
        store = MemoryStore(folder.as_posix(), readonly=readonly)
    else:
        store = MemoryStore(folder.as_posix(), lambda: now, readonly=readonly)
    store.zone = time.localtime().tm_gmtoff
    return store


def _write(folder: Path, memory: Memory) -> None:
    for name, data in memory.files.items():
        (folder / name).write_bytes(data)


@contextlib.contextmanager
def copied(memory: Memory) -> Iterator[Path]:
    """A temporary folder with the files of the memory."""
    with tempfile.TemporaryDirectory(prefix="upyclaw-memory-") as name:
        folder = Path(name)
        _write(folder, memory)
        yield folder


@contextlib.contextmanager
def in_place(source: Source, memory: Memory) -> Iterator[Path]:
    """A folder to change the memory in; the change is in the source afterwards.

    A directory is worked on as a board does it, each step safe by itself. Of an image the folder
    is a copy that is written back when the work is done; nothing may run on it meanwhile.
    """
    if isinstance(source, DirectorySource):
        yield source.root / memory.folder
        return
    if not isinstance(source, ImageSource):
        raise UserError(f"{source.label} is opened read-only: give a directory or an image.")
    with open_image(source.label, write=True) as image:
        # Read again under the lock: a board may have run on it until now.
        now = {name: data for name in memory.files if (data := _read(image, memory, name))}
        fresh = read_memory(now, memory.folder)
        with copied(fresh) as folder:
            yield folder
            _put_back(image, fresh, folder)


def _read(image: Image, memory: Memory, name: str) -> bytes:
    path = memory.path(name)
    return image.read(path) if image.exists(path) else b""


def _put_back(image: Image, before: Memory, folder: Path) -> None:
    """Write what changed, the records last: they are the truth, the others follow from them."""
    names = {path.name for path in folder.iterdir() if path.is_file()}
    for name in sorted(names, key=lambda one: (one == RECORDS, one != DIGEST, one)):
        data = (folder / name).read_bytes()
        if data != before.files.get(name):
            image.write(before.path(name), data)


def after(folder: Path) -> Memory:
    """The memory that now lies in a folder, as the witness reads it."""
    names = (*FILES, *PROFILE)
    return read_memory({n: (folder / n).read_bytes() for n in names if (folder / n).is_file()})


# -- recall


def recall(
    memory: Memory,
    label: str,
    words: str,
    labels: Sequence[str],
    limit: int,
    now: int | None = None,
) -> list[dict[str, Any]]:
    """What a board finds, best first: items as dicts, with `score` where words were looked for.

    `now` is the board's clock (Unix seconds) if it is not this PC's. Raises UserError if none of
    the labels is known.
    """
    from upyclaw.memory.recall import search

    with copied(memory) as folder, _sentences(label):
        store = _store(folder, readonly=True, now=now)
        known = [name for _, name, _ in store.open().labels()]
        if labels and not set(labels) & set(known):
            there = ", ".join(known) or "none"
            raise UserError(f'No memory has the label "{labels[0]}"; there are: {there}.', 1)
        if labels:
            found = [(slot, None) for slot in store.recall(list(labels), limit)]
        else:
            found = search(store, words, limit)
        items = [{**store.item(slot), "score": score} for slot, score in found]
        store.release()
    for item in items:
        item["labels"] = list(_labels(item["tags"]))
        if item["score"] is None:
            del item["score"]
    return items


def _labels(tags: str) -> list[str]:
    from upyclaw.memory.record import labels_of

    return list(labels_of(tags))


# -- forget


def forget(folder: Path, label: str, ids: Sequence[str]) -> tuple[list[str], list[str]]:
    """Forget items for good; returns (ids that were there, what the device's code told)."""
    with _sentences(label):
        store = _store(folder)
        gone = [one for one in ids if store.forget(one) is not None]
        store.flush()
        store.release()
    notices: list[str] = store.take_notices()
    return gone, notices


# -- apply


@dataclass
class Applied:
    """What the gates made of one reply. `asked`: why a board would not have asked a model at all
    ("" if it would); `readable`: the reply was in the form asked for."""

    asked: str = ""
    readable: bool = True
    candidates: list[dict[str, Any]] = field(default_factory=list)
    note: str | None = None
    added: list[str] = field(default_factory=list)
    changed: list[dict[str, str]] = field(default_factory=list)
    removed: list[dict[str, str]] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)


def apply(folder: Path, label: str, user_text: str, reply: str) -> Applied:
    """Run one extraction reply through all gates and change the memory in `folder`."""
    from upyclaw.memory import gates
    from upyclaw.memory.filter import why_not
    from upyclaw.memory.spot import order

    done = Applied(why_not(user_text) or "")
    if not done.asked and order(user_text)[0] == "store":
        done.asked = "order"
    before = {item.id: item.content for item in after(folder).items}
    with _sentences(label):
        store = _store(folder)
        results = gates.apply(store, reply, user_text)
        done.notices = store.take_notices()
        store.flush()
        store.release()
    if results is None:
        done.readable = False
        return done
    done.note = gates.note(gates.labels_in(results))
    done.candidates = [
        {
            "what": one.what,
            "why": one.why,
            "content": one.content,
            "id": one.id or None,
            "labels": list(one.labels),
        }
        for one in results
    ]
    now = {item.id: item.content for item in after(folder).items}
    done.added = [one for one in now if one not in before]
    done.removed = [{"id": one, "content": before[one]} for one in before if one not in now]
    done.changed = [
        {"id": one, "before": before[one], "after": now[one]}
        for one in now
        if one in before and before[one] != now[one]
    ]
    return done
