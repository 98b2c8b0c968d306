"""A progress bar on stderr for work in bytes, and nothing where stderr is no terminal."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn


@contextlib.contextmanager
def byte_bar(what: str, total: int = 0) -> Iterator[tuple[Callable[[int], None], Progress]]:
    """(advance(bytes), the bar). A total of 0 is set later with `set_total`."""
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        disable=not Console(stderr=True).is_terminal,
    )
    with bar:
        task = bar.add_task(what, total=total or None)
        yield lambda count: bar.advance(task, count), bar


def set_total(bar: Progress, total: int) -> None:
    """The bytes to come, once they are known."""
    bar.update(bar.task_ids[0], total=total)
