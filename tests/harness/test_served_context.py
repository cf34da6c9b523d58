"""The context that a server serves, read from what each kind of server tells of itself."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from daneel.harness.client import Client, Timeouts

MODEL = "small"


class Peer:
    """A server that knows some routes: `"GET /props": {…}`; a text or bytes go out as they are."""

    def __init__(self, routes: dict[str, Any]) -> None:
        self.routes = routes
        self.asked: list[str] = []

    @contextmanager
    def serving(self, **options: Any) -> Iterator[Client]:
        peer = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                route = f"{self.command} {self.path.partition('?')[0]}"
                peer.asked.append(f"{self.command} {self.path}")
                found = peer.routes.get(route)
                body = found.encode() if isinstance(found, str) else json.dumps(found).encode()
                self.send_response(404 if found is None else 200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = answer

            def log_message(self, format: str, *args: Any) -> None:
                pass

        http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            with Client(f"http://127.0.0.1:{http.server_address[1]}", wait=lambda _: None, **options) as client:
                yield client
        finally:
            http.shutdown()
            http.server_close()


def listed(owner: str = "someone", **fields: Any) -> dict[str, Any]:
    return {"object": "list", "data": [{"id": MODEL, "object": "model", "owned_by": owner, **fields}]}


def context_of(routes: dict[str, Any], **options: Any) -> int | None:
    with Peer(routes).serving(**options) as client:
        return client.served_context()


@pytest.mark.parametrize(
    ("entry", "tokens"),
    [
        (listed("daneel", context_length=4096), 4096),
        (listed("vllm", max_model_len=2048), 2048),
        (listed("sglang", max_model_len=8192), 8192),
        (listed(context_length=131072, top_provider={"context_length": 32768}), 32768),
        (listed(context_window=8000), 8000),
        (listed(max_input_tokens="16384"), 16384),
        (listed(context_length=0), None),
        (listed(context_length=True), None),
        (listed(context_length=-5), None),
        (listed(context_length="many"), None),
        (listed(meta={"n_ctx_train": 131072}), None),
        (listed(max_context_length=131072), None),
    ],
)
def test_the_models_entry(entry: dict[str, Any], tokens: int | None) -> None:
    assert context_of({"GET /v1/models": entry}) == tokens


def test_llama_server_says_what_one_slot_holds() -> None:
    entry = listed("llamacpp", meta={"n_ctx": 8192, "n_ctx_train": 131072})
    routes = {"GET /v1/models": entry, "GET /props": {"default_generation_settings": {"n_ctx": 2048}, "total_slots": 4}}
    peer = Peer(routes)
    with peer.serving() as client:
        assert client.served_context() == 2048
    assert peer.asked[-1] == "GET /props?model=small&autoload=false"  # a router is not to load a model for this


def test_llama_server_without_props_falls_back_on_its_list() -> None:
    assert context_of({"GET /v1/models": listed("llamacpp", meta={"n_ctx": 8192})}) == 8192


def test_ollama_says_what_the_loaded_model_was_given_not_what_it_was_trained_for() -> None:
    loaded = {"models": [{"name": "other", "context_length": 9}, {"name": "small:latest", "context_length": 4096}]}
    shown = {"parameters": "stop x", "model_info": {"llama.context_length": 131072}}
    assert context_of({"GET /v1/models": listed("library"), "GET /api/ps": loaded, "POST /api/show": shown}) == 4096
    assert context_of({"GET /v1/models": listed("library"), "GET /api/ps": {"models": []}, "POST /api/show": shown}) is None
    shown["parameters"] = 'stop                           "<|im_end|>"\nnum_ctx                        8192'
    assert context_of({"GET /v1/models": listed("library"), "GET /api/ps": {"models": []}, "POST /api/show": shown}) == 8192


def test_a_model_that_was_not_loaded_yet_is_asked_about_once_more() -> None:
    peer = Peer({"GET /v1/models": listed("library"), "GET /api/ps": {"models": []}, "POST /api/show": {}})
    with peer.serving() as client:
        assert client.served_context() is None
        peer.routes["GET /api/ps"] = {"models": [{"model": MODEL, "context_length": 4096}]}
        assert client.served_context() == 4096
        asked = len(peer.asked)
        assert client.served_context() == 4096
        assert len(peer.asked) == asked


def test_nothing_but_a_server_that_has_its_models_loaded_is_posted_to() -> None:
    peer = Peer({"GET /v1/models": listed()})
    with peer.serving() as client:
        assert client.served_context() is None
    assert not [route for route in peer.asked if route.startswith("POST")]


def test_lm_studio_says_what_is_loaded() -> None:
    models = {"data": [{"id": MODEL, "state": "loaded", "max_context_length": 131072, "loaded_context_length": 4096}]}
    assert context_of({"GET /v1/models": listed("organization_owner"), "GET /api/v0/models": models}) == 4096


def test_litellm_says_what_it_knows_of_the_model_behind_it() -> None:
    info = {"data": [{"model_name": MODEL, "model_info": {"max_input_tokens": 8192, "max_tokens": 99}}]}
    assert context_of({"GET /v1/models": listed("openai"), "GET /model/info": info}) == 8192


@pytest.mark.parametrize(
    "props",
    [
        {"error": "no"},
        [],
        None,
        "<html>page</html>",
        {"default_generation_settings": []},
        {"default_generation_settings": {"n_ctx": {}}},
    ],
)
def test_answers_of_any_shape_mean_that_it_is_not_known(props: Any) -> None:
    routes = {"GET /v1/models": listed("llamacpp"), "GET /props": props, "GET /api/ps": props, "GET /api/v0/models": props}
    assert context_of(routes) is None
    assert context_of({**routes, "GET /v1/models": listed()}) is None


def test_a_server_that_knows_no_models_or_several_says_nothing() -> None:
    assert context_of({}) is None
    assert context_of({"GET /v1/models": {"data": [{"id": "a", "max_model_len": 1}, {"id": "b", "max_model_len": 2}]}}) is None
    assert (
        context_of({"GET /v1/models": {"data": [{"id": "a", "max_model_len": 1}, {"id": "b", "max_model_len": 2}]}}, model="b")
        == 2
    )


def test_it_is_asked_once_per_server() -> None:
    peer = Peer({"GET /v1/models": listed("vllm", max_model_len=2048)})
    with peer.serving() as client:
        assert [client.served_context() for _ in range(3)] == [2048] * 3
    assert peer.asked == ["GET /v1/models"]


def test_a_server_that_is_gone_says_nothing() -> None:
    with Client("http://127.0.0.1:9", timeouts=Timeouts(connect_s=0.5), wait=lambda _: None) as client:
        assert client.served_context() is None
