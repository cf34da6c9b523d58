"""A scripted server and a client that stay up for many short runs: starting both anew costs more than the run."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from daneel import Harness
from daneel.harness.client import Client
from daneel.harness.loop import run
from daneel.harness.run_record import Run
from tests.support.scripted_server import Reply, ScriptedServer, error

PROMPT = "What is it?"


class Stage:
    """`play()` runs a harness on a script, against daneel's server or, with `owned_by="someone"`, a foreign one."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._script: list[Any] = []
        self._peers: dict[str, tuple[ScriptedServer, Client]] = {}

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _peer(self, owned_by: str) -> tuple[ScriptedServer, Client]:
        if owned_by not in self._peers:
            server = self._stack.enter_context(ScriptedServer(self._next, owned_by=owned_by))
            client = self._stack.enter_context(Client(server.url, wait=lambda _: None))
            self._peers[owned_by] = server, client
        return self._peers[owned_by]

    def _next(self, request: dict[str, Any]) -> Reply:
        if not self._script:
            return error(400, "no scripted reply left")
        entry = self._script.pop(0)
        return entry(request) if callable(entry) else entry

    def play(
        self, script: list[Any], harness: Harness, *, owned_by: str = "daneel", prompt: str = PROMPT, **more: Any
    ) -> tuple[Run, list[dict[str, Any]]]:
        """The run, and the requests it sent."""
        server, client = self._peer(owned_by)
        self._script = list(script)
        start = len(server.requests)
        finished = run(harness, prompt, client=client, **more)
        return finished, server.requests[start:]
