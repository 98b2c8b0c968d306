"""The host's end of the link for asyncio programs: sessions, hello, messages on streams.

Owns the session's life (sync, hello, loss) and the sentences about it. The protocol is in
engine.py, the port in ports.py; what messages mean beyond `hello` is for the callers.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import time
from collections.abc import Callable
from typing import Any

from upyclaw_host import __version__
from upyclaw_host.errors import UserError
from upyclaw_host.link.diagnosis import no_answer, not_ours
from upyclaw_host.link.engine import STREAMS, VERSION, Engine
from upyclaw_host.link.ports import SerialTransport, Transport
from upyclaw_host.link.records import Hooks, Stats

CONTROL, CHAT, MODEL, EXTRACT = range(STREAMS)
HOST_RX = 4096
BACKLOG = 1024  # bytes of a stream that may wait before `send` waits too
MESSAGE_LIMIT = 8 * 1024 * 1024

_HELLOS = 3  # attempts while the board restarts in between
_PROMPT = b">>>"


class LinkDown(UserError):
    """The session with the board is over; `hello` may begin a new one while the port is there."""

    def __init__(self, message: str) -> None:
        super().__init__(message, exit_code=1)


class HostLink:
    """One port with one board behind it. Use from one event loop only.

    `closed` is set while there is no session; `error` then says why (None before the first hello
    and after `close`).
    """

    def __init__(
        self, transport: Transport, *, on_log: Callable[[str], None] | None = None
    ) -> None:
        self.name = transport.name
        self.closed = asyncio.Event()
        self.closed.set()
        self.error: LinkDown | None = None
        self.board: dict[str, Any] = {}
        self._transport = transport
        self._on_log = on_log
        self._loop = asyncio.get_running_loop()
        self._engine = Engine(Hooks(self._part, self._log, self._opened, self._lost))
        self._handlers: dict[int, Callable[[bytes], None]] = {}
        self._part_handlers: dict[int, Callable[[bytes, bool, bool], None]] = {}
        self._messages: list[bytearray] = [bytearray() for _ in range(STREAMS)]
        self._locks = [asyncio.Lock() for _ in range(STREAMS)]
        self._progress = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._epoch = 0
        self._link_version: int | None = None
        self._answers: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self._port_gone = False
        transport.start(
            lambda data: self._from_thread(self._received, data),
            lambda text: self._from_thread(self._port_failed, text),
        )

    @classmethod
    async def open(
        cls, port: str, baud: int = 115200, *, on_log: Callable[[str], None] | None = None
    ) -> HostLink:
        """Open `port` without resetting the board. Raises UserError."""
        transport = await asyncio.to_thread(SerialTransport, port, baud)
        return cls(transport, on_log=on_log)

    # -- for callers

    @property
    def stats(self) -> Stats:
        """Bytes and frames both ways since the port was opened."""
        return self._engine.stats

    def on(self, stream: int, callback: Callable[[bytes], None]) -> None:
        """Call `callback(message)` for each whole message on `stream`."""
        self._handlers[stream] = callback

    def on_part(self, stream: int, callback: Callable[[bytes, bool, bool], None]) -> None:
        """Call `callback(data, first, last)` for each part of a message as it comes."""
        self._part_handlers[stream] = callback

    async def hello(
        self, relay: dict[str, Any] | None = None, *, timeout: float = 8.0
    ) -> dict[str, Any]:
        """Begin a session: exchange versions, limits and the time. Returns the board's hello.

        `relay`: what answers model requests (provider, model, context) or None. Raises UserError.
        """
        for attempt in range(_HELLOS):
            if self._port_gone:
                raise self.error or LinkDown(f"The port {self.name} is closed.")
            await self._synchronise(timeout)
            try:
                self.board = await self._say_hello(relay, max(timeout, 3.0))
                break
            except LinkDown:
                # Opening the port makes some boards restart, however gently it is done (B23).
                if attempt == _HELLOS - 1 or self._engine.state == "open":
                    raise
        if self.board.get("version") != VERSION:
            await self.close_session()
            raise UserError(
                str(self.board.get("error") or "")
                or f"The board on {self.name} speaks version {self.board.get('version')} of the "
                f"link and this program version {VERSION}: update the older one."
            )
        self._engine.set_rx(int(self.board.get("rx", 0)))
        return self.board

    async def _say_hello(self, relay: dict[str, Any] | None, timeout: float) -> dict[str, Any]:
        now = time.time()
        message = {
            "op": "hello",
            "version": VERSION,
            "client": f"upyclaw {__version__}",
            "time": int(now),
            "tz": time.localtime(now).tm_gmtoff,
            "rx": HOST_RX,
            "relay": relay,
        }
        return await self._ask("hello", message, timeout)

    async def status(self, *, timeout: float = 5.0) -> dict[str, Any]:
        """Ask the board how it is (heap, flash, counters of its side of the link)."""
        return await self._ask("status", {"op": "status"}, timeout)

    async def ask(self, message: dict[str, Any], *, timeout: float = 5.0) -> dict[str, Any]:
        """Send a control message and wait for the board's answer with the same `op`."""
        return await self._ask(str(message["op"]), message, timeout)

    async def set_relay(self, relay: dict[str, Any] | None) -> None:
        """Tell the board that a relay came (its provider, model, context) or went (None)."""
        await self.control({"op": "relay", "relay": relay})

    async def control(self, message: dict[str, Any]) -> None:
        """Send one control message. Raises LinkDown."""
        await self.send(CONTROL, json.dumps(message, ensure_ascii=False).encode())

    async def send(self, stream: int, data: bytes, end: bool = True) -> None:
        """Send one message on `stream`, or a part of it. Raises LinkDown.

        Parts come from one task at a time; wait for `end` before others use the stream. Returns
        when all but the last kilobyte is on its way.
        """
        async with self._locks[stream]:
            self._check()
            epoch = self._epoch
            self._engine.send(stream, bytes(data), end)
            self._kick()
            while self._engine.waiting(stream) > BACKLOG:
                await self._wait_progress(epoch)

    async def drain(self) -> None:
        """Wait until the board has acknowledged everything. Raises LinkDown."""
        epoch = self._epoch
        self._check()
        while not self._engine.idle():
            await self._wait_progress(epoch)

    async def close_session(self) -> None:
        """Say goodbye to the board; the port stays open."""
        last = self._engine.close()
        if last and not self._port_gone:
            with contextlib.suppress(OSError):
                self._transport.write(last)
        self._end(None)

    async def close(self) -> None:
        """End the session and let go of the port."""
        await self.close_session()
        self._port_gone = True
        await asyncio.to_thread(self._transport.close)

    # -- the session

    async def _synchronise(self, timeout: float) -> None:
        loop = self._loop
        self._end(None)
        self._epoch = random.choice([n for n in range(1, 256) if n != self._epoch])
        self._link_version = None
        engine = self._engine
        engine.seen.clear()
        engine.partial = b""
        heard = engine.stats.rx_bytes
        engine.open(self._epoch, loop.time())
        self._kick()
        start = loop.time()
        restarted: float | None = None
        nudged = False
        while engine.state != "open":
            if self._port_gone:
                raise self.error or LinkDown(f"The port {self.name} is closed.")
            now = loop.time()
            if now - start > timeout:
                engine.close()
                raise no_answer(self.name, engine.stats.rx_bytes > heard, self._said(), timeout)
            if engine.partial.rstrip().endswith(_PROMPT):
                if restarted is None:
                    # Tools such as mpremote leave the board at its prompt with our app stopped.
                    self._log(
                        b"The board is at the MicroPython prompt: starting upyclaw (Ctrl-D)."
                    )
                    restarted = start = now
                    engine.partial = b""
                    engine.seen.clear()
                    self._write(b"\x04")
                elif now - restarted > 0.5:
                    engine.close()
                    raise not_ours(self.name, self._said())
            elif not nudged and now - start > 1.2 and engine.stats.rx_bytes == heard:
                # A tool may have left it in the raw REPL, which says nothing: Ctrl-B leaves that.
                nudged = True
                self._write(b"\x02\n")
            await self._pause(0.05)
        if self._link_version != VERSION:
            await self.close_session()
            raise UserError(
                f"The board on {self.name} speaks version {self._link_version} of the link and "
                f"this program version {VERSION}: update the older one."
            )
        self.error = None
        self.closed.clear()

    def _said(self) -> str:
        """The last that came and was no frame."""
        data = bytes(self._engine.seen) + self._engine.partial
        return data.decode("utf-8", "replace")

    async def _ask(self, op: str, message: dict[str, Any], timeout: float) -> dict[str, Any]:
        answer: asyncio.Future[dict[str, Any]] = self._loop.create_future()
        self._answers[op] = answer
        try:
            await self.control(message)
            return await asyncio.wait_for(answer, timeout)
        except asyncio.TimeoutError:
            raise LinkDown(
                f"The board on {self.name} did not answer `{op}` within {timeout:.0f} s."
            ) from None
        finally:
            self._answers.pop(op, None)

    def _opened(self, version: int) -> None:
        self._link_version = version
        self._progress.set()

    def _lost(self, why: str) -> None:
        if why == "reset":
            text = f"The board on {self.name} restarted."
        else:
            text = f"The board on {self.name} does not answer any more: check cable and power."
        self._end(LinkDown(text))

    def _port_failed(self, text: str) -> None:
        if self._port_gone:
            return
        self._port_gone = True
        self._engine.close()
        self._end(LinkDown(f"The port {self.name} is gone: was the cable pulled? ({text})"))

    def _end(self, error: LinkDown | None) -> None:
        """No session any more: everything that waits fails with one sentence."""
        self.error = error
        self.closed.set()
        for message in self._messages:
            message.clear()
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(error or LinkDown(f"The link to {self.name} was closed."))
                answer.exception()  # seen, even if nobody waits any more
        self._progress.set()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check(self) -> None:
        if self._engine.state != "open":
            raise self.error or LinkDown(f"There is no session with the board on {self.name}.")

    async def _wait_progress(self, epoch: int) -> None:
        self._progress.clear()
        await self._progress.wait()
        self._check()
        if epoch != self._epoch:
            raise LinkDown(f"The session with the board on {self.name} was begun anew.")

    async def _pause(self, seconds: float) -> None:
        self._progress.clear()
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._progress.wait(), seconds)

    # -- bytes

    def _from_thread(self, function: Callable[[Any], None], value: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(function, value)

    def _received(self, data: bytes) -> None:
        if self._port_gone:
            return
        self._engine.feed(data, self._loop.time())
        self._progress.set()
        self._kick()

    def _kick(self) -> None:
        """Write what is due and set the alarm for what comes next."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._port_gone:
            return
        now = self._loop.time()
        out = self._engine.poll(now)
        if out:
            self._write(out)
            self._progress.set()
        deadline = self._engine.deadline(now)
        if deadline is not None and not self._port_gone:
            self._timer = self._loop.call_at(max(deadline, now + 0.002), self._kick)

    def _write(self, data: bytes) -> None:
        try:
            self._transport.write(data)
        except OSError as error:
            self._port_failed(str(error))

    def _log(self, line: bytes) -> None:
        if self._on_log is not None:
            self._on_log(line.decode("utf-8", "replace").strip())

    def _part(self, stream: int, data: bytes, first: bool, last: bool) -> None:
        callback = self._part_handlers.get(stream)
        if callback is not None:
            callback(data, first, last)
        message = self._messages[stream]
        if first:
            message.clear()
        if stream != CONTROL and stream not in self._handlers:
            return
        if len(message) + len(data) <= MESSAGE_LIMIT:
            message += data
        if not last:
            return
        whole = bytes(message)
        message.clear()
        if stream == CONTROL:
            self._control_message(whole)
        handler = self._handlers.get(stream)
        if handler is not None:
            handler(whole)

    def _control_message(self, text: bytes) -> None:
        try:
            message = json.loads(text)
        except ValueError:
            self._log(b"The board sent a control message that is not JSON.")
            return
        if isinstance(message, dict):
            answer = self._answers.get(str(message.get("op")))
            if answer is not None and not answer.done():
                answer.set_result(message)
