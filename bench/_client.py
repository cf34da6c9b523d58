"""A client that costs little: benches and servers share the cores. It notes when each event came and reads them afterwards."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import urlsplit

from _servers import ArmFailed

T = TypeVar("T")

Body = dict[str, Any]


@dataclass(frozen=True)
class Reply:
    """One streamed reply. Times are seconds of `time.perf_counter`.

    `token_at`: when each piece of content came; `prefill_at`: when our server told of a part of the prompt that was evaluated.
    `cached_tokens` of the prompt were read from the server's cache.
    """

    sent_at: float
    ended_at: float
    token_at: list[float]
    prefill_at: list[float]
    text: str
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    daneel: dict[str, Any] = field(default_factory=dict)

    @property
    def first_token_s(self) -> float:
        return self.token_at[0] - self.sent_at

    @property
    def miss(self) -> str | None:
        """Why our server read no more of the prompt from its cache."""
        return (self.daneel.get("cache") or {}).get("miss")

    @property
    def source(self) -> str | None:
        return (self.daneel.get("cache") or {}).get("source")


class Deadline:
    """The end of a bench's time. A request that would pass it fails."""

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._ends_at = time.monotonic() + limit_s

    def left_s(self) -> float:
        """Raises `ArmFailed` when none is left."""
        left_s = self._ends_at - time.monotonic()
        if left_s <= 0:
            raise ArmFailed(f"the bench's {self._limit_s:.0f} s are over (--limit-s)")
        return left_s


def stream(url: str, body: Body, deadline: Deadline) -> Reply:
    """One streamed chat completion. Raises `ArmFailed` for anything but a whole reply with at least one token."""
    asked = {**body, "stream": True, "stream_options": {"include_usage": True}}
    lines: list[tuple[float, bytes]] = []
    connection, path = _connection(url, deadline)
    try:
        sent_at = time.perf_counter()
        connection.request("POST", f"{path}/chat/completions", json.dumps(asked), {"Content-Type": "application/json"})
        response = connection.getresponse()
        if response.status != 200:
            raise ArmFailed(f"status {response.status}: {_read_error(response.read())}")
        while line := response.readline():
            if len(line) > 2:
                lines.append((time.perf_counter(), line))
        ended_at = time.perf_counter()
    except (OSError, http.client.HTTPException) as error:
        deadline.left_s()
        raise ArmFailed(f"the connection failed: {type(error).__name__}: {error}") from error
    finally:
        connection.close()
    return _read(sent_at, ended_at, lines)


def ask(url: str, route: str, body: Body, deadline: Deadline) -> Any:
    """A POST of JSON answered with JSON. Raises `ArmFailed`."""
    connection, path = _connection(url, deadline)
    try:
        connection.request("POST", path + route, json.dumps(body), {"Content-Type": "application/json"})
        response = connection.getresponse()
        data = response.read()
    except (OSError, http.client.HTTPException) as error:
        raise ArmFailed(f"{route}: {type(error).__name__}: {error}") from error
    finally:
        connection.close()
    if response.status != 200:
        raise ArmFailed(f"{route}: status {response.status}: {_read_error(data)}")
    return json.loads(data)


def together(work: Callable[[T], Any], items: Sequence[T]) -> list[Any]:
    """`work(item)` of all items at once, one thread each; the results in order. Raises what the first failure raised."""
    results: list[Any] = [None] * len(items)
    failures: list[BaseException] = []
    barrier = threading.Barrier(len(items))

    def run(index: int, item: T) -> None:
        try:
            barrier.wait()
            results[index] = work(item)
        except BaseException as error:  # noqa: BLE001 - told to whoever waits
            failures.append(error)

    threads = [threading.Thread(target=run, args=pair, daemon=True) for pair in enumerate(items)]
    for thread in threads:
        thread.start()
    while not failures and any(thread.is_alive() for thread in threads):
        for thread in threads:
            thread.join(timeout=0.1)  # short, so that Ctrl-C is seen at once
    if failures:
        raise failures[0]
    return results


def _connection(url: str, deadline: Deadline) -> tuple[http.client.HTTPConnection, str]:
    parts = urlsplit(url)
    return http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=deadline.left_s()), parts.path


def _read(sent_at: float, ended_at: float, lines: list[tuple[float, bytes]]) -> Reply:
    token_at, prefill_at, texts = [], [], []
    usage: dict[str, Any] = {}
    daneel: dict[str, Any] = {}
    for at, line in lines:
        if line.startswith(b": keepalive"):
            prefill_at.append(at)
        if not line.startswith(b"data: ") or line.startswith(b"data: [DONE]"):
            continue
        event = json.loads(line[6:])
        if "error" in event:
            raise ArmFailed(f"an error event: {event['error'].get('message', event['error'])}")
        usage, daneel = event.get("usage") or usage, event.get("daneel") or daneel
        text = "".join(choice["delta"].get("content") or "" for choice in event.get("choices", []))
        if text:
            token_at.append(at)
            texts.append(text)
    if not token_at or not usage or not lines[-1][1].startswith(b"data: [DONE]"):
        raise ArmFailed(f"no whole reply came: {len(token_at)} pieces of content, usage {usage or 'missing'}")
    cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
    counts = usage["prompt_tokens"], usage["completion_tokens"], cached
    return Reply(sent_at, ended_at, token_at, prefill_at, "".join(texts), *counts, daneel)


def _read_error(data: bytes) -> str:
    try:
        return str(json.loads(data)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return data[:300].decode(errors="replace")
