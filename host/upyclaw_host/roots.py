"""The root certificates a board needs to check its model server: from certifi, as few as possible.

Owns the choice: the root that the server's own chain leads to if the server can be asked, else
those of the usual providers. Must not touch the board.
"""

from __future__ import annotations

import socket
import ssl
from typing import Any
from urllib.parse import urlsplit

import certifi

from upyclaw_host.errors import UserError

BOARD_FILE = "/ca.crt"  # the board's default for model.ca
_SECONDS = 6.0

# Where the chains of the usual providers lead (Google, Let's Encrypt, DigiCert, Amazon).
_USUAL = (
    "GTS Root R1",
    "GTS Root R4",
    "ISRG Root X1",
    "ISRG Root X2",
    "DigiCert Global Root G2",
    "Amazon Root CA 1",
)


def root_certificates(base_url: str) -> bytes | None:
    """What goes to `/ca.crt` for this base URL: roots in DER form, one behind the other.

    None for http://. Raises UserError if the server answers with a certificate that nobody here
    trusts: such a server needs its CA given by hand.
    """
    parts = urlsplit(base_url.strip())
    if parts.scheme.lower() != "https" or not parts.hostname:
        return None
    try:
        return asked_root(parts.hostname, parts.port or 443)
    except ssl.SSLCertVerificationError as error:
        raise UserError(
            f"{parts.hostname} has a certificate that is not trusted here "
            f"({error.verify_message}); give the board its CA with --ca FILE."
        ) from None
    except (OSError, AttributeError):
        # Not reachable from this PC, or a Python that does not show the chain.
        return usual_roots()


def for_settings(
    after: dict[str, Any], before: dict[str, Any], held: bytes | None
) -> dict[str, bytes]:
    """Path -> roots to put on a board whose settings become `after`; nothing where what is there
    will do. `held`: the board's file of roots, None if it has none. Raises UserError."""
    url = str(_model(after).get("base_url", ""))
    if not url or (held is not None and url == _model(before).get("base_url")):
        return {}
    roots = root_certificates(url)
    return {} if roots is None else {ca_path(after): roots}


def ca_path(board_settings: dict[str, Any]) -> str:
    """Where a board with these settings looks for its roots."""
    return str(_model(board_settings).get("ca") or BOARD_FILE)


def _model(board_settings: dict[str, Any]) -> dict[str, Any]:
    group = board_settings.get("model")
    return group if isinstance(group, dict) else {}


def asked_root(host: str, port: int, context: ssl.SSLContext | None = None) -> bytes:
    """The root (DER) that the chain of the server at `host` leads to. Raises OSError."""
    context = context or ssl.create_default_context(cafile=certifi.where())
    with socket.create_connection((host, port), timeout=_SECONDS) as plain:
        with context.wrap_socket(plain, server_hostname=host) as tls:
            if hasattr(tls, "get_verified_chain"):  # Python 3.13
                chain: list[Any] = tls.get_verified_chain()
                return bytes(chain[-1])
            inner: Any = tls._sslobj  # type: ignore[attr-defined]
            pem: str = inner.get_verified_chain()[-1].public_bytes()
            return ssl.PEM_cert_to_DER_cert(pem)


def usual_roots() -> bytes:
    """The roots of the usual providers, DER, one behind the other; about 6 KB."""
    context = ssl.create_default_context(cafile=certifi.where())
    facts = context.get_ca_certs()
    data = context.get_ca_certs(binary_form=True)
    found = [der for fact, der in zip(facts, data, strict=True) if _name(fact) in _USUAL]
    return b"".join(found)


def read_ca(data: bytes, origin: str) -> bytes:
    """A CA file given by the user, DER or PEM, in the form that boards read. Raises UserError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        if b"-----BEGIN" in data:
            context.load_verify_locations(cadata=data.decode("ascii", "replace"))
        else:
            context.load_verify_locations(cadata=data)
    except (ssl.SSLError, ValueError):
        pass
    found = b"".join(context.get_ca_certs(binary_form=True))
    if not found:
        raise UserError(f"{origin} holds no CA certificate in DER or PEM form.")
    return found


def _name(fact: Any) -> str:
    for group in fact.get("subject", ()):
        for key, value in group:
            if key == "commonName":
                return str(value)
    return ""
