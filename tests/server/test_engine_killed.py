"""The engine's process is killed while streams run: HTTP goes on, and every stream ends with an error event.

One of which nothing was sent yet, because it waits for its turn, is told by its status, 503, and the same error.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import psutil
import pytest
from tests.support import tiny_models

from daneel.cli.local_server import LocalServer

AT_A_TIME, STREAMS = 4, 6
"""Two more streams than run at a time: the engine is killed while they wait."""

PATIENCE_S = 60.0
"""The promise is 2 s (printed, not judged: this machine may be busy)."""


@dataclass
class Stream:
    """One streamed request in a thread of its own. `events` are what it got, `ended_at` when its connection ended."""

    url: str
    number: int
    events: list[dict[str, Any]] = field(default_factory=list)
    begun: threading.Event = field(default_factory=threading.Event)
    spoken: threading.Event = field(default_factory=threading.Event)
    done: bool = False
    ended_at: float = 0.0

    def __post_init__(self) -> None:
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        body = {
            "messages": [{"role": "user", "content": f"Question {self.number}"}],
            "stream": True,
            "max_tokens": 20_000,
            "logit_bias": {tiny_models.END_ID: -100},
        }
        with httpx2.stream("POST", f"{self.url}/chat/completions", json=body, timeout=PATIENCE_S) as response:
            self.begun.set()
            if response.status_code == 503:
                self.events, self.done = [json.loads(response.read())], True
            for line in response.iter_lines() if response.status_code == 200 else ():
                if line == "data: [DONE]":
                    self.done = True
                elif line.startswith("data: "):
                    self.events.append(json.loads(line.removeprefix("data: ")))
                    if "error" not in self.events[-1]:
                        self.spoken.set()
        self.ended_at = time.monotonic()


def engine_of(server: LocalServer) -> psutil.Process:
    """The engine's process of a server."""
    assert server._process is not None
    children = psutil.Process(server._process.pid).children(recursive=True)
    [engine] = [child for child in children if "daneel.server.engine_main" in child.cmdline()]
    return engine


def until_ready(url: str) -> None:
    """HTTP answers all the while."""
    deadline = time.monotonic() + PATIENCE_S
    while httpx2.get(f"{url.removesuffix('/v1')}/health").raise_for_status().json()["engine"] != "ready":
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("num_kills", [2, pytest.param(20, marks=pytest.mark.exhaustive)])
def test_killed_under_load_http_goes_on_and_every_stream_is_told(num_kills: int, tmp_path: Path) -> None:
    model = tiny_models.write_llama(tmp_path / "tiny.gguf", context_tokens=32_768)
    arguments = ["--parallel", str(AT_A_TIME), "--context", "30000", "--kv-tokens", "60000"]
    server = LocalServer(model, engine="llama.cpp", extra_args=arguments)
    longest_s = 0.0
    with server as url:
        for _ in range(num_kills):
            streams = [Stream(url, number) for number in range(STREAMS)]
            deadline = time.monotonic() + PATIENCE_S
            while sum(each.spoken.is_set() for each in streams) < AT_A_TIME or not all(each.begun.is_set() for each in streams):
                assert time.monotonic() < deadline
                time.sleep(0.01)
            engine = engine_of(server)
            killed_at = time.monotonic()
            os.kill(engine.pid, signal.SIGKILL)
            assert httpx2.get(f"{url}/models").status_code == 200
            for stream in streams:
                stream.thread.join(PATIENCE_S)
                assert not stream.thread.is_alive()
                assert stream.done
                told = stream.events[-1]["error"]["message"]
                # one that came just then may be told before it is known how the process ended
                assert "SIGKILL" in told or (not stream.spoken.is_set() and "process" in told), told
                longest_s = max(longest_s, stream.ended_at - killed_at)
            until_ready(url)
            hello = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 4}
            reply = httpx2.post(f"{url}/chat/completions", json=hello, timeout=PATIENCE_S)
            assert reply.status_code == 200, reply.text
    print(f"{num_kills} kills: the last of {STREAMS} streams ended at most {longest_s:.3f} s after the kill")
