"""The calls of one reply, made ready: each is bound to a tool and checked arguments, or has a problem the model is told of.

In this order: repair in place what is certain (a slip of case or separator in a name, JSON in a wider grammar, arguments in a
wrapper, a value that converts without loss); else say what was written, what was wrong and what the tool's schema is. No call
is ever mapped onto another tool, none is made with arguments the model did not give, and none is dropped. What ends a run is
for the loop.

Every call is checked here, whatever the server: its own flags (`tool_call_issues`) know the schema, not the function.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from daneel.harness.definition import Harness
from daneel.harness.json_arguments import read_arguments
from daneel.harness.json_calls import calls_at, other_readings
from daneel.harness.names import find_tool
from daneel.harness.policy import Recovery
from daneel.harness.python_calls import code_calls
from daneel.harness.tools.arguments import ArgumentsError, Bound
from daneel.harness.tools.registry import Tool
from daneel.harness.xml_calls import xml_calls
from daneel.wire.messages import FailedToolCall, FunctionCall, Message, ToolCall

__all__ = ["Attempt", "Problem", "ProblemKind", "find_tool", "read_calls", "schema_text", "shown", "unreadable"]

SHOWN_RAW_CHARS = 600

ProblemKind = Literal["malformed", "truncated", "unknown_tool", "invalid_arguments", "call_limit", "gated", "not_allowed"]


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a call is not made. `error` is one clause; `reply` the whole text for the model."""

    kind: ProblemKind
    error: str
    reply: str


@dataclass(slots=True)
class Attempt:
    """One call of a reply. Either `tool` and `bound` are set, or `problem` is.

    `arguments` is JSON text of an object whenever the call can go back into history as a call; for one that could not be
    read it is None. `raw` is the model's own text of the call, `written` of its arguments as far as they can be told apart.
    """

    id: str
    name: str | None
    raw: str
    written: str
    arguments: str | None = None
    tool: Tool | None = None
    bound: Bound | None = None
    problem: Problem | None = None
    failed: FailedToolCall | None = None
    repairs: list[dict[str, Any]] = field(default_factory=list)


def read_calls(message: Message, harness: Harness, *, truncated: bool, next_id: Callable[[], str]) -> list[Attempt]:
    """All calls of a reply, good and failed, in the order the model wrote them.

    `truncated`: the length limit ended the reply, so that arguments that are no JSON were cut off. `next_id` gives a fresh
    id to a call that has none.
    """
    last = len(message.tool_calls) - 1
    good = deque(
        _read_call(call, harness, truncated=truncated and number == last, next_id=next_id)
        for number, call in enumerate(message.tool_calls)
    )
    attempts: list[Attempt] = []
    failed = deque(sorted(message.failed_tool_calls, key=lambda call: call.position))
    while good or failed:
        take_failed = failed and (not good or failed[0].position <= len(attempts))
        attempts.append(_read_failed(failed.popleft(), harness, next_id) if take_failed else good.popleft())
    policy = harness.recovery
    for attempt in attempts[policy.max_calls_per_reply :]:
        text = policy.too_many_calls.format(limit=policy.max_calls_per_reply)
        attempt.problem = attempt.problem or Problem("call_limit", "too many calls in one reply", text)
        attempt.tool = attempt.bound = None
    return attempts


def _read_call(call: ToolCall, harness: Harness, *, truncated: bool, next_id: Callable[[], str]) -> Attempt:
    policy = harness.recovery
    written = call.function.arguments
    attempt = Attempt(call.id or next_id(), call.function.name, raw=f"{call.function.name}({written})", written=written)
    if not call.function.name.strip():
        # some servers refuse a history that holds a call without a name, so it goes back as text
        attempt.name = None
        attempt.problem = unreadable(policy, "malformed", "it does not name a tool", attempt.raw, None, harness)
        return attempt
    tool = find_tool(call.function.name, harness.tools, slips=policy.repair)
    read = read_arguments(written, repair=policy.repair)
    if read.arguments is None:
        kind: ProblemKind = "truncated" if truncated else "malformed"
        attempt.problem = unreadable(policy, kind, read.error or "", attempt.raw, tool, harness)
        return attempt
    attempt.arguments = json.dumps(read.arguments, ensure_ascii=False)
    if read.repair:
        attempt.repairs.append({"repair": read.repair, "before": written, "after": attempt.arguments})
    if tool is None:
        names = ", ".join(tool.name for tool in harness.tools) or "none"
        reply = policy.unknown_tool.format(name=call.function.name, names=names)
        attempt.problem = Problem("unknown_tool", f"there is no tool {call.function.name}", reply)
        return attempt
    if tool.name != call.function.name:
        attempt.repairs.append({"repair": "name", "before": call.function.name, "after": tool.name})
        attempt.name = tool.name
    _bind(attempt, tool, read.arguments, policy)
    return attempt


def _bind(attempt: Attempt, tool: Tool, arguments: dict[str, Any], policy: Recovery) -> None:
    """Check the arguments as they are; if they do not fit, and another reading of them does, that one."""
    try:
        bound = tool.bind(arguments)
        if bound.conversions and not policy.repair:
            raise ArgumentsError("; ".join(bound.conversions))
    except ArgumentsError as error:
        other = _other_reading(tool, arguments) if policy.repair else None
        if other is None:
            reply = policy.invalid_arguments.format(error=error.message, raw=shown(attempt.raw), schema=schema_text(tool))
            attempt.problem = Problem("invalid_arguments", error.message, reply)
            return
        kind, bound = other
        after = json.dumps(bound.arguments, ensure_ascii=False)
        attempt.repairs.append({"repair": kind, "before": attempt.arguments, "after": after})
        attempt.arguments = after
    else:
        if bound.conversions:
            after = json.dumps(bound.arguments, ensure_ascii=False)
            attempt.repairs.append(
                {"repair": "values", "before": attempt.arguments, "after": after, "conversions": list(bound.conversions)}
            )
            attempt.arguments = after
    attempt.tool, attempt.bound = tool, bound


def _other_reading(tool: Tool, arguments: dict[str, Any]) -> tuple[str, Bound] | None:
    for kind, reading in other_readings(tool, arguments):
        try:
            return kind, tool.bind(reading)
        except ArgumentsError:
            continue
    return None


def _read_failed(failed: FailedToolCall, harness: Harness, next_id: Callable[[], str]) -> Attempt:
    """A call between markers that could not be read there: it may still be one in another form. Else the model is told."""
    tool = find_tool(failed.name, harness.tools, slips=True) if failed.name else None
    if harness.recovery.repair and failed.error.type in ("malformed", "truncated"):
        inside = _MARKERS.sub("", failed.raw.strip()).strip()
        tools = harness.tools
        found = calls_at(inside, 0, tools) or []
        if not found and failed.error.type == "malformed":
            found = code_calls(inside, tools) or xml_calls(failed.raw.strip(), tools) or []
        if len(found) == 1:
            function = FunctionCall(found[0].name, found[0].arguments)
            attempt = _read_call(ToolCall(failed.id, function, "function"), harness, truncated=False, next_id=next_id)
            attempt.repairs.insert(0, {"repair": "failed_call", "before": failed.raw, "after": attempt.arguments})
            return attempt
    problem = unreadable(harness.recovery, failed.error.type, failed.error.message, failed.raw, tool, harness)
    return Attempt(failed.id or next_id(), failed.name, raw=failed.raw, written=failed.raw, problem=problem, failed=failed)


_MARKERS = re.compile(r"\A(?:<[^<>\n]{1,40}>|\[[A-Z_]{1,20}\]|```[a-z_]*)|(?:</?[^<>\n]{1,40}>|\[/[A-Z_]{1,20}\]|```)\Z")
"""A family's markers around a call."""


def unreadable(policy: Recovery, kind: ProblemKind, error: str, raw: str, tool: Tool | None, harness: Harness) -> Problem:
    """The problem of a call that is no call: with the schema of its tool, or of all tools when the name is not known."""
    wording = policy.truncated_call if kind == "truncated" else policy.failed_call
    schema = schema_text(tool) if tool else "one of " + ", ".join(each.name for each in harness.tools)
    return Problem(kind, error, wording.format(error=error, raw=shown(raw), schema=schema))


def schema_text(tool: Tool) -> str:
    """Name and parameters of a tool as short JSON, for a message to the model."""
    return json.dumps({"name": tool.name, "parameters": tool.parameters}, ensure_ascii=False)


def shown(raw: str) -> str:
    """What the model wrote, cut in the middle when it is long."""
    if len(raw) <= SHOWN_RAW_CHARS:
        return raw
    half = SHOWN_RAW_CHARS // 2
    return f"{raw[:half]} […] {raw[-half:]}"
