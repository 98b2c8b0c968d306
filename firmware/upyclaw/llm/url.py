"""One endpoint from any spelling of a base URL (B10)."""

_TAILS = ("/chat/completions", "/completions", "/chat", "/models")


class BadURL(ValueError):
    """The setting cannot be used; the text is one sentence that names it."""


def _is_version(part):
    return part[:1] == "v" and part[1:2].isdigit()


def endpoint(base_url):
    """(tls, host, port, path) of the URL that takes chat requests.

    `/v1` is added where the path has no version. Raises BadURL: no scheme, host or port number.
    """
    text = base_url.strip()
    scheme, mark, rest = text.partition("://")
    scheme = scheme.lower()
    authority, _, path = rest.partition("/")
    # What stands before an @ may be a password: never repeated.
    shown = scheme + mark + rest[rest.rfind("@") + 1 :]
    if not mark or scheme not in ("http", "https") or not authority:
        raise BadURL(
            "model.base_url in /config.json must begin with http:// or https:// and a host; "
            'it is "{}".'.format(shown[:60])
        )
    if "@" in authority:
        raise BadURL(
            "model.base_url in /config.json must hold no name or password; the key goes into "
            "model.api_key."
        )
    host, _, port = authority.partition(":")
    tls = scheme == "https"
    port = port or ("443" if tls else "80")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise BadURL(
            'model.base_url in /config.json has a wrong host or port: "{}".'.format(shown[:60])
        )
    path = path.partition("?")[0].partition("#")[0]
    parts = [part for part in path.split("/") if part]
    path = "".join(["/" + part for part in parts])
    for tail in _TAILS:
        if path.endswith(tail):
            path = path[: -len(tail)]
            break
    if not any([_is_version(part) for part in path.split("/")]):
        path += "/v1"
    return tls, host, int(port), path + "/chat/completions"
