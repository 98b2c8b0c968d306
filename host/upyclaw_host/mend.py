"""Repair and compact sessions with the device's own code, run on a copy on the PC.

Owns: copying a session out of a source, letting `upyclaw.storage` work on the copy under CPython,
and telling what became of each record by reading both sides with the witness. The source is never
written, except by `compact_in_place`.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from upyclaw_host.errors import UserError
from upyclaw_host.flash.image import open_image
from upyclaw_host.formats.catalog import Catalog, Session, load_catalog
from upyclaw_host.formats.findings import Finding
from upyclaw_host.formats.messages import messages_of
from upyclaw_host.formats.names import chat_map_file_name
from upyclaw_host.formats.records import Record
from upyclaw_host.formats.session import SessionPair
from upyclaw_host.source import DirectorySource
from upyclaw_host.source_image import ImageSource

_KEY = re.compile(rb'"chat_key":"([ -!#-\[\]-~]+)"')  # ASCII without escapes, as ids are
_LISTS = ("chat_map/", "sessions.txt")


@dataclass
class Outcome:
    """What became of one session."""

    title: str
    file: str
    untouched: str = ""  # why nothing was done
    kept: int = 0
    changed: list[str] = field(default_factory=list)  # records whose bytes became others
    dropped: list[str] = field(default_factory=list)
    added: list[str] = field(default_factory=list)
    moved: dict[str, int] = field(default_factory=dict)  # file set aside -> bytes
    notices: list[str] = field(default_factory=list)  # what the device told its user
    size_before: int = 0
    size_after: int = 0
    left: list[Finding] = field(default_factory=list)  # faults that stay, told by the witness

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        told = dict(vars(self))
        told["left"] = [finding.as_dict() for finding in self.left]
        return told


def _empty_folder(out: Path) -> None:
    """Make `out`; refuse one that holds anything, so that nothing is written over."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        if any(out.iterdir()):
            raise UserError(f"{out} is not empty: give a new directory for --out.")
    except OSError as error:
        raise UserError(f"{out} can't be used for --out: {error.strerror}.")


def _copy_out(catalog: Catalog, sessions: list[Session], out: Path) -> None:
    """Write the files of the sessions, and the lists that name them, below `out`."""
    prefix = f"{catalog.folder}/" if catalog.folder else ""
    for session in sessions:
        for role, path in session.files.items():
            (out / path[len(prefix) :]).write_bytes(session.bytes.parts[role])
    source = sessions[0].source
    for path in source.files():
        name = path[len(prefix) :]
        if path.startswith(prefix) and name.startswith(_LISTS):
            target = out / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(source.read(path))


def _on_device(folder: Path, session: Session, work: Callable[[Any], None]) -> list[str]:
    """Open the copy with the device's code, do `work`, close it; returns its notices."""
    from upyclaw.storage import SessionStore, StorageError
    from upyclaw.storage.session import Session as DeviceSession

    try:
        store = SessionStore(folder.as_posix())
        opened = DeviceSession(store, session.id or session.base, session.base)
        opened.claimed = True  # a copy gets no line in sessions.txt
        opened.close()
        work(opened)
        opened.close()
    except (StorageError, OSError) as error:
        raise UserError(f"{session.base} in {folder} could not be mended: {error}", 1)
    notices: list[str] = opened.take_notices()
    return notices


def _label(record: Record) -> str:
    """A record in a few words."""
    text = next((m.text or "".join(c.name for c in m.calls) for m in messages_of(record)), "")
    line = " ".join(text.split())
    short = line if len(line) <= 40 else line[:39] + "…"
    return f"record {record.number} ({record.rtype.name.lower()}): {short}"


def _compare(outcome: Outcome, before: SessionPair, after: SessionPair) -> None:
    """Fill in what was kept, dropped, changed and added; order is kept by the device."""
    new, old = Counter(r.raw for r in after.records), Counter(r.raw for r in before.records)
    outcome.kept = (new & old).total()
    gone = _left_over(before.records, old - new)
    come = _left_over(after.records, new - old)
    # Records are never reordered: a new one that stands for an old one has its kind and turn.
    for record in gone:
        line = next((r for r in come if not r.ok and record.raw in r.raw), None)
        if line is not None:
            outcome.changed.append(f"{_label(record)}, now part of damaged record {line.number}")
            continue
        match = next((r for r in come if r.rtype == record.rtype and _stands_for(r, record)), None)
        if match is None:
            outcome.dropped.append(_label(record))
        else:
            come.remove(match)
            outcome.changed.append(_label(record))
    for part in before.fragments:
        whole = next((r for r in come if r.raw == part.raw), None)
        if whole is not None:
            come.remove(whole)
            outcome.changed.append(f"{_label(whole)}, which got its line end")
        elif f"{outcome.file}.bad" not in outcome.moved:
            text = f"{len(part.raw)} bytes of an unfinished write at byte {part.offset}"
            outcome.dropped.append(text)
    joined = [r for r in come if not r.ok and any(old.raw in r.raw for old in gone)]
    outcome.added = [_label(record) for record in come if record not in joined]
    outcome.size_before, outcome.size_after = before.data_size, after.data_size
    outcome.left = [finding for finding in after.findings if finding.is_fault]


def _left_over(records: tuple[Record, ...], wanted: Counter[bytes]) -> list[Record]:
    rest = Counter(wanted)
    found = []
    for record in records:
        if rest[record.raw] > 0:
            rest[record.raw] -= 1
            found.append(record)
    return found


def _stands_for(new: Record, old: Record) -> bool:
    """True if a record is another with reasoning taken out or results replaced by stand-ins."""
    if not new.ok or not old.ok or type(new.value) is not type(old.value):
        return False
    if isinstance(new.value, list):
        ids = [[m.call_id for m in messages_of(record)] for record in (new, old)]
        return ids[0] == ids[1]
    gone = ("reasoning", "reasoning_content")
    kept = {k: v for k, v in old.value.items() if k not in gone}
    return bool(new.value == kept)


def _set_aside(folder: Path, base: str) -> dict[str, bytes]:
    paths = [path for path in sorted(folder.iterdir()) if path.suffix in (".bad", ".old")]
    return {path.name: path.read_bytes() for path in paths if path.name.startswith(base)}


def _outcome(session: Session, folder: Path, name: str, work: Callable[[Any], None]) -> Outcome:
    outcome = Outcome(session.title, name)
    before = session.pair
    if before.read_only:
        outcome.untouched = "its idx is of an unknown version: left as it is"
        outcome.kept = len(before.records)
        return outcome
    had = _set_aside(folder, session.base)
    outcome.notices = _on_device(folder, session, work)
    for aside, content in _set_aside(folder, session.base).items():
        if had.get(aside) != content:
            outcome.moved[aside] = len(content)
    after = load_catalog(DirectorySource(folder)).find(session.base).pair
    _compare(outcome, before, after)
    return outcome


def repair(catalog: Catalog, sessions: list[Session], out: Path) -> list[Outcome]:
    """Mend copies of the sessions in the new directory `out`, as a board does at its start."""
    if not sessions:
        raise UserError(f"No sessions in {catalog.label}: nothing to repair.")
    _empty_folder(out)
    _copy_out(catalog, sessions, out)
    return [_outcome(session, out, session.base, lambda opened: None) for session in sessions]


def repair_maps(catalog: Catalog, out: Path) -> list[str]:
    """Make damaged chat maps of the copy in `out` again; returns what the device told."""
    from upyclaw.storage import SessionStore
    from upyclaw.storage.chatmap import ChatMap

    store = SessionStore(out.as_posix())
    keys = {one.id.rpartition(":")[0] for one in catalog.sessions if one.id is not None}
    told: list[str] = []
    for path in sorted({f.file for f in catalog.findings if "chat_map/" in f.file}):
        name = path.rpartition("/")[2]
        place = out / "chat_map" / name
        found = _KEY.search(place.read_bytes()) if place.is_file() else None
        known = {*keys, found[1].decode()} if found is not None else keys
        for key in sorted(known):
            if chat_map_file_name(key) == name:
                told += ChatMap(store, key).take_notices()
    return told


def _tidy(opened: Any) -> None:
    from upyclaw.storage import compact

    compact.tidy(opened)


def compact_copy(catalog: Catalog, session: Session, out: Path) -> Outcome:
    """Compact a copy of the session in the new directory `out`, whatever its size is."""
    _empty_folder(out)
    _copy_out(catalog, [session], out)
    return _outcome(session, out, session.base, _tidy)


def compact_in_place(catalog: Catalog, session: Session) -> Outcome:
    """Compact the session where it lies, in a directory or an image that no board runs on."""
    source = session.source
    if isinstance(source, ImageSource):
        return _compact_in_image(catalog, session)
    if not isinstance(source, DirectorySource):
        raise UserError(
            f"The board at {catalog.label} compacts its sessions by itself: use --out DIR for a "
            "compacted copy, or /session trim in the chat."
        )
    folder = source.root / catalog.folder
    if shutil.disk_usage(folder).free < 2 * session.pair.data_size + 65536:
        raise UserError(f"There is no room in {folder} to compact {session.title}.")
    session.pair  # noqa: B018  read before it changes
    return _outcome(session, folder, session.base, _tidy)


def _compact_in_image(catalog: Catalog, session: Session) -> Outcome:
    """Compact a copy and put back what changed, the data before the idx that follows from it."""
    with open_image(catalog.label, write=True) as image, tempfile.TemporaryDirectory() as name:
        # Read again under the lock: a board may have run on it until now.
        fresh = load_catalog(ImageSource(Path(catalog.label)))
        session = fresh.find(session.base)
        outcome = compact_copy(fresh, session, Path(name))
        had = {Path(path).name: session.bytes.parts[role] for role, path in session.files.items()}
        made = {path.name: path.read_bytes() for path in Path(name).glob(f"{session.base}*")}
        for file in sorted(made):
            if made[file] != had.get(file):
                image.write(f"{fresh.folder}/{file}", made[file])
        for file in had.keys() - made.keys():
            image.remove(f"{fresh.folder}/{file}")
    return outcome
