"""A system as a scripted server: what it lists, what it refuses, and how it writes a reply, whole and streamed.

Each file beside this one describes one system, after its documentation, and runs the clock goal against it. The model behind
them all is the one of `tests/support/clock_model.py`; here is only how its words go over the wire.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from tests.support.clock_model import clock_model
from tests.support.scripted_server import Reply, ScriptedServer, error, raw

from daneel.harness.client import Client
from daneel.harness.files import HarnessFile, load
from daneel.harness.loop import run
from daneel.harness.run_record import Run

JsonObject = dict[str, Any]
CLOCK = Path(__file__).resolve().parents[2] / "examples" / "clock.py"
THOUGHTS = "The user wants to know the date – and the time."


@dataclass(frozen=True)
class Said:
    """What the model said: thoughts, and calls or an answer. A call is a name and its arguments as JSON text."""

    thoughts: str = ""
    content: str = ""
    calls: list[tuple[str, str]] = field(default_factory=list)

    @property
    def finish_reason(self) -> str:
        return "tool_calls" if self.calls else "stop"


@dataclass(frozen=True)
class Peer:
    """One system. `whole` and `streamed` make a reply of what was said; `refuse` gives the reply to a request that the system
    would not take, or None. `model` is asked for where the system lists several."""

    listing: Any
    whole: Callable[[Said, JsonObject], Reply]
    streamed: Callable[[Said, JsonObject], Reply]
    refuse: Callable[[JsonObject], Reply | None] = lambda request: None
    model: str | None = None
    thinks: bool = True

    def reply(self, request: JsonObject) -> Reply:
        refusal = self.refuse(request)
        if refusal is not None:
            return refusal
        told = clock_model(request).message
        calls = [(call["function"]["name"], call["function"]["arguments"]) for call in told.get("tool_calls") or []]
        said = Said(THOUGHTS if self.thinks else "", told.get("content") or "", calls)
        return (self.streamed if request.get("stream") else self.whole)(said, request)


@cache
def clock() -> HarnessFile:
    return load(CLOCK)


def play_clock(peer: Peer, *, stream: bool, harness: str = "H1") -> tuple[Run, list[JsonObject]]:
    """One run of the clock goal that must be answered, and its requests."""
    goal = clock().goal("now")
    with (
        ScriptedServer(peer.reply, models=error(200, peer.listing)) as server,
        Client(server.url, model=peer.model, wait=lambda _: None) as client,
    ):
        finished = run(clock().harness(harness), goal.prompt, client=client, stream=stream)
    assert finished.stop_reason == "answered", (finished.stop_reason, finished.detail, finished.events)
    assert goal(finished), finished.answer
    return finished, server.requests


def check_clock(peer: Peer, *, stream: bool) -> list[JsonObject]:
    """The run as it should be: two calls in one turn, the answer in the next, and nothing to repair. Gives its requests."""
    finished, requests = play_clock(peer, stream=stream)
    assert finished.turns == 2
    assert [call.name for call in finished.calls] == ["cur_time", "get_current_date"]
    assert len({call.id for call in finished.calls}) == 2
    assert not finished.events, finished.events
    thoughts = [text for message in requests[1]["messages"] for text in thoughts_in(message)]
    assert thoughts == ([THOUGHTS] if peer.thinks else [])
    return requests


def thoughts_in(message: JsonObject) -> list[str]:
    """Thoughts of a message in a request, wherever they stand."""
    found = [message[name] for name in ("reasoning", "reasoning_content") if message.get(name)]
    content = message.get("content") or ""
    return found or ([content.partition("<think>")[2].partition("</think>")[0].strip()] if "<think>" in content else [])


# --- parts of replies -------------------------------------------------------------------------------------------------


def json_reply(body: Any, *, status: int = 200, **headers: str) -> Reply:
    return error(status, body, headers=headers)


def frames(*payloads: JsonObject | str, done: str = "data: [DONE]\n\n", ascii_only: bool = False, **headers: str) -> Reply:
    """A stream of events. A string goes out as it is."""
    parts = [
        payload if isinstance(payload, str) else f"data: {json.dumps(payload, ensure_ascii=ascii_only)}\n\n"
        for payload in (*payloads, done)
    ]
    sent = {
        "Content-Type": "text/event-stream; charset=utf-8",
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    return raw(*(part.encode() for part in parts), headers=sent)


def altered(reply: Reply, old: str, new: str) -> Reply:
    """The reply with another text in its bytes."""
    headers = {name: value for name, value in reply.headers.items() if name != "Content-Length"}
    return reply.but(headers=headers, parts=tuple(part.replace(old.encode(), new.encode()) for part in reply.parts or ()))


def pieces(text: str, size: int = 6) -> Iterator[str]:
    for start in range(0, len(text), size):
        yield text[start : start + size]


def unreadable_arguments(request: JsonObject) -> str | None:
    """The first arguments in the history that are no JSON object."""
    for message in request["messages"]:
        for call in message.get("tool_calls") or []:
            arguments = call["function"]["arguments"]
            try:
                if not isinstance(json.loads(arguments), dict):
                    return arguments
            except (TypeError, ValueError):
                return repr(arguments)
    return None


def unanswered_calls(request: JsonObject) -> list[str]:
    """Ids that stand in calls without a result, or in results without a call."""
    called = [call["id"] for message in request["messages"] for call in message.get("tool_calls") or []]
    answered = [message["tool_call_id"] for message in request["messages"] if message["role"] == "tool"]
    return sorted(set(called) ^ set(answered))


# --- against what real servers sent -----------------------------------------------------------------------------------


def shapes(body: bytes) -> set[str]:
    """The shape of every JSON object in a body: its fields and those within, whatever their values."""
    texts = [line.removeprefix(b"data: ") for line in body.splitlines() if line.startswith((b"data: {", b"{"))]
    return {json.dumps(_shape(json.loads(text)), sort_keys=True) for text in texts}


def _shape(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _shape(inner) for name, inner in value.items()}
    return [_shape(inner) for inner in value[:1]] if isinstance(value, list) else None


def body_of(reply: Reply) -> bytes:
    return b"".join(reply.parts or ())
