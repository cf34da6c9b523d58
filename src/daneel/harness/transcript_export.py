"""Stored runs in forms that other programs read: JSON lines, ATIF, or messages as OpenAI's fine-tuning files have them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from daneel.harness.run_record import JsonObject
from daneel.harness.transcript import EventRow, RunRow


def as_object(run: RunRow, events: list[EventRow]) -> JsonObject:
    """A run with all its events."""
    return {**run_object(run), "events": [event_object(event) for event in events]}


def run_object(run: RunRow) -> JsonObject:
    about = {"id": run.id, "state": run.state, "started_at": run.started_at, "ended_at": run.ended_at}
    return {**about, **run.about, **run.outcome}


def event_object(row: EventRow) -> JsonObject:
    return {"seq": row.seq, "at": row.at, **row.event.to_dict()}


def jsonl(run: RunRow, events: list[EventRow]) -> Iterator[str]:
    """One line for the run, then one for each event, all with the run's id."""
    yield json.dumps({"kind": "run", **run_object(run)})
    for row in events:
        yield json.dumps({"run": run.id, **event_object(row)})


def openai(run: RunRow, events: list[EventRow]) -> str:
    """One line: `{"messages": […], "tools": […]}` in the plain dialect.

    Failed calls become what they were to the model: text of its own, and a user message that answers.
    """
    messages = [row.event.data["message"] for row in events if row.event.kind == "message"]
    line: JsonObject = {"messages": plain_messages(messages)}
    if run.about.get("tools"):
        line["tools"] = run.about["tools"]
    return json.dumps(line)


def atif(run: RunRow, events: list[EventRow]) -> str:
    """One line: the run as a trajectory, see `atif.py`."""
    from daneel.harness.atif import trajectory  # it needs the loop's parts; what only lists runs need not wait for them

    return json.dumps(trajectory(run, events))


def plain_messages(messages: list[JsonObject]) -> list[JsonObject]:
    """Messages without daneel's additions to the dialect."""
    plain: list[JsonObject] = []
    failed_ids: set[str] = set()
    told: list[str] = []
    for message in messages:
        if told and message["role"] != "tool":
            plain.append({"role": "user", "content": "\n\n".join(told)})
            told = []
        if message["role"] == "tool" and message.get("tool_call_id") in failed_ids:
            told.append(message["content"])
            continue
        failed: list[Any] = message.get("failed_tool_calls") or []
        if failed:
            failed_ids.update(call["id"] for call in failed)
            content = "\n".join(part for part in (message.get("content"), *(call["raw"] for call in failed)) if part)
            message = {**{key: value for key, value in message.items() if key != "failed_tool_calls"}, "content": content}
        plain.append(message)
    if told:
        plain.append({"role": "user", "content": "\n\n".join(told)})
    return plain
