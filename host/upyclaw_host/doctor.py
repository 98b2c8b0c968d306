"""What is wrong with a board, in words, and what to do about it.

Owns the judgement: which findings need somebody, and the advice. Looking is done by those who read
files (`formats`, `board_request`, `flash.firmware`); nothing is changed.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from upyclaw_host import __version__
from upyclaw_host.board_request import CONFIG, read_settings
from upyclaw_host.boards import board_names, load_board
from upyclaw_host.errors import UserError
from upyclaw_host.flash.firmware import BOARD_FILE, LIST_FILE, firmware_files, parse_file_list
from upyclaw_host.flash.image import BLOCK_SIZE
from upyclaw_host.formats.catalog import Catalog, Session, load_catalog
from upyclaw_host.formats.findings import Finding
from upyclaw_host.formats.memory import load_memory
from upyclaw_host.formats.memory_items import CAPACITY
from upyclaw_host.source import DirectorySource, Source
from upyclaw_host.source_port import PortSource

_RESERVE = 8 * BLOCK_SIZE  # the board keeps so much for housekeeping and saves no turn below it
# Records that a board keeps as they are and leaves out of requests: there is nothing to mend.
_KEPT = {"not-json", "nul-byte", "no-message", "raw-control"}
_FAILED = "failed_starts.txt"
_UPDATES = ("upyclaw.new/", "upyclaw.ready/")


class State(str, Enum):
    """`HINT`: works, but somebody should know."""

    FINE = "fine"
    HINT = "hint"
    FAULT = "fault"


@dataclass(frozen=True)
class Check:
    """One thing that was looked at: what it is, how it is, and what to do if that is not fine."""

    what: str
    state: State
    says: str
    do: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"what": self.what, "state": self.state.value, "says": self.says, "do": self.do}


def examine(source: Source) -> list[Check]:
    """Look at everything. Raises UserError if `source` holds nothing of a board."""
    catalog = load_catalog(source)
    settings, on_settings = _settings(source)
    checks = [
        *_sessions(source, catalog, settings["session"]["limit"]),
        *_memory(source),
        *on_settings,
        *_flash(source, settings["session"]["limit"]),
        *_firmware(source),
    ]
    told = [check for check in checks if check.says]
    if isinstance(source, DirectorySource) and not told:
        raise UserError(
            f"{source.label} holds no files of a board: give a directory that was pulled from "
            "one, an image, or --port PORT."
        )
    # Last: what could not be read is known when all has been read.
    return [*_reading(source), *told]


def _place(source: Source) -> str:
    """How the other commands are told about this source."""
    return f"--port {source.label}" if isinstance(source, PortSource) else source.label


def _first(findings: Iterable[Finding]) -> str:
    """The first of some faults, with its place."""
    faults = [finding for finding in findings if finding.is_fault]
    one = faults[0]
    where = one.file if one.offset is None else f"{one.file}, byte {one.offset}"
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    return f"{where}: {one.message}{more}"


def _count(number: int, word: str) -> str:
    """`1 session`, `2 sessions`."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"


# -- what was said -------------------------------------------------------------------------------


def _reading(source: Source) -> Iterator[Check]:
    faults = [finding for finding in source.findings if finding.is_fault]
    if not faults:
        return
    do = "what can still be read is shown by the other commands; take it out with `flash get`."
    if any(finding.code == "short-copy" for finding in faults):
        do = "this is not damage on the board: copy it again."
    yield Check("reading", State.FAULT, _first(faults), do)


def _sessions(source: Source, catalog: Catalog, limit: int) -> Iterator[Check]:
    place = _place(source)
    maps = [finding for finding in catalog.findings if finding.is_fault]
    if maps:
        do = "the board makes it again from the session files at its next start."
        yield Check("sessions", State.FAULT, _first(maps), do)
    records, fine = 0, True
    for session in catalog.sessions:
        records += len(session.pair.records)
        for check in _session(session, place, limit):
            fine = fine and check.state is not State.FAULT
            yield check
    if catalog.sessions and fine and not maps:
        sessions = _count(len(catalog.sessions), "session")
        says = f"{sessions} with {_count(records, 'record')}, no faults."
        yield Check("sessions", State.FINE, says)
    elif not catalog.sessions and source.live:
        yield Check("sessions", State.FINE, "nothing was said yet.")


def _session(session: Session, place: str, limit: int) -> Iterator[Check]:
    pair, name = session.pair, session.title
    faults = [finding for finding in pair.findings if finding.is_fault]
    if pair.read_only:
        says = f"{name}: its idx is of a version that this upyclaw does not know."
        yield Check("sessions", State.FAULT, says, "bring upyclaw on the PC up to date.")
    elif faults and all(finding.code in _KEPT for finding in faults):
        do = "it can't be mended: it stays in the file and is left out of what the model gets."
        yield Check("sessions", State.FAULT, f"{name}: {_first(faults)}", do)
    elif faults:
        do = (
            "a board mends that when it opens the session and sets aside what is damaged; see "
            f"what would stay: upyclaw session repair {place} {name} --out DIR"
        )
        yield Check("sessions", State.FAULT, f"{name}: {_first(faults)}", do)
    if pair.blocked:
        do = "in the chat: /session trim drops its oldest turns, /session new starts another."
        yield Check("sessions", State.FAULT, f"{name} is full and takes no new lines.", do)
    elif pair.data_size > limit:
        says = f"{name} has {pair.data_size:,} of {limit:,} bytes."
        yield Check("sessions", State.HINT, says, "the board makes room with its next turn.")


def _memory(source: Source) -> Iterator[Check]:
    memory = load_memory(source)
    if memory is None:
        if source.live:
            yield Check("memory", State.FINE, "nothing is remembered yet.")
        return
    count = len(memory.items)
    if any(finding.is_fault for finding in memory.findings):
        do = (
            "a board keeps every whole record, sets aside what is damaged and makes the rest anew "
            f"at its next start; all of it: upyclaw memory verify {_place(source)}"
        )
        yield Check("memory", State.FAULT, _first(memory.findings), do)
    elif count >= CAPACITY:
        do = "each new one drives out the least used; /memory pin ID keeps one for good."
        yield Check("memory", State.HINT, f"all {CAPACITY} places are taken.", do)
    else:
        yield Check("memory", State.FINE, f"{count} of {CAPACITY} places taken, no faults.")


# -- the board -----------------------------------------------------------------------------------


def _settings(source: Source) -> tuple[dict[str, Any], list[Check]]:
    checks = []
    with tempfile.TemporaryDirectory(prefix="upyclaw-doctor-") as name:
        settings, problems = read_settings(source, Path(name))
    do = "put it right with `upyclaw install --set`, or write a new file with `mpremote cp`."
    if not isinstance(source, PortSource):
        do = "put it right in the file (`upyclaw flash get` and `put` for an image)."
    checks += [Check("settings", State.FAULT, problem, do) for problem in problems]
    if settings["model"]["base_url"] and settings["network"]["wifi"] == "on":
        known = _networks(source.optional("wifi.json"))
        if source.live and known == 0:
            says = "it has a model server, but knows no Wi-Fi network to reach it by."
            checks.append(Check("settings", State.HINT, says, "upyclaw wifi add --port PORT"))
    if not checks and (source.live or CONFIG in source.files()):
        checks.append(Check("settings", State.FINE, "nothing in them that the board ignores."))
    return settings, checks


def _networks(data: bytes | None) -> int:
    """How many networks a /wifi.json knows."""
    try:
        value = json.loads(data or b"{}")
        return len([one for one in value["networks"] if one["ssid"]])
    except (ValueError, KeyError, TypeError):
        return 0


def _flash(source: Source, limit: int) -> Iterator[Check]:
    aside = {
        path: size
        for path, size in source.files().items()
        if path.endswith((".bad", ".old")) and path.startswith("data/")
    }
    room = source.room()
    if room is None:
        return
    free, size = room
    do = "in the chat: /session delete NAME, /session trim."
    if aside:
        do += f" Set aside and not needed by the board: {', '.join(sorted(aside))}."
    says = f"{free // 1024:,} KB of {size // 1024:,} KB are free"
    if free <= _RESERVE:
        yield Check("flash", State.FAULT, f"{says}: new turns are not saved.", do)
    elif free < 2 * limit:
        # A full session is written anew beside the old one when it is compacted.
        yield Check("flash", State.HINT, f"{says}: a full session needs more to be tidied.", do)
    else:
        yield Check("flash", State.FINE, f"{says}.")


def _firmware(source: Source) -> Iterator[Check]:
    files = source.files()
    listed = source.optional(LIST_FILE.lstrip("/"))
    failed = source.optional(_FAILED)
    if not source.live and listed is None:
        return
    name = (source.optional(BOARD_FILE.lstrip("/")) or b"").decode("utf-8", "replace").strip()
    where = _place(source) if isinstance(source, PortSource) else "--port PORT"
    again = f"upyclaw install --board {name or 'NAME'} {where}"
    update = again if where != "--port PORT" else f"{again}; a simulated board does it by itself."
    if failed:
        reasons = failed.decode("utf-8", "replace").splitlines()
        says = f"{_count(len(reasons), 'start')} in a row failed, the last with {reasons[-1]}."
        yield Check("firmware", State.FAULT, says, again)
    if any(path.startswith(_UPDATES) for path in files):
        do = f"the board finishes it at its next start, or {again}"
        yield Check("firmware", State.HINT, "an update broke off.", do)
    if listed is None:
        yield Check("firmware", State.FAULT, "there is no upyclaw on it.", again)
        return
    hashes = parse_file_list(listed)
    if not isinstance(source, PortSource):
        for path, digest in hashes.items():
            have = files.get(path.lstrip("/"))
            if have is None or hashlib.sha256(source.read(path.lstrip("/"))).hexdigest() != digest:
                what = "is missing" if have is None else "is not what was installed"
                yield Check("firmware", State.FAULT, f"{path} {what}.", f"{again} --check")
                return
    if name not in board_names():
        says = f"it was installed for a board that is not known here ({name or 'no name'})."
        yield Check("firmware", State.HINT, says, update)
        return
    wanted = parse_file_list(firmware_files(board=load_board(name))[LIST_FILE])
    if wanted == hashes:
        yield Check("firmware", State.FINE, f"upyclaw {__version__} for {name}, as on this PC.")
    else:
        says = f"it has another version than this PC ({__version__}), for {name}."
        yield Check("firmware", State.HINT, says, update)
