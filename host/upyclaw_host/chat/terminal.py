"""The chat at the terminal: prompt, streamed answers, status line.

Owns what the person sees (prompt_toolkit, rich). All talk with the board goes through ChatClient.
"""

from __future__ import annotations

import asyncio
import contextlib
import html
import os
import signal
import sys
import termios
from collections.abc import Iterator
from pathlib import Path

from platformdirs import user_state_path
from prompt_toolkit import PromptSession
from prompt_toolkit.completion import WordCompleter
from prompt_toolkit.formatted_text import HTML
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.patch_stdout import patch_stdout
from rich.console import Console

from upyclaw_host.chat.client import ChatClient, TurnResult
from upyclaw_host.chat.web import WebClient, show_links
from upyclaw_host.chat.wrap import Wrapper
from upyclaw_host.errors import UserError
from upyclaw_host.plain import plain

COMMANDS = [
    *("/help", "/session", "/memory", "/profile", "/context", "/status", "/stop", "/web"),
    "/quit",
]

_BOARD = "board> "
_PATIENCE_S = 1.0  # without a word before something moves on the screen

HELP = """\
Type a line and press Enter; Alt-Enter (or Esc, Enter) starts a new line; a paste keeps its lines.
Ctrl-C stops an answer, Ctrl-D or /quit leaves, /web shows the link to the board's page.
What the board itself understands:"""


def _history() -> History:
    """Lines typed before, in the user's state directory (readable by the user alone)."""
    try:
        folder = user_state_path("upyclaw", ensure_exists=True)
        path = folder / "chat_history"
        Path(path).touch(mode=0o600)
        os.chmod(path, 0o600)
        return FileHistory(str(path))
    except OSError:
        return InMemoryHistory()


def size(count: int | None) -> str:
    """Bytes in words: `17 KB`, `1.4 MB`; `?` when unknown."""
    if count is None:
        return "?"
    if count < 1024 * 1024:
        return f"{count // 1024} KB"
    return f"{count / (1024 * 1024):.1f} MB"


@contextlib.contextmanager
def _keys_kept() -> Iterator[None]:
    """Between two prompts keys are neither shown in the middle of an answer nor taken as a line.

    The terminal's own line mode would lose some of them, a Ctrl-D for one; so they all wait for
    the next prompt. Ctrl-C still interrupts.
    """
    try:
        terminal = sys.stdin.fileno()
        before = termios.tcgetattr(terminal)
    except (OSError, ValueError, termios.error):
        yield  # no terminal
        return
    mode = list(before)
    mode[0] &= ~termios.ICRNL
    mode[3] &= ~(termios.ICANON | termios.ECHO)
    termios.tcsetattr(terminal, termios.TCSANOW, mode)
    try:
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSANOW, before)


class Terminal:
    """An interactive chat over a connected client."""

    def __init__(self, client: ChatClient | WebClient, provider: str, model: str) -> None:
        self._client = client
        self._provider = provider
        self._model = model
        self._console = Console(highlight=False)
        self._session: PromptSession[str] = PromptSession(
            history=_history(),
            completer=WordCompleter(COMMANDS, sentence=True),
            complete_while_typing=False,
            key_bindings=self._keys(),
            bottom_toolbar=self._status,
            multiline=False,
        )
        client.on_notice = self._notice

    @staticmethod
    def _keys() -> KeyBindings:
        keys = KeyBindings()

        @keys.add("escape", "enter")
        def _(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("\n")

        return keys

    def _status(self) -> HTML:
        hello = self._client.hello
        last = self._client.last or TurnResult(ok=True)
        session = last.session or hello.get("session") or "-"
        heap = last.heap_free if last.heap_free is not None else hello.get("heap_free")
        flash = last.flash_free if last.flash_free is not None else hello.get("flash_free")
        state = "" if self._client.connected else " <b>not connected</b> |"
        return HTML(
            f"{state} session <b>{html.escape(str(session))}</b> | heap {size(heap)} free | "
            f"flash {size(flash)} free | {html.escape(self._provider)}: "
            f"{html.escape(self._model)} "
        )

    def _notice(self, text: str) -> None:
        self._console.print(plain(text), style="dim italic", markup=False)

    async def run(self) -> int:
        """Read lines until Ctrl-D or /quit; the exit code."""
        with _keys_kept():
            return await self._run()

    async def _run(self) -> int:
        hello = self._client.hello
        self._console.print(
            f"upyclaw {hello.get('firmware', '')} on {hello.get('board', 'a board')}, "
            f"session {hello.get('session', '-')}. /help lists commands, Ctrl-D leaves.",
            style="bold",
            markup=False,
        )
        for notice in hello.get("notices") or []:
            self._console.print(notice, style="yellow", markup=False)
        while True:
            try:
                # Only here: the patched stdout holds back what has no line end, such as words.
                with patch_stdout(raw=True):
                    line = (await self._session.prompt_async("you> ")).strip()
            except KeyboardInterrupt:
                continue
            except EOFError:
                return await self._leave()
            if not line:
                continue
            if line in ("/quit", "/exit"):
                return await self._leave()
            if line == "/web":
                show_links(self._console, await self._client.web_links())
                continue
            if line == "/help":
                self._console.print(HELP, style="dim", markup=False)
            await self._turn(line)

    async def _leave(self) -> int:
        """Lend the model until the board has kept what was said; Ctrl-C ends the wait."""
        settled = asyncio.create_task(self._client.settle())
        done, _ = await asyncio.wait({settled}, timeout=0.5)
        if not done:
            words = "The board looks for what to remember; Ctrl-C leaves at once."
            self._console.print(words, style="dim", markup=False)
            loop = asyncio.get_running_loop()
            loop.add_signal_handler(signal.SIGINT, settled.cancel)
            try:
                await asyncio.wait({settled})
            finally:
                loop.remove_signal_handler(signal.SIGINT)
        return 0

    async def _turn(self, line: str) -> None:
        if not self._client.connected and not await self._again():
            return
        words: Wrapper | None = None
        waiting = self._console.status("[dim]Ctrl-C stops it[/dim]")
        patience = asyncio.get_running_loop().call_later(_PATIENCE_S, waiting.start)

        def waited() -> None:
            patience.cancel()
            waiting.stop()

        def show(text: str) -> None:
            self._console.print(text, end="", markup=False, soft_wrap=True)

        def on_text(piece: str) -> None:
            nonlocal words
            if words is None:
                waited()
                words = Wrapper(self._console.width, len(_BOARD))
                self._console.print(_BOARD, style="cyan", end="", markup=False)
            show(words.feed(plain(piece)))

        try:
            with self._interrupt():
                result = await self._client.turn(line, on_text, self._notice)
        finally:
            waited()
        if words is not None:
            show(words.finish() + "\n")
        if result.error:
            self._console.print(result.error, style="red", markup=False)

    async def _again(self) -> bool:
        try:
            await self._client.reconnect()
        except UserError as error:
            self._console.print(error.message, style="red", markup=False)
            return False
        self._console.print("Connected again.", style="dim")
        return True

    @contextlib.contextmanager
    def _interrupt(self) -> Iterator[None]:
        """Ctrl-C during an answer stops the answer, not the chat."""
        loop = asyncio.get_running_loop()
        tasks: set[asyncio.Task[None]] = set()

        def stop() -> None:
            task = loop.create_task(self._client.stop())
            tasks.add(task)
            task.add_done_callback(tasks.discard)

        loop.add_signal_handler(signal.SIGINT, stop)
        try:
            yield
        finally:
            loop.remove_signal_handler(signal.SIGINT)
