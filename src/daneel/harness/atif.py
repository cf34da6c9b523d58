"""A stored run as a trajectory in ATIF, the Agent Trajectory Interchange Format, version 1.7: one JSON object.

One step for each message of the system or the user, one for each reply of the model. A reply's step holds its calls as they
were made, after repairs, and their results. What ATIF has no place for (failed calls, repairs, firings of detectors, where the
request was cut short) stands in a step's `extra`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from daneel.harness.past import ORDINARY
from daneel.harness.run_record import JsonObject
from daneel.harness.transcript import EventRow, RunRow

SCHEMA_VERSION = "ATIF-v1.7"

_ABOUT = ("harness", "harness_hash", "goal", "seed", "server", "measurement", "options")


def trajectory(run: RunRow, rows: Sequence[EventRow]) -> JsonObject:
    """The whole run."""
    steps = _Steps(run)
    for row in rows:
        steps.add(row)
    outcome = run.outcome
    return {
        "schema_version": SCHEMA_VERSION,
        "session_id": run.id,
        "trajectory_id": run.id,
        "agent": _present(
            name="daneel",
            version=version("daneel"),
            model_name=_text(run.about.get("model")),
            tool_definitions=run.about.get("tools") or None,
            extra=_present(**{name: run.about.get(name) for name in _ABOUT}),
        ),
        "steps": steps.finished(),
        "final_metrics": steps.final_metrics(),
        "extra": _present(state=run.state, detail=outcome.get("detail"), duration_s=outcome.get("duration_s")),
    }


class _Steps:
    """Steps as events come. A step that is not the model's is closed at once; a reply's takes in its calls and results."""

    def __init__(self, run: RunRow) -> None:
        self._run = run
        self._steps: list[JsonObject] = []
        self._reply: JsonObject | None = None
        self._totals = {"prompt_tokens": 0, "completion_tokens": 0, "cached_tokens": 0}
        self._tools: list[str] | None = None

    def add(self, row: EventRow) -> None:
        event = row.event
        if event.kind == "message":
            self._message(row, event.data.get("message") or {})
        elif event.kind == "request":
            self._tools = event.data.get("tools")
        elif event.kind == "reply":
            self._begin_reply(row)
        elif event.kind == "compacted":
            self._compacted(row)
        elif event.kind not in ORDINARY:
            self._beside(event.to_dict())

    def finished(self) -> list[JsonObject]:
        """All steps. A run that was killed before its first message has the prompt it was to begin with."""
        if not self._steps:
            self._step(self._run.started_at, "user", str(self._run.about.get("prompt") or ""))
        return self._steps

    def final_metrics(self) -> JsonObject:
        totals = {f"total_{name}": count for name, count in self._totals.items()}
        return {**totals, "total_steps": len(self._steps)}

    def _step(self, at: float, source: str, message: str) -> JsonObject:
        when = datetime.fromtimestamp(at, UTC).isoformat().replace("+00:00", "Z")
        step: JsonObject = {"step_id": len(self._steps) + 1, "timestamp": when, "source": source, "message": message}
        self._steps.append(step)
        return step

    def _message(self, row: EventRow, message: JsonObject) -> None:
        role, text = message.get("role"), _text(message.get("content")) or ""
        if role == "assistant" and self._reply is not None:
            calls = [_call(call) for call in message.get("tool_calls") or []]
            if calls:
                self._reply["tool_calls"] = calls
            if message.get("failed_tool_calls"):
                self._extra()["failed_tool_calls"] = message["failed_tool_calls"]
        elif role == "tool" and self._reply is not None:
            known = [call["tool_call_id"] for call in self._reply.get("tool_calls", ())]
            called = message.get("tool_call_id")
            results = self._reply.setdefault("observation", {"results": []})["results"]
            results.append(_present(source_call_id=called if called in known else None, content=text))
        else:
            self._reply = None
            step = self._step(row.at, "system" if role == "system" else "user", text)
            if message.get("name"):
                step["extra"] = {"name": message["name"]}

    def _begin_reply(self, row: EventRow) -> None:
        data = row.event.data
        message = data.get("message") or {}
        self._reply = self._step(row.at, "agent", _text(message.get("content")) or "")
        thoughts = message.get("reasoning") or message.get("reasoning_content")
        self._reply |= _present(model_name=_text(data.get("model")), reasoning_content=_text(thoughts), llm_call_count=1)
        usage = data.get("usage")
        if usage:
            counted = {name: usage.get(name) or 0 for name in ("prompt_tokens", "completion_tokens")}
            counted["cached_tokens"] = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
            for name, count in counted.items():
                self._totals[name] += count
            more = {name: count for name, count in (usage.get("completion_tokens_details") or {}).items() if count}
            self._reply["metrics"] = {**counted, **_present(extra=more or None)}
        reply = _present(turn=row.event.turn, finish_reason=data.get("finish_reason"), tools=self._tools)
        self._extra().update(reply)

    def _compacted(self, row: EventRow) -> None:
        """The conversation was made shorter: what the steps before say stays, the model is sent less of it from here on."""
        self._reply = None
        step = self._step(row.at, "system", "The conversation was made shorter.")
        how = {"type": "compaction", "boundary": "truncate"}
        step["extra"] = {"context_management": how, **row.event.to_dict()}

    def _extra(self) -> JsonObject:
        step = self._reply if self._reply is not None else self._steps[-1]
        extra: JsonObject = step.setdefault("extra", {})
        return extra

    def _beside(self, event: JsonObject) -> None:
        if self._steps:
            self._extra().setdefault("events", []).append(event)


def _call(call: JsonObject) -> JsonObject:
    function = call.get("function") or {}
    try:
        arguments = json.loads(function.get("arguments") or "{}")
    except ValueError:
        arguments = {}
    made: JsonObject = {"tool_call_id": str(call.get("id")), "function_name": str(function.get("name"))}
    if isinstance(arguments, dict):
        return {**made, "arguments": arguments}
    return {**made, "arguments": {}, "extra": {"arguments": arguments}}


def _present(**fields: Any) -> JsonObject:
    return {name: value for name, value in fields.items() if value is not None}


def _text(value: Any) -> str | None:
    """A message's content as text: its text parts joined, where it comes in parts."""
    if isinstance(value, list):
        return "".join(str(part.get("text") or "") for part in value if isinstance(part, dict))
    return None if value is None else str(value)
