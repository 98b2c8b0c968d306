"""What a reader has to say about a file: where, what, how bad."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any


class Severity(str, Enum):
    """How bad a finding is. `INFO` is a normal state that a reader may wonder about."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True)
class Finding:
    """One fault or remark.

    `file` is the path as the source shows it; `offset` the byte in that file (0-based) where it
    begins, or None if it concerns the file as a whole; `code` a fixed word for programs; `record`
    the number of the record (0-based) if it concerns one.
    """

    file: str
    offset: int | None
    code: str
    message: str
    severity: Severity
    record: int | None = None

    @property
    def is_fault(self) -> bool:
        """True if `verify` should end with exit code 1 because of it."""
        return self.severity is not Severity.INFO

    def as_dict(self) -> dict[str, Any]:
        """The finding as plain JSON values."""
        return {
            "file": self.file,
            "offset": self.offset,
            "record": self.record,
            "code": self.code,
            "severity": self.severity.value,
            "message": self.message,
        }


class Report:
    """Collects findings about one file, so that a check says what it saw in one line."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.findings: list[Finding] = []

    def info(self, code: str, offset: int | None, message: str, record: int | None = None) -> None:
        """A normal state."""
        self.add(Severity.INFO, code, offset, message, record)

    def warning(
        self, code: str, offset: int | None, message: str, record: int | None = None
    ) -> None:
        """Something is not as it should be; no record is lost by it."""
        self.add(Severity.WARNING, code, offset, message, record)

    def error(
        self, code: str, offset: int | None, message: str, record: int | None = None
    ) -> None:
        """Bytes are damaged or missing."""
        self.add(Severity.ERROR, code, offset, message, record)

    def add(
        self,
        severity: Severity,
        code: str,
        offset: int | None,
        message: str,
        record: int | None = None,
    ) -> None:
        """A finding of any severity."""
        self.findings.append(Finding(self.file, offset, code, message, severity, record))


def has_faults(findings: Iterable[Finding]) -> bool:
    """True if any finding is a warning or an error."""
    return any(finding.is_fault for finding in findings)
