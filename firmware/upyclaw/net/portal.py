"""The board's own Wi-Fi with a page that asks for the real one, while no network is known.

Owns the access point, its web page and the name server that leads every name to that page. The
access point is encrypted with a code that is shown on the serial line alone: who cannot see the
board cannot set it up, and the password that is typed is not in the clear on air. It goes off when
a network is known, or after a while. Loaded for that time only.
"""

import asyncio
import os
import socket

import network

from upyclaw.compat import sleep_ms, ticks_diff, ticks_ms

_OPEN = 900000  # ms the access point stays without being used
_CLIENTS = 3
_PATIENCE = 10000  # ms for one request
_REQUEST = 3072  # bytes of one

_PAGE = """<!DOCTYPE html><html><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1"><title>upyclaw</title>
<style>body{font:18px sans-serif;max-width:24em;margin:2em auto;padding:0 1em}
input{font:inherit;width:100%;margin:.3em 0 1em;box-sizing:border-box}</style></head><body>
<h1>upyclaw</h1><p>__NOTE__</p><form method="post" action="/">
<label>Wi-Fi<input name="s" maxlength="32" required autocapitalize="none"></label>
<label>Password / \u5bc6\u7801<input name="p" type="password" maxlength="63"></label>
<input type="submit" value="OK"></form></body></html>"""


def form_values(data):
    """{name: text} of a URL-encoded form. Raises ValueError, UnicodeError."""
    out = {}
    for field in data.split(b"&"):
        name, _, value = field.partition(b"=")
        parts = value.replace(b"+", b" ").split(b"%")
        text = parts[0]
        for part in parts[1:]:
            if len(part) < 2:
                raise ValueError
            text += bytes((int(part[:2].decode(), 16),)) + part[2:]
        out[name.decode()] = text.decode()
    return out


def dns_answer(question, address):
    """The DNS message that gives `address` (4 bytes) for the name asked for; None if `question`
    is no question with one name."""
    if len(question) < 17 or question[2] & 0x80 or question[4:6] != b"\x00\x01":
        return None
    at = 12
    while at < len(question) and question[at]:
        at += question[at] + 1
    asked = question[12 : at + 5]
    if len(question) < at + 5:
        return None
    # Only addresses are answered; for anything else there is "none".
    count = 1 if asked[-4:-2] == b"\x00\x01" else 0
    out = question[:2] + b"\x81\x80\x00\x01" + bytes((0, count)) + b"\0\0\0\0" + asked
    if count:
        out += b"\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x0a\x00\x04" + address
    return out


class Portal:
    """`name`: of the board. `port`: of the page. `code`: password of the access point."""

    def __init__(self, name, port, log):
        number = 0
        for byte in os.urandom(4):
            number = number * 256 + byte
        self.code = "{:08d}".format(number % 100000000)
        self.ssid = name[:23] + "-setup"
        self._port = port
        self._log = log
        self._clients = 0
        self._used = ticks_ms()
        self._ap = network.WLAN(network.AP_IF)

    def start(self):
        """Open the access point; the sentence that tells how to use it. Raises OSError."""
        ap = self._ap
        network.hostname(self.ssid)
        try:
            # Never open for a moment, where the chip takes it before the start.
            ap.config(ssid=self.ssid, security=3, key=self.code)
        except (OSError, ValueError):
            pass
        ap.active(True)
        ap.config(ssid=self.ssid, security=3, key=self.code)
        port = "" if self._port == 80 else ":{}".format(self._port)
        return (
            "No Wi-Fi network is known: join {} with the code {} and open http://{}{}/ to set "
            "one up."
        ).format(self.ssid, self.code, ap.ifconfig()[0], port)

    def close(self):
        """Close the access point."""
        self._ap.active(False)

    async def run(self, stop):
        """Serve until the Event `stop` is set or nobody came for a quarter of an hour. Raises
        OSError."""
        self._stop = stop
        server = await asyncio.start_server(self._serve, "0.0.0.0", self._port)
        names = asyncio.create_task(self._names(self._ap.ifconfig()[0]))
        try:
            while not stop.is_set() and ticks_diff(ticks_ms(), self._used) < _OPEN:
                await sleep_ms(250)
            if stop.is_set():
                await sleep_ms(1000)  # the page's last words
        finally:
            names.cancel()
            server.close()

    async def _names(self, address):
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        packed = bytes([int(part) for part in address.split(".")])
        port = 53 if self._port == 80 else self._port + 1
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(socket.getaddrinfo("0.0.0.0", port)[0][-1])
            while True:
                try:
                    question, who = sock.recvfrom(256)
                    answer = dns_answer(question, packed)
                    if answer:
                        sock.sendto(answer, who)
                except OSError:
                    await sleep_ms(50)
        except OSError as error:
            self._log("The set-up page has no name server ({}).".format(error))
        finally:
            sock.close()

    async def _serve(self, reader, writer):
        self._clients += 1
        # The limit is on the request as a whole; a task that watches needs no wait_for.
        task = asyncio.current_task()
        watch = asyncio.create_task(self._watch(task))
        try:
            if self._clients <= _CLIENTS:
                self._used = ticks_ms()
                await self._page(reader, writer)
        except (OSError, ValueError, UnicodeError, MemoryError, asyncio.CancelledError):
            pass  # no page for who sends no request
        finally:
            watch.cancel()
            self._clients -= 1
            writer.close()
            await writer.wait_closed()

    async def _watch(self, task):
        await sleep_ms(_PATIENCE)
        task.cancel()

    async def _page(self, reader, writer):
        data = b""
        need = 0
        while need == 0 or len(data) < need:
            piece = await reader.read(256)
            data += piece
            if not piece or len(data) > _REQUEST:
                raise ValueError
            end = data.find(b"\r\n\r\n")
            if end >= 0 and need == 0:
                need = end + 4 + self._length(data[:end])
        note = "Which Wi-Fi shall the board join?"
        if data.startswith(b"POST"):
            note = self._set(form_values(data[end + 4 : need]))
        body = _PAGE.replace("__NOTE__", note).encode()
        head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n"
        head += "Cache-Control: no-store\r\nContent-Length: {}\r\n\r\n".format(len(body))
        writer.write(head.encode() + body)
        await writer.drain()

    def _length(self, head):
        """Bytes of the body that follows `head`."""
        at = head.lower().find(b"\r\ncontent-length:")
        if at < 0:
            return 0
        return int(head[at + 17 :].partition(b"\r\n")[0].decode())

    def _set(self, form):
        from upyclaw.net import known
        from upyclaw.storage.files import StorageError

        try:
            problem = known.add(form.get("s"), form.get("p", ""))
        except StorageError as error:
            problem = str(error)
        if problem:
            return problem
        self._stop.set()
        return "The board joins that network now; this one goes away."
