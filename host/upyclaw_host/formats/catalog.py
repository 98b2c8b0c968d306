"""All sessions of a source: which files belong together, what they are called, where they lie.

Owns: the folder layout (`data/sessions`, `chat_map/`) and finding a session by id, alias or name.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

from upyclaw_host.errors import UserError
from upyclaw_host.formats.chatmap import ChatMap, parse_chat_map
from upyclaw_host.formats.findings import Finding, Severity
from upyclaw_host.formats.namelist import FILE_NAME, parse_name_list
from upyclaw_host.formats.names import parse_session_file, session_file_name
from upyclaw_host.formats.session import SessionBytes, SessionPair, read_session

#: Folders that may hold session files, the first that does counts. "" is the source itself.
FOLDERS = ("data/sessions", "sessions", "")


class FileSource(Protocol):
    """What the catalogue needs of a source (see `upyclaw_host.source`)."""

    label: str
    live: bool
    findings: list[Finding]

    def files(self) -> dict[str, int]:
        """Path (with `/`, relative) -> size in bytes."""

    def read(self, path: str) -> bytes:
        """Content of a file; what can't be read is told in `findings`."""


@dataclass
class Session:
    """A session of a source. The files are read when `pair` is asked for."""

    base: str
    folder: str
    files: dict[str, str]  # role -> path in the source
    sizes: dict[str, int]
    source: FileSource
    id: str | None = None
    alias: str | None = None
    chat: str | None = None
    current: bool = False

    @cached_property
    def bytes(self) -> SessionBytes:
        """The files as they are."""
        parts = {role: self.source.read(path) for role, path in self.files.items()}
        return SessionBytes(self.base, parts, dict(self.files), self.source.live)

    @cached_property
    def pair(self) -> SessionPair:
        """The session as the witness reads it."""
        return read_session(self.bytes)

    @property
    def title(self) -> str:
        """The shortest name that people know it by."""
        return self.alias or self.id or self.base

    def all_findings(self) -> list[Finding]:
        """Findings of the pair and of reading its files."""
        pair = self.pair
        mine = set(self.files.values())
        return [f for f in self.source.findings if f.file in mine] + list(pair.findings)


@dataclass
class Catalog:
    """The sessions of one source and its chat maps."""

    label: str
    folder: str
    sessions: list[Session] = field(default_factory=list)
    maps: list[ChatMap] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    def find(self, wanted: str | None) -> Session:
        """The session with that id, alias or file name; UserError if there is none or several.

        Without a name the only session, or the current one of the only chat.
        """
        if wanted is None:
            return self._only()
        if wanted.endswith(".old"):
            return self._trimmed(wanted.rpartition("/")[2])
        names = {wanted, wanted.rpartition("/")[2], session_file_name(wanted)}
        fits = [s for s in self.sessions if _answers(s, names)]
        fits = fits or [s for s in self.sessions if wanted == s.alias]
        if len(fits) == 1:
            return fits[0]
        if fits:
            chats = ", ".join(str(s.id) for s in fits)
            raise UserError(
                f'"{wanted}" names several sessions of {self.label}: say one of {chats}.'
            )
        raise UserError(f'No session "{wanted}" in {self.label}; there are: {self._listing()}.')

    def _trimmed(self, name: str) -> Session:
        """The turns that were trimmed away, as a session of their own (it has no idx)."""
        for session in self.sessions:
            path = session.files.get("old", "")
            if path.rpartition("/")[2] == name:
                size = session.sizes["old"]
                return Session(name, self.folder, {"data": path}, {"data": size}, session.source)
        raise UserError(f'No "{name}" in {self.label}: nothing was trimmed from that session.')

    def _only(self) -> Session:
        if len(self.sessions) == 1:
            return self.sessions[0]
        current = [s for s in self.sessions if s.current]
        if len(current) == 1:
            return current[0]
        if not self.sessions:
            raise UserError(f"No sessions in {self.label}: no file s_*.log in it.")
        raise UserError(f"Say which session of {self.label}: {self._listing()}.")

    def _listing(self) -> str:
        names = [s.title for s in self.sessions]
        more = f" and {len(names) - 20} more" if len(names) > 20 else ""
        return (", ".join(names[:20]) + more) or "none"


def _answers(session: Session, names: Iterable[str]) -> bool:
    known = {session.id, session.base, session.base[: -len(".log")]}
    known.update(path.rpartition("/")[2] for path in session.files.values())
    return any(name in known for name in names)


def _folder(paths: Iterable[str]) -> str:
    """The folder that holds session files; the default one if none does."""
    found = set()
    for path in paths:
        parent, _, name = path.rpartition("/")
        if parse_session_file(name) is not None:
            found.add(parent)
        elif parent.rpartition("/")[2] == "chat_map" or parent == "chat_map":
            found.add(parent.rpartition("/")[0])
    return next((folder for folder in FOLDERS if folder in found), "")


def load_catalog(source: FileSource) -> Catalog:
    """List the sessions of a source. Reads the chat maps, not yet the sessions."""
    files = source.files()
    folder = _folder(files)
    prefix = f"{folder}/" if folder else ""
    catalog = Catalog(source.label, folder)
    groups: dict[str, Session] = {}
    owners: dict[str, str] = {}
    for path in sorted(files):
        if not path.startswith(prefix):
            continue
        name = path[len(prefix) :]
        if fnmatch.fnmatchcase(name, "chat_map/chat_*.json"):
            found, told = parse_chat_map(source.read(path), path)
            catalog.findings.extend(told)
            if found is not None:
                catalog.maps.append(found)
        elif name == FILE_NAME:
            owners, told = parse_name_list(source.read(path), path)
            catalog.findings.extend(told)
        elif "/" not in name:
            _sort_in(name, path, files[path], groups, source, catalog)
    catalog.sessions = [s for s in groups.values() if s.files]
    _name_sessions(catalog, owners)
    return catalog


def _sort_in(
    name: str,
    path: str,
    size: int,
    groups: dict[str, Session],
    source: FileSource,
    catalog: Catalog,
) -> None:
    parsed = parse_session_file(name)
    if parsed is None:
        if name.startswith("s_"):
            text = "not a name of a session file; left alone"
            catalog.findings.append(Finding(path, None, "stray-file", text, Severity.INFO))
        return
    session = groups.get(parsed.base)
    if session is None:
        session = groups[parsed.base] = Session(parsed.base, catalog.folder, {}, {}, source)
    if parsed.role in ("other", "bad"):
        text = f"belongs to {parsed.base}; not read"
        catalog.findings.append(Finding(path, None, "side-file", text, Severity.INFO))
        return
    session.files[parsed.role] = path
    session.sizes[parsed.role] = size


def _name_sessions(catalog: Catalog, owners: dict[str, str]) -> None:
    by_base = {session.base: session for session in catalog.sessions}
    for one in catalog.sessions:
        one.id = owners.get(one.base)
        if one.id is not None and "chat:" in one.id:
            one.chat, _, one.alias = one.id.rpartition(":")
    for chat in catalog.maps:
        for base, alias in chat.files().items():
            session = by_base.get(base)
            if session is not None:
                session.id, session.alias = chat.session_id(alias), alias
                session.chat, session.current = chat.key, alias == chat.current
