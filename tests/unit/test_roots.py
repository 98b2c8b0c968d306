"""Which root certificates go onto a board."""

from __future__ import annotations

import socket
import ssl
import threading
from pathlib import Path

import pytest
import trustme

from upyclaw_host import roots
from upyclaw_host.errors import UserError


class Server:
    """A TLS server that shakes hands and hangs up."""

    def __init__(self, authority: trustme.CA) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("localhost").configure_cert(context)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._context = context
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                plain, _ = self._listener.accept()
                self._context.wrap_socket(plain, server_side=True).close()
            except OSError:
                if self._listener.fileno() < 0:
                    return

    def close(self) -> None:
        self._listener.close()


@pytest.fixture
def authority() -> trustme.CA:
    return trustme.CA()


def der(authority: trustme.CA) -> bytes:
    return ssl.PEM_cert_to_DER_cert(authority.cert_pem.bytes().decode())


def test_the_root_of_the_servers_own_chain(authority: trustme.CA) -> None:
    middle = authority.create_child_ca()
    server = Server(middle)
    context = ssl.create_default_context()
    authority.configure_trust(context)
    trustme.CA().configure_trust(context)
    try:
        assert roots.asked_root("localhost", server.port, context) == der(authority)
    finally:
        server.close()


def test_a_server_nobody_trusts(authority: trustme.CA) -> None:
    server = Server(authority)
    try:
        with pytest.raises(UserError, match="--ca FILE"):
            roots.root_certificates(f"https://localhost:{server.port}/v1")
    finally:
        server.close()


def test_plain_http_needs_none() -> None:
    assert roots.root_certificates("http://localhost:11434") is None


def test_out_of_reach_takes_the_usual_roots() -> None:
    found = roots.root_certificates("https://localhost:9/v1")
    assert found == roots.usual_roots()
    assert 3000 < len(found) < 8192
    # As the board reads it: one certificate behind the other.
    at = count = 0
    while at < len(found):
        assert found[at : at + 2] == b"\x30\x82"
        at += 4 + int.from_bytes(found[at + 2 : at + 4], "big")
        count += 1
    assert at == len(found) and count == 6


def test_ca_files(authority: trustme.CA, tmp_path: Path) -> None:
    pem = authority.cert_pem.bytes()
    other = trustme.CA()
    assert roots.read_ca(pem, "x") == roots.read_ca(der(authority), "x") == der(authority)
    both = roots.read_ca(pem + b"\n" + other.cert_pem.bytes(), "x")
    assert both in (der(authority) + der(other), der(other) + der(authority))
    leaf = authority.issue_cert("localhost")
    for bad in (b"", b"nothing", leaf.private_key_pem.bytes(), pem[:200]):
        with pytest.raises(UserError, match=r"ca\.pem"):
            roots.read_ca(bad, "ca.pem")


def test_only_what_a_board_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def give(url: str) -> bytes:
        asked.append(url)
        return b"root"

    monkeypatch.setattr(roots, "root_certificates", give)
    here = {"model": {"base_url": "https://a/v1"}}
    moved = {"model": {"base_url": "https://b/v1", "ca": "/b.crt"}}
    assert roots.for_settings({}, {}, None) == {}
    assert roots.for_settings(here, {}, None) == {"/ca.crt": b"root"}
    assert roots.for_settings(here, here, b"root") == {}
    assert roots.for_settings(here, here, None) == {"/ca.crt": b"root"}
    assert roots.for_settings(moved, here, b"old") == {"/b.crt": b"root"}
    assert asked == ["https://a/v1", "https://a/v1", "https://b/v1"]
