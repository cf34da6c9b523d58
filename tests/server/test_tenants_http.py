"""Two keys, the same prompts, over HTTP: nothing of one is read, seen or dropped by the other; limits are the admin's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from daneel.cli.local_server import LocalServer

LONG = "Tell me of the sea, the wind over it, the ships on it, and what the people on them do all day. " * 2
DEEP = [{"role": "user", "content": LONG}]


class Server:
    """`daneel serve` with keys in files, asked by one of them."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.folder = folder

    def request(self, method: str, path: str, key: str, **options: Any) -> httpx2.Response:
        return httpx2.request(
            method,
            f"{self.url}{path}",
            headers={"authorization": f"Bearer {key}"},
            timeout=120,
            follow_redirects=False,
            **options,
        )

    def chat(self, key: str, messages: Any = DEEP, **fields: Any) -> dict[str, Any]:
        # each engine is told what to say in its own way
        extra = (
            {"script": fields.pop("script", "Ahoy.")} if "scripted" in self.url_model else {"max_tokens": 4, "temperature": 0}
        )
        response = self.request("POST", "/chat/completions", key, json={"messages": messages, **extra, **fields})
        assert response.status_code == 200, response.text
        return dict(response.json())

    @property
    def url_model(self) -> str:
        return str(self.request("GET", "/models", "one").json()["data"][0]["engine"])

    def cache(self, key: str) -> dict[str, Any]:
        response = self.request("GET", "/cache", key)
        assert response.status_code == 200, response.text
        return dict(response.json())

    def read(self, key: str, messages: Any = DEEP, **fields: Any) -> tuple[int, str | None, str | None]:
        """What a request read from the cache, from where, and why not more."""
        reply = self.chat(key, messages, **fields)
        told = reply["daneel"]["cache"]
        assert reply["usage"]["prompt_tokens_details"]["cached_tokens"] == told["read_tokens"]
        return told["read_tokens"], told["source"], told["miss"]


def arguments(folder: Path) -> list[str]:
    (folder / "keys").write_text("# the clients\none\ntwo\n\n")
    (folder / "more").write_text("three\n")
    (folder / "admin").write_text("root\n")
    files = ["--key-file", folder / "keys", "--key-file", folder / "more", "--admin-key-file", folder / "admin"]
    return [str(each) for each in [*files, "--prompt-cache-dir", folder / "kv"]]


@pytest.fixture(scope="module", params=["scripted", pytest.param("llama.cpp", marks=pytest.mark.model)])
def running(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("server")
    model = None if request.param == "scripted" else request.getfixturevalue("smollm2_path")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DANEEL_CACHE_DIR", str(folder / "cache"))
        options = [*arguments(folder), *(["--context", "512", "--kv-tokens", "2048"] if model else [])]
        with LocalServer(model, engine=request.param, extra_args=options, on_progress=lambda line: None) as url:
            yield Server(url, folder)


@pytest.fixture
def server(running: Server) -> Server:
    """With an empty cache."""
    for key in ("one", "two", "three", "root"):
        running.request("DELETE", "/cache", key)
    return running


def test_the_same_prompt_is_cold_for_another_key(server: Server) -> None:
    assert server.read("one") == (0, None, "cold")
    read, source, miss = server.read("one")
    assert read > len(LONG) // 6
    assert (source, miss) == ("memory", None)
    for other in ("two", "three", "root"):
        assert server.read(other) == (0, None, "cold")


def test_each_sees_and_drops_its_own_only(server: Server) -> None:
    server.chat("one", cache={"pin_s": 600})
    assert server.cache("two") == {"object": "cache", "entries": [], "tokens": 0, "bytes": 0}
    seen = server.cache("one")
    [entry] = seen["entries"]
    assert entry["tier"] == "memory"
    assert entry["tokens"] == seen["tokens"] > len(LONG) // 6
    assert entry["bytes"] == seen["bytes"] >= 4 * entry["tokens"]
    assert 0 <= entry["age_s"] < 600
    assert 0 < entry["pinned_s"] <= 600
    assert server.request("DELETE", "/cache", "two").json() == {
        "object": "cache.cleared",
        "entries": 0,
        "tokens": 0,
        "bytes": 0,
    }
    assert server.read("one")[0] > 0
    seen = server.cache("one")
    gone = server.request("DELETE", "/cache", "one").json()
    assert gone == {
        "object": "cache.cleared",
        **{name: seen[name] for name in ("tokens", "bytes")},
        "entries": len(seen["entries"]),
    }
    assert server.cache("one")["entries"] == []
    assert server.read("one") == (0, None, "cold")


def test_off_reads_nothing_and_leaves_nothing(server: Server) -> None:
    server.chat("one")
    before = server.cache("one")["tokens"]
    assert server.read("one", cache={"mode": "off"}) == (0, None, "off")
    server.chat("one", [{"role": "user", "content": "Else. " + LONG}], cache={"mode": "off"})
    assert server.cache("one")["tokens"] == before


def test_limits_are_changed_by_an_admin_only_and_while_it_runs(server: Server) -> None:
    refused = server.request("PATCH", "/cache", "one", json={"max_bytes": 1})
    assert refused.status_code == 403
    assert "--admin-key-file" in refused.json()["error"]["message"]
    before = server.request("PATCH", "/cache", "root", json={"max_idle_tokens": None}).json()["limits"]
    assert before == {"max_idle_tokens": None, "max_entries": 256, "max_bytes": 2**30, "max_disk_bytes": 8 * 2**30}
    server.chat("one")
    tokens = server.cache("one")["tokens"]
    for limits, tier in (({"max_idle_tokens": 0}, "host_memory"), ({"max_entries": 0}, "disk")):
        changed = server.request("PATCH", "/cache", "root", json=limits)
        assert changed.json() == {"object": "cache.limits", "limits": {**before, **limits}}
        before |= limits
        seen = server.cache("one")
        assert [entry["tier"] for entry in seen["entries"]] == [tier]  # it moved down, nothing is lost
        assert seen["tokens"] == tokens
    read, source, _ = server.read("one")
    assert (read > 0, source) == (True, "disk")
    server.request("PATCH", "/cache", "root", json={"max_idle_tokens": None, "max_entries": 256})


@pytest.mark.parametrize(
    ("body", "words", "param"),
    [
        ({"max_bytes": -1}, ["max_bytes", "-1"], "max_bytes"),
        ({"max_bytes": 2**60}, ["max_bytes", "1152921504606846976"], "max_bytes"),
        ({"max_bytes": "2GiB"}, ["max_bytes", "integer", "string"], "max_bytes"),
        ({"max_entries": True}, ["max_entries", "integer"], "max_entries"),
        ({"max_entries": None}, ["max_entries", "integer", "null"], "max_entries"),
        ({"max_entries": 1.5}, ["max_entries", "integer"], "max_entries"),
        ({"max_size": 1}, ["max_size", "max_disk_bytes"], "max_size"),
        ({}, ["no limit", "max_idle_tokens"], None),
        ([], ["object"], None),
    ],
)
def test_limits_that_are_none(server: Server, body: Any, words: list[str], param: str | None) -> None:
    response = server.request("PATCH", "/cache", "root", json=body)
    assert response.status_code == 400
    assert response.json()["error"]["param"] == param
    for word in words:
        assert word in response.json()["error"]["message"]


def test_n_replies_share_one_prefill(server: Server) -> None:
    reply = server.chat("one", n=3)
    assert [choice["index"] for choice in reply["choices"]] == [0, 1, 2]
    assert reply["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    assert reply["usage"]["completion_tokens"] % 3 == 0
    forked = [part["cache"]["read_tokens"] for part in reply["daneel"]["choices"]]
    assert sorted(forked) == [0, *[reply["usage"]["prompt_tokens"] - 1] * 2]
    assert len({choice["message"]["content"] for choice in reply["choices"]}) == 1
    assert server.read("two") == (0, None, "cold")


def test_n_replies_without_the_cache_share_one_prefill_and_leave_nothing(server: Server) -> None:
    server.chat("one")
    before = server.cache("one")["tokens"]
    reply = server.chat("one", n=2, cache={"mode": "off"})
    assert [part["cache"] for part in reply["daneel"]["choices"]] == [{"read_tokens": 0, "source": None, "miss": "off"}] * 2
    assert reply["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    assert server.cache("one")["tokens"] == before


def test_n_replies_streamed(server: Server) -> None:
    body = {"messages": DEEP, "n": 2, "stream": True, "stream_options": {"include_usage": True}, "max_tokens": 4}
    body |= {"script": "Ahoy."} if server.url_model == "scripted" else {"temperature": 0}
    text = server.request("POST", "/chat/completions", "one", json=body).text
    assert text.endswith("data: [DONE]\n\n")
    chunks = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]
    said = ["", ""]
    for chunk in chunks:
        for choice in chunk["choices"]:
            said[choice["index"]] += choice["delta"].get("content") or ""
    assert said[0] == said[1] != ""
    assert [chunk["usage"]["completion_tokens"] for chunk in chunks if chunk.get("usage")] == [8]


def test_too_many_replies_are_refused_with_both_numbers(server: Server) -> None:
    response = server.request("POST", "/chat/completions", "one", json={"messages": DEEP, "n": 17})
    assert response.status_code == 400
    assert "between 1 and 16; got 17" in response.json()["error"]["message"]


def test_a_method_that_is_none_is_told_all_there_are(server: Server) -> None:
    response = server.request("PUT", "/cache", "one")
    assert response.status_code == 405
    assert {"GET", "DELETE", "PATCH"} <= set(response.headers["allow"].split(", "))


def test_a_restart_keeps_each_keys_own_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DANEEL_CACHE_DIR", str(tmp_path / "cache"))
    for again in (False, True):
        with LocalServer(None, engine="scripted", extra_args=arguments(tmp_path), on_progress=lambda line: None) as url:
            server = Server(url, tmp_path)
            if not again:
                assert server.read("one") == (0, None, "cold")
                continue
            assert [entry["tier"] for entry in server.cache("one")["entries"]] == ["disk"]
            assert server.cache("two")["entries"] == []
            assert server.read("two") == (0, None, "cold")
            read, source, _ = server.read("one")
            assert (read > 0, source) == (True, "disk")
    assert (tmp_path / "cache" / "server.secret").stat().st_mode & 0o777 == 0o600
