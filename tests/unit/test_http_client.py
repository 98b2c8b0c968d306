"""The board's HTTP client under real MicroPython, against real servers on the loopback."""

from __future__ import annotations

import asyncio
import datetime
import json
import ssl
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trustme

from unit.relay_rig import Answer, FakeServer, Seen, fault, serving, words
from upyclaw_host.roots import read_ca, usual_roots

HERE = Path(__file__).parent
FIRMWARE = HERE.parents[1] / "firmware"
KEY = "sk-test-0123456789abcdefSECRET"


async def run_jobs(
    folder: Path, jobs: list[dict[str, Any]], **model: Any
) -> tuple[list[dict[str, Any]], int]:
    """(results in the order of the jobs, longest standstill of the board's loop in ms)."""
    file = folder / "jobs.json"
    file.write_text(json.dumps({"model": {"api_key": KEY, "name": "m", **model}, "jobs": jobs}))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "micropython_unix", "-X", "heapsize=2m"),
        *(str(HERE / "mp_http.py"), str(FIRMWARE), str(file)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await asyncio.wait_for(process.communicate(), 40)
    text = out.decode()
    assert process.returncode == 0, text
    assert KEY not in text and KEY[-8:] not in text
    assert "Traceback" not in text, text
    lines = [json.loads(line) for line in text.splitlines()]
    results = sorted((line for line in lines if "job" in line), key=lambda line: line["job"])
    for result in results:
        assert result["error"] is None or 0 < len(result["error"]) <= 200
    return results, lines[-1]["gap"]


def talk(
    folder: Path,
    reply: Callable[[Seen], Answer] | list[Answer],
    *jobs: dict[str, Any],
    path: str = "/v1",
    **model: Any,
) -> tuple[list[dict[str, Any]], FakeServer]:
    async def run() -> tuple[list[dict[str, Any]], FakeServer]:
        async with serving(reply) as server:
            results, gap = await run_jobs(
                folder, list(jobs) or [{}], base_url=server.url + path, **model
            )
            assert gap < 400
            return results, server

    return asyncio.run(run())


def test_streamed_answer(tmp_path: Path) -> None:
    (result,), server = talk(tmp_path, [words("Grü", "ße, ", "世界 ", "😀")], {"text": "é" * 3000})
    assert result["error"] is None and result["text"] == "Grüße, 世界 😀" and result["ended"] == 1
    (seen,) = server.seen
    assert seen.path == "/v1/chat/completions"
    assert seen.headers["authorization"] == f"Bearer {KEY}"
    assert seen.headers["connection"] == "close"
    assert seen.body["model"] == "m" and seen.body["stream"] is True
    assert seen.body["messages"][-1]["content"] == "é" * 3000
    assert seen.body["max_tokens"] == 50


def test_slow_stream_is_shown_as_it_comes(tmp_path: Path) -> None:
    slow = words("one ", "two")
    slow.parts = [p for part in slow.parts for p in (part, 0.4)]
    (result,), _ = talk(tmp_path, [slow], {"timeout_ms": 1000})
    # Longer in all than the limit, which is on each silence.
    assert result["error"] is None and result["ms"] > 1000


@pytest.mark.parametrize(
    ("answer", "kind", "word"),
    [
        (Answer(200, [2.5], length=10), "timeout", "sent nothing"),
        (Answer(200, [b'{"choices":[{"mess'], length=400), "cut", "cut off"),
        (Answer(204), "empty", "empty"),
        (Answer(200, [b"data: {}\n\n"], cut=True), "cut", "cut off"),
        (fault(401, {"error": {"message": f"Incorrect API key provided: {KEY}"}}), "auth", "401"),
        (fault(404, "no such model"), "gone", "no such model"),
        (Answer(302, headers={"Location": "https://login.example/"}), "gone", "login.example"),
        (fault(200, "<html><title>Hotel login</title></html>"), "html", "Hotel login"),
        (fault(429, {"error": {"message": "later"}}, Retry_After="600"), "rate", "later"),
    ],
)
def test_fault(tmp_path: Path, answer: Answer, kind: str, word: str) -> None:
    jobs = ({"timeout_ms": 600}, {})
    (bad, good), server = talk(tmp_path, [answer, words("still here")], *jobs)
    assert bad["kind"] == kind and word in bad["error"] and bad["ended"] == 0
    assert bad["ms"] < 3000
    if kind != "cut" and kind != "rate":
        assert server.url + "/v1/chat/completions" in bad["error"]
    assert good["text"] == "still here" and len(server.seen) == 2


@pytest.mark.parametrize(
    "passing",
    [
        fault(429, {"error": {"message": "slow"}}, Retry_After="0"),
        fault(503, "busy", Retry_After="1"),
        fault(
            200,
            {"error": {"message": "rate limited", "code": 429}},
            Content_Type="application/json",
        ),
    ],
)
def test_passing_fault_is_tried_again(tmp_path: Path, passing: Answer) -> None:
    passing.headers = {k.lower(): v for k, v in passing.headers.items()}
    (result,), server = talk(tmp_path, [passing, words("now")])
    assert result["error"] is None and result["text"] == "now" and len(server.seen) == 2


def test_tries_end(tmp_path: Path) -> None:
    (result,), server = talk(tmp_path, [fault(429, "no", Retry_After="0")])
    assert result["kind"] == "rate" and len(server.seen) == 3


def test_no_second_try_once_words_were_shown(tmp_path: Path) -> None:
    cut = Answer(200, [b'data: {"choices":[{"delta":{"content":"half "}}]}\n\n'], cut=True)
    (result,), server = talk(tmp_path, [cut, words("other")])
    assert result["kind"] == "cut" and result["text"] == "half " and len(server.seen) == 1


def test_learns_the_fields_of_the_server(tmp_path: Path) -> None:
    """B44: one retry with the other name, remembered for the run and for every kind."""

    def reply(seen: Seen) -> Answer:
        if "max_tokens" in seen.body:
            text = (
                "Unsupported parameter: 'max_tokens' is not supported with this model. "
                "Use 'max_completion_tokens' instead."
            )
            return fault(400, {"error": {"message": text, "code": "unsupported_parameter"}})
        if "temperature" in seen.body:
            text = "Unsupported value: 'temperature' does not support 0.7 with this model."
            return fault(400, {"error": {"message": text, "param": "temperature"}})
        return words("fine")

    results, server = talk(
        tmp_path, reply, {"temperature": 7}, {"kind": "extract", "temperature": 0}
    )
    assert [r["text"] for r in results] == ["fine", "fine"]
    assert server.seen[0].body["temperature"] == 0.7
    assert len(server.seen) == 4
    assert server.seen[1].body["max_completion_tokens"] == 50
    assert "max_tokens" not in server.seen[1].body
    assert server.seen[3].headers["x-upyclaw-kind"] == "extract"


def test_other_refusal_is_final(tmp_path: Path) -> None:
    refusal = fault(400, {"error": {"message": "too long", "code": "context_length_exceeded"}})
    (result,), server = talk(tmp_path, [refusal])
    assert result["kind"] == "context" and len(server.seen) == 1


def test_refused_before_the_request_is_all_there(tmp_path: Path) -> None:
    async def run() -> list[dict[str, Any]]:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 413 Too Large\r\ncontent-length: 3\r\n\r\nbig")
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        jobs = [{"text": "x" * 60000}]
        results, _ = await run_jobs(tmp_path, jobs, base_url=f"http://127.0.0.1:{port}")
        server.close()
        return results

    (result,) = asyncio.run(run())
    # The kernel may drop what came before the reset; then it is a connection that broke off.
    assert result["kind"] in ("request", "gone") and "127.0.0.1" in result["error"]


def test_nobody_there(tmp_path: Path) -> None:
    results, gap = asyncio.run(run_jobs(tmp_path, [{}], base_url="http://127.0.0.1:9/"))
    assert results[0]["kind"] == "gone" and "http://127.0.0.1:9/v1" in results[0]["error"]
    assert "refused" in results[0]["error"] and gap < 400


def test_bad_setting(tmp_path: Path) -> None:
    results, _ = asyncio.run(run_jobs(tmp_path, [{}], base_url="api.openai.com"))
    assert results[0]["kind"] == "gone" and "model.base_url" in results[0]["error"]


def test_extraction_gives_way_to_the_chat(tmp_path: Path) -> None:
    def reply(seen: Seen) -> Answer:
        if seen.headers.get("x-upyclaw-kind") == "extract":
            return Answer(200, [5.0], chunked=True)
        return words("at once")

    jobs = ({"kind": "extract", "timeout_ms": 5000}, {"after": 500})
    (extract, chat), _ = talk(tmp_path, reply, *jobs)
    assert chat["text"] == "at once" and chat["ms"] < 1500
    assert extract["kind"] == "timeout" and "gave way" in extract["error"]


def tls_talk(
    folder: Path, which: str, host: str = "localhost", form: str = "der"
) -> dict[str, Any]:
    """One request to a TLS server whose certificate is "good", "name", "old" or "other".

    `form` of the file with the roots: "der", "several" (DER), "given" (PEM by the user, as the
    companion converts it), "bad" or "none".
    """
    authority = trustme.CA()
    names = ["model.test"] if which == "name" else ["localhost"]
    year = datetime.datetime(2020, 1, 1), datetime.datetime(2021, 1, 1)
    dates = dict(zip(("not_before", "not_after"), year, strict=True)) if which == "old" else {}
    signer = trustme.CA() if which == "other" else authority
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    signer.issue_cert(*names, **dates).configure_cert(context)
    roots = folder / "ca.crt"
    pem = authority.cert_pem.bytes()
    der = ssl.PEM_cert_to_DER_cert(pem.decode())
    given = read_ca(b"# mine\n" + pem + trustme.CA().cert_pem.bytes(), "ca.pem")
    files = {"der": der, "several": usual_roots() + der, "given": given, "bad": pem}
    if form in files:
        roots.write_bytes(files[form])

    async def run() -> dict[str, Any]:
        server = FakeServer([words("a secret ", "word")])
        await server.start(context)
        url = server.url.replace("127.0.0.1", host)
        assert url.startswith("https://")
        results, gap = await run_jobs(folder, [{}], base_url=url, ca=str(roots))
        await server.stop()
        assert gap < 1000
        if which != "good" or form in ("bad", "none"):
            assert not server.seen
        return results[0]

    return asyncio.run(run())


@pytest.mark.parametrize("form", ["der", "several", "given"])
def test_tls(tmp_path: Path, form: str) -> None:
    result = tls_talk(tmp_path, "good", form=form)
    assert result["error"] is None and result["text"] == "a secret word"


@pytest.mark.parametrize(
    ("which", "host", "words"),
    [
        ("name", "localhost", "does not match"),
        ("good", "127.0.0.1", "does not match"),
        ("old", "localhost", "expired"),
        ("other", "localhost", "not correctly signed"),
    ],
)
def test_tls_refused(tmp_path: Path, which: str, host: str, words: str) -> None:
    result = tls_talk(tmp_path, which, host)
    assert result["text"] == "" and result["kind"] == "gone"
    assert "certificate" in result["error"] and words in result["error"]


@pytest.mark.parametrize("form", ["bad", "none"])
def test_tls_without_roots(tmp_path: Path, form: str) -> None:
    result = tls_talk(tmp_path, "good", form=form)
    assert result["kind"] == "gone" and "model.ca" in result["error"]
