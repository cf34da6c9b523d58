"""The gates of one run: which tools the model is shown each turn, and which of its calls are not made yet, with the reason.

The loop asks three things of it: `start_turn()` before a request, `read()` for the calls of a reply that name a tool which is
not shown, and `problem()` right before a call is made, because an earlier call of the same reply may have opened a gate.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from daneel.harness.definition import Harness
from daneel.harness.recorder import Recorder
from daneel.harness.recovery import Attempt, Problem, find_tool
from daneel.harness.run_record import CallRecord, JsonObject
from daneel.harness.tools.gating import Closed, Shown, closed, visible
from daneel.harness.tools.registry import Tool


class Gatekeeper:
    """`shown` is the harness as the model sees it this turn: the same, with the tools that are declared."""

    def __init__(self, harness: Harness, calls: Sequence[CallRecord], recorder: Recorder) -> None:
        self.harness = harness
        self.shown = harness
        self._calls = calls
        self._recorder = recorder
        self._errors: set[str] = set()
        self._is_gated = any(tool.gates for tool in harness.tools)
        self._states: list[Shown] = [Shown(tool, "hidden") for tool in harness.tools]
        self._were_declared = set() if self._is_gated else {tool.name for tool in harness.tools}
        self._hidden_for: dict[str, int] = {}
        self._last_open: list[str] | None = None

    def hide(self, name: str, *, turns: int = 1) -> None:
        """Do not declare this tool in the next turns, whatever its gates say."""
        self._hidden_for[name] = turns

    def start_turn(self) -> str | None:
        """See which gates are open now. Gives what the model is to be told of it, if anything."""
        if not self._is_gated and not self._hidden_for and self.shown is self.harness:
            return None
        self._states = visible(self.harness.tools, self._calls, self.harness.gate)
        for state in self._states:
            if state.closed is not None and state.closed.error is not None:
                self._record_error(state.tool.name, state.closed.error)
        declared = [state.tool for state in self._states if state.declared and not self._hidden_for.get(state.tool.name)]
        self._hidden_for = {name: turns - 1 for name, turns in self._hidden_for.items() if turns > 1}
        self.shown = self.harness if len(declared) == len(self._states) else self.harness.showing(declared)
        self._were_declared.update(tool.name for tool in declared)
        return self._mask_note()

    def _record_error(self, name: str, error: str) -> None:
        if f"{name}: {error}" not in self._errors:  # it may well be the same in every turn
            self._errors.add(f"{name}: {error}")
            self._recorder.event("gate_failed", name=name, error=error)

    def visible(self) -> JsonObject:
        """For the record of a request: the tools that are declared, and those of them whose calls would be refused."""
        refused = self.closed_names()
        tools = [tool.name for tool in self.shown.tools]
        return {"tools": tools, "refused_tools": refused} if refused else {"tools": tools}

    def _mask_note(self) -> str | None:
        if not any(state.mode == "masked" and state.tool.gates for state in self._states):
            return None
        last, self._last_open = self._last_open, self.open_names()
        if last is None or last == self._last_open:
            return None
        return self.harness.recovery.tools_now.format(names=", ".join(self._last_open) or "none")

    def closed_names(self) -> list[str]:
        """Tools that are declared this turn, though a call of them would be refused."""
        return [state.tool.name for state in self._states if state.declared and state.closed is not None]

    def open_names(self) -> list[str]:
        """Tools that may be called this turn."""
        closed_now = set(self.closed_names())
        return [tool.name for tool in self.shown.tools if tool.name not in closed_now]

    def choice(self, wanted: str) -> str:
        """The `tool_choice` to send for this one: a tool that is not open cannot be forced."""
        if wanted in ("auto", "none"):
            return wanted
        open_now = self.open_names()
        return wanted if wanted in open_now or (wanted == "required" and open_now) else "auto"

    def read(self, attempts: Sequence[Attempt]) -> None:
        """Calls of tools that are not shown now, but were earlier in this run, hear why; the others hear of no such tool."""
        for attempt in attempts:
            if attempt.problem is None or attempt.problem.kind != "unknown_tool" or attempt.name is None:
                continue
            tool = find_tool(attempt.name, self.harness.tools, slips=True)
            if tool is not None and tool.name in self._were_declared:
                attempt.problem = self._refusal(tool, closed(tool, self._calls) or Closed())

    def problem(self, attempt: Attempt) -> Problem | None:
        """Why this call is not made now; None when it may be."""
        if attempt.tool is None or not attempt.tool.gates:
            return None
        arguments = attempt.bound.arguments if attempt.bound is not None else {}
        why = closed(attempt.tool, self._calls, arguments)
        return None if why is None else self._refusal(attempt.tool, why)

    def _refusal(self, tool: Tool, why: Closed) -> Problem:
        policy = self.harness.recovery
        if why.limit is not None:
            text = policy.call_limit.format(name=tool.name, limit=why.limit)
            return Problem("call_limit", f"{tool.name} may be called {why.limit} times", text)
        gate = tool.gates.gate or self.harness.gate
        hint = gate.hint or self._what_first(tool, why)
        reason = f"{why.needed} has to be called first" if why.needed else "its gate is closed"
        return Problem(
            "gated", f"{tool.name} cannot be called now: {reason}", policy.gated_call.format(name=tool.name, hint=hint)
        )

    def _what_first(self, tool: Tool, why: Closed) -> str:
        policy = self.harness.recovery
        if why.needed is None:
            names = ", ".join(name for name in self.open_names() if name != tool.name) or "none"
            return policy.tools_now.format(names=names)
        if why.same:
            return policy.call_first_with.format(name=tool.name, needed=why.needed, arguments=_listed(why.same))
        return policy.call_first.format(name=tool.name, needed=why.needed)


def _listed(arguments: dict[str, Any]) -> str:
    return ", ".join(f"{name} {json.dumps(value, ensure_ascii=False, default=str)}" for name, value in arguments.items())
