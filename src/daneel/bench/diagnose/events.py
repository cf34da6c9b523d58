"""The events of a stored run, made into the run as diagnosis looks at it.

Only the kinds of events that diagnosis looks at are decoded. What cannot be read is counted in the run's `unreadable` and left
out; the rest of the run still counts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from daneel.bench.diagnose.logprobs import margins
from daneel.bench.diagnose.view import CallView, RunView
from daneel.bench.record import Trial
from daneel.harness.safety.untrusted import unfenced

_T = TypeVar("_T")


class _Request(Struct):
    tools: list[str] | None = None


class _Call(Struct):
    id: str
    name: str
    arguments: Any = None
    effects: list[str] = []


class _Result(Struct):
    id: str
    name: str | None = None
    result: str | None = None
    error: str | None = None


class _Told(Struct):
    id: str | None = None
    name: str | None = None
    problem: str | None = None
    error: str | None = None


class _Stop(Struct):
    reason: str | None = None
    answer: str | None = None


_DECODERS: dict[str, msgspec.json.Decoder[Any]] = {
    "request": msgspec.json.Decoder(_Request),
    "call": msgspec.json.Decoder(_Call),
    "result": msgspec.json.Decoder(_Result),
    "told": msgspec.json.Decoder(_Told),
    "stop": msgspec.json.Decoder(_Stop),
    "reply": msgspec.json.Decoder(dict[str, Any]),
}


def begun(run_id: str, about_text: str, trial: Trial | None) -> RunView:
    """A run without its events, from what its row says, and its trial's where there is one."""
    try:
        about = json.loads(about_text)
    except ValueError:
        about = {}
    about = about if isinstance(about, dict) else {}
    tools = about.get("tools") if isinstance(about.get("tools"), list) else []
    return RunView(
        id=run_id,
        harness=str((trial.harness if trial else about.get("harness")) or "harness"),
        harness_hash=str((trial.harness_hash if trial else about.get("harness_hash")) or ""),
        goal=str((trial.goal if trial else about.get("goal")) or about.get("prompt") or ""),
        prompt=str(about.get("prompt") or ""),
        declarations=[tool for tool in tools or [] if isinstance(tool, dict) and isinstance(tool.get("function"), dict)],
        repeating=frozenset(str(name) for name in about.get("repeating_tools") or []),
    )


def fill(run: RunView, events: Iterator[tuple[str, int, str]]) -> None:
    """Put (kind, turn, data) of each event into the run, in order."""
    by_id: dict[str, CallView] = {}
    for kind, turn, data in events:
        run.turns = max(run.turns, turn)
        event = decoded(data, _DECODERS[kind].decode)
        if event is None:
            run.unreadable += 1
        elif kind == "request":
            for name in run.names if event.tools is None else event.tools:
                run.shown[name] = run.shown.get(name, 0) + 1
        elif kind == "call":
            call = CallView(turn, event.name, _object(event.arguments), frozenset(event.effects))
            by_id[event.id] = call
            run.calls.append(call)
        elif kind == "result":
            _conclude(run, by_id, turn, event)
        elif kind == "told" and event.name is not None:
            run.calls.append(CallView(turn, event.name, {}, error=event.error, problem=event.problem or "told"))
        elif kind == "stop":
            run.answer = event.answer
            run.stop_reason = run.stop_reason or event.reason or ""
        elif kind == "reply":
            run.margins += [(turn, *found) for found in margins(event, run.names)]


def _conclude(run: RunView, by_id: dict[str, CallView], turn: int, event: _Result) -> None:
    call = by_id.get(event.id)
    if call is None or call.result is not None:  # its beginning could not be read
        run.unreadable += 1
        return
    call.result, call.error = unfenced(event.result or ""), event.error


def _object(arguments: Any) -> dict[str, Any]:
    return arguments if isinstance(arguments, dict) else {"": arguments}


def decoded(data: str, decode: Callable[[str], _T]) -> _T | None:
    """Stored JSON as `decode` reads it; None for what it cannot read."""
    try:
        return decode(data)
    except msgspec.DecodeError:
        pass
    try:  # Python's JSON has NaN and Infinity, as tools' arguments may
        return decode(json.dumps(_finite(json.loads(data))))
    except (ValueError, RecursionError, msgspec.DecodeError):
        return None


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_finite(each) for each in value]
    return str(value) if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))) else value
