"""The guard of one run: may this call be made, and how is its result shown to the model?

`Guard.check()` is asked once for every call that is about to run, in order; what it lets through counts as done. It never looks
at what a tool result says: rules, the person's word and what the run has touched decide.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from daneel.harness.raised import ToolFailure, described, is_interrupt
from daneel.harness.recovery import Attempt, Problem
from daneel.harness.safety.approvals import ApprovalRequest, Approver
from daneel.harness.safety.patterns import host_matches, path_matches
from daneel.harness.safety.policy import Rule, SafetyPolicy, Verdict
from daneel.harness.safety.secrets import redaction
from daneel.harness.safety.taint import Taint, private_of
from daneel.harness.safety.targets import Touch, safety_of, touches
from daneel.harness.safety.untrusted import bounded, defused, fence
from daneel.harness.tools.registry import Tool

MAX_SHOWN_ARGUMENTS = 20_000

Report = Callable[..., None]
"""Takes an event: its kind, and its data by keyword."""


class Guard:
    """Holds what one run may do. `approver`: who is asked; None is an unattended run, where asking means no."""

    def __init__(self, policy: SafetyPolicy, approver: Approver | None = None, report: Report | None = None) -> None:
        self.policy = policy
        self.taint = Taint()
        self._approver = approver
        self._report = report or (lambda *_, **__: None)
        self._rules = policy.rules()
        self._redact = redaction(wanted=policy.redact)

    def check(self, attempt: Attempt) -> Problem | None:
        """Why the call may not be made, or None; then it counts as made."""
        tool, bound = attempt.tool, attempt.bound
        if tool is None or bound is None:
            return None
        try:
            touched = touches(tool, bound.arguments)
        except ToolFailure as failure:
            return self._refuse(attempt, "refused", str(failure), f"Error: {failure}")
        verdict, reason = self.verdict(tool, touched)
        objection = self.taint.objection(tool, touched, self.policy)
        if objection is not None:
            verdict, reason = max((verdict, reason), (self.policy.private_data_out, objection), key=lambda pair: _RANK[pair[0]])
        if verdict == "deny":
            return self._refuse(attempt, "denied", reason, self.policy.denied.format(name=tool.name, reason=reason))
        if verdict == "ask" and (problem := self._ask(attempt, tool, touched, reason, can_repeat=objection is None)):
            return problem
        self.taint.add(tool, touched, self.policy)
        return None

    def recall(self, tool: Tool, arguments: dict[str, Any]) -> None:
        """A call was made before this guard was there, by the same run before it was resumed."""
        try:
            self.taint.add(tool, touches(tool, arguments), self.policy)
        except ToolFailure:
            return  # it was refused then, too

    def verdict(self, tool: Tool, touched: Sequence[Touch]) -> tuple[Verdict, str]:
        """The strictest verdict over all that a call touches, with the reason in a clause."""
        named = self._by_tool(tool)
        if named is not None and named.verdict != "allow":
            return named.verdict, f"a rule says so: {named.text}"
        found: list[tuple[Verdict, str]] = [self._on(tool, touch, named is not None) for touch in touched]
        # leave to run commands is leave to read what they read; what they have read still counts as read
        private = private_of(tool, [touch for touch in touched if touch.effect != "exec"], self.policy)
        if private is not None and not self._allows_private(touched):
            found.append(("ask", f"it reads private data: {private}"))
        return max(found, key=lambda pair: _RANK[pair[0]], default=("allow", ""))

    def _by_tool(self, tool: Tool) -> Rule | None:
        return next((rule for rule in self._rules if rule.effect is None and rule.pattern == tool.name), None)

    def _on(self, tool: Tool, touch: Touch, tool_is_allowed: bool) -> tuple[Verdict, str]:
        if touch.effect == "write" and touch.path is not None and (kept := path_matches(touch.path, self.policy.protected)):
            return "deny", f"{touch.path} is never written by a tool ({kept})"
        for rule in self._rules:
            if rule.effect == touch.effect and _fits(rule, touch):
                return rule.verdict, f"a rule says so: {rule.text}"
        if tool_is_allowed or (touch.effect == "read" and not touch.is_outside):
            return "allow", ""
        what = {"read": "it reads", "write": "it writes", "network": "it uses the network", "exec": "it runs a command"}
        on = touch.host.name if touch.host is not None else touch.path
        return "ask", what[touch.effect] + (f": {on}" if on else "")

    def _allows_private(self, touched: Sequence[Touch]) -> bool:
        """Whether rules with a pattern allow all that is read. `read` alone, or the tool's name, do not speak of secrets."""
        allowing = [rule for rule in self._rules if rule.verdict == "allow" and rule.effect == "read" and rule.pattern]
        reads = [touch for touch in touched if touch.effect == "read"]
        return bool(reads) and all(any(_fits(rule, touch) for rule in allowing) for touch in reads)

    def _ask(self, attempt: Attempt, tool: Tool, touched: Sequence[Touch], reason: str, *, can_repeat: bool) -> Problem | None:
        if self._approver is None:
            text = self.policy.unattended.format(name=tool.name, reason=reason)
            return self._refuse(attempt, "unattended", reason, text)
        assert attempt.bound is not None
        try:
            preview = safety_of(tool).preview
            diff = preview(attempt.bound.kwargs) if preview is not None else None
        except ToolFailure as failure:  # it could not be made at all, so nobody need be asked
            return self._refuse(attempt, "refused", str(failure), f"Error: {failure}")
        arguments = bounded(json.dumps(attempt.bound.arguments, ensure_ascii=False), MAX_SHOWN_ARGUMENTS)
        effects = tuple(str(touch) for touch in touched)
        request = ApprovalRequest(tool.name, arguments, reason, effects, diff, can_repeat)
        try:
            approved = self._approver.ask(request) is True
        except BaseException as error:
            if is_interrupt(error):
                raise
            approved, reason = False, f"{reason}; asking failed: {described(error)}"
        self._report("approval", id=attempt.id, name=tool.name, reason=reason, approved=approved)
        if approved:
            return None
        return self._refuse(attempt, "declined", reason, self.policy.declined.format(name=tool.name, reason=reason))

    def _refuse(self, attempt: Attempt, how: str, reason: str, reply: str) -> Problem:
        reply = bounded(defused(reply), self.policy.max_result_chars)
        self._report("not_allowed", id=attempt.id, name=attempt.name, how=how, reason=reason)
        return Problem("not_allowed", f"{attempt.name} was not allowed: {reason}", reply)

    def present(self, tool: Tool, text: str, *, own_words: bool = False) -> str:
        """A result as the model may read it: no secrets, bounded, no chat markers, fenced where others may have written it.

        `own_words`: the tool says that it failed, in words of its author.
        """
        text = self.redacted(text)
        foreign = tool.effects & {"read", "network", "exec"} or f"tool:{tool.name}" in self.policy.untrusted
        if foreign and not own_words and not safety_of(tool).fences:
            return fence(text, tool.name, max_chars=self.policy.max_result_chars)
        if safety_of(tool).fences:  # it has marked and defused others' words itself
            return bounded(text, self.policy.max_result_chars)
        return bounded(defused(text), self.policy.max_result_chars)

    def redacted(self, text: str) -> str:
        """The text without secrets."""
        return str(self._redact(text)) if self._redact is not None else text


_RANK: dict[Verdict, int] = {"allow": 0, "ask": 1, "deny": 2}


def _fits(rule: Rule, touch: Touch) -> bool:
    """Whether a rule of the touch's effect speaks of this thing. Of what cannot be told only a rule without pattern does,
    or one that denies or asks: it may be what that rule means."""
    if rule.pattern is None:
        return not (rule.verdict == "allow" and touch.effect == "read" and touch.path is not None and touch.is_outside)
    if touch.host is not None:
        return host_matches(touch.host.name, touch.host.port, rule.pattern)
    if touch.path is not None:
        return path_matches(touch.path, [rule.pattern]) is not None
    return False
