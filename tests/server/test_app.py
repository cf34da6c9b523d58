"""The routes over ASGI: statuses, error bodies, headers, limits, the key."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx2
import pytest
from tests.support.fake_model import FakeEngine, fake_model, step

from daneel.server.app import make_app
from daneel.server.auth import KeyRing
from daneel.server.engine_process import EngineDied, EngineRestarting

CHAT = "/v1/chat/completions"
HI: dict[str, Any] = {"messages": [{"role": "user", "content": "Hi"}]}
HELLO = [step("Hello"), step("<|end|>", finish="stop")]


def ask(
    method: str, path: str, *, engine: FakeEngine | None = None, key: str | None = None, limit: int = 2000, **options: Any
) -> httpx2.Response:
    async def run() -> httpx2.Response:
        keys = KeyRing([key] if key is not None else [], secret=b"secret")
        app = make_app(fake_model(engine or FakeEngine(HELLO)), keys=keys, stopping=asyncio.Event(), max_body_bytes=limit)
        transport = httpx2.ASGITransport(app=app, raise_app_exceptions=False)
        async with httpx2.AsyncClient(transport=transport, base_url="http://test") as client:
            return await client.request(method, path, **options)

    return asyncio.run(run())


def error(response: httpx2.Response, status: int) -> dict[str, Any]:
    assert response.status_code == status
    assert response.headers["content-type"] == "application/json"
    body = response.json()
    assert set(body) == {"error"}
    assert set(body["error"]) == {"message", "type", "code", "param"}
    assert len(body["error"]["message"]) > 10
    return dict(body["error"])


def test_a_chat() -> None:
    response = ask("POST", CHAT, json=HI)
    assert response.status_code == 200
    assert response.json()["choices"][0]["message"] == {"role": "assistant", "content": "Hello"}


def test_a_streamed_chat() -> None:
    response = ask("POST", CHAT, json={**HI, "stream": True})
    assert response.headers["content-type"].startswith("text/event-stream")
    assert response.text.endswith("data: [DONE]\n\n")


@pytest.mark.parametrize("name", ["fake", "alias", "", None])
def test_the_model_may_be_named_by_any_of_its_names_or_not_at_all(name: str | None) -> None:
    assert ask("POST", CHAT, json={**HI, "model": name}).json()["model"] == "fake"


@pytest.mark.parametrize("stream", [True, False])
def test_a_wrong_model_is_not_found_and_told_the_right_one(stream: bool) -> None:
    problem = error(ask("POST", CHAT, json={**HI, "model": "gpt-4", "stream": stream}), 404)
    assert problem["param"] == "model"
    assert "'gpt-4'" in problem["message"]
    assert "'fake'" in problem["message"]


def test_the_models() -> None:
    [entry] = ask("GET", "/v1/models").json()["data"]
    assert (entry["id"], entry["object"], entry["owned_by"]) == ("fake", "model", "daneel")
    assert (entry["context_length"], entry["format"]) == (1000, "hermes")
    assert ask("GET", "/v1/models/alias").json() == entry
    assert error(ask("GET", "/v1/models/other/name"), 404)["param"] == "model"


def test_health() -> None:
    assert ask("GET", "/health").json() == {"status": "ok", "engine": "ready"}
    restarting = FakeEngine()
    restarting.ready = False
    assert ask("GET", "/health", engine=restarting).json()["engine"] == "restarting"


@pytest.mark.parametrize("path", ["/", "/v1", "/v1/chat/completions/", "/v1/completions", "/v1/chat"])
def test_there_is_no_such_route(path: str) -> None:
    assert path in error(ask("GET", path), 404)["message"]


@pytest.mark.parametrize(
    ("method", "path", "allowed"), [("GET", CHAT, "POST"), ("PUT", CHAT, "POST"), ("DELETE", "/v1/models", "GET")]
)
def test_the_method_is_not_allowed(method: str, path: str, allowed: str) -> None:
    response = ask(method, path)
    assert method in error(response, 405)["message"]
    assert allowed in response.headers["allow"]


@pytest.mark.parametrize("media_type", ["text/plain", "application/x-www-form-urlencoded", "application/jsonp", None])
def test_only_json_is_taken(media_type: str | None) -> None:
    headers = {"content-type": media_type} if media_type else {}
    problem = error(ask("POST", CHAT, content=json.dumps(HI).encode(), headers=headers), 415)
    assert media_type is None or repr(media_type) in problem["message"]


def test_json_with_a_charset_is_json() -> None:
    headers = {"content-type": "Application/JSON; charset=utf-8"}
    assert ask("POST", CHAT, content=json.dumps(HI).encode(), headers=headers).status_code == 200


def test_a_body_over_the_limit_is_refused_with_or_without_its_length() -> None:
    body = json.dumps({**HI, "user": "x" * 3000}).encode()

    async def chunks() -> Any:
        for start in range(0, len(body), 100):
            yield body[start : start + 100]

    headers = {"content-type": "application/json"}
    assert "2000" in error(ask("POST", CHAT, content=body, headers=headers), 413)["message"]
    assert "2000" in error(ask("POST", CHAT, content=chunks(), headers=headers), 413)["message"]


@pytest.mark.parametrize(
    ("body", "word"),
    [
        (b"", "JSON"),
        (b"{", "JSON"),
        (b"[]", "object"),
        (b"{}", "messages"),
        (b'{"messages": []}', "messages"),
        (b'{"messages": [{"role": "user", "content": "x"}], "temperature": "hot"}', "temperature"),
        (b'{"messages": [{"role": "user", "content": "x"}], "temperature": 1e999}', "1e999"),
        (b'{"messages": [{"role": "user", "content": "\\ud800"}]}', ""),
        (b'{"messages": ' + b"[" * 900 + b"]" * 900 + b"}", ""),
        (b"\xff\xfe", ""),
    ],
)
def test_a_broken_body_is_a_400_that_says_why(body: bytes, word: str) -> None:
    assert word in error(ask("POST", CHAT, content=body, headers={"content-type": "application/json"}), 400)["message"]


def test_call_errors_and_restarts_have_their_status() -> None:
    broken = [step("<tool_call>\n{}\n</tool_call>"), step("<|end|>", finish="stop")]
    error(ask("POST", CHAT, engine=FakeEngine(broken), json={**HI, "on_failed_tool_call": "error"}), 422)
    response = ask("POST", CHAT, engine=FakeEngine([EngineRestarting(2.3, "it crashed")]), json=HI)
    error(response, 503)
    assert response.headers["retry-after"] == "3"
    for stream in (True, False):
        response = ask("POST", CHAT, engine=FakeEngine([EngineDied("the engine was killed")]), json={**HI, "stream": stream})
        assert error(response, 503)["message"] == "the engine was killed"
        assert response.headers["retry-after"] == "1"


def test_a_bug_shows_no_detail(capsys: pytest.CaptureFixture[str]) -> None:
    problem = error(ask("POST", CHAT, engine=FakeEngine([RuntimeError("/secret/path")]), json=HI), 500)
    assert "secret" not in problem["message"]
    assert "/secret/path" in capsys.readouterr().err


PROTECTED = [("POST", CHAT), ("GET", "/v1/models"), ("GET", "/v1/models/fake"), ("GET", "/nowhere"), ("GET", CHAT)]


@pytest.mark.parametrize(("method", "path"), PROTECTED)
@pytest.mark.parametrize(
    "header",
    [None, "", "sesame", "Bearer", "Bearer ", "Bearer sesam", "Bearer sesame2", "Basic sesame", "Bearer SESAME", "Bearer \xe9"],
)
def test_without_the_key_every_route_is_closed(method: str, path: str, header: str | None) -> None:
    headers = {"authorization": header.encode("latin-1")} if header is not None else {}
    response = ask(method, path, key="sesame", json=HI, headers=headers)
    assert "sesame" not in error(response, 401)["message"]
    assert response.headers["www-authenticate"] == "Bearer"


def test_two_authorization_headers_are_none() -> None:
    headers = [("authorization", "Bearer sesame"), ("authorization", "Bearer sesame")]
    error(ask("GET", "/v1/models", key="sesame", headers=headers), 401)


def test_with_the_key_they_are_open_and_health_always_is() -> None:
    headers = {"authorization": "bearer sesame"}
    assert ask("POST", CHAT, key="sesame", json=HI, headers=headers).status_code == 200
    assert ask("GET", "/v1/models", key="sesame", headers=headers).status_code == 200
    assert ask("GET", "/health", key="sesame").status_code == 200


def test_every_route_but_health_needs_the_key() -> None:
    """Read off the router, so that a new route is covered by itself."""
    app = make_app(fake_model(FakeEngine()), keys=KeyRing(["sesame"]), stopping=asyncio.Event())
    paths = [route.path for route in app.routes]  # type: ignore[attr-defined]
    assert len(paths) >= 4
    for path in paths:
        status = ask("GET", path.replace("{name:path}", "fake"), key="sesame").status_code
        assert status == (200 if path == "/health" else 401)
