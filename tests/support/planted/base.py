"""Harnesses with planted faults and known E, and a model that plays a script on them: the truth that diagnosis must find.

A `Planted` has real tools, and a script: for each seed, the calls of each turn and the answer. `ScriptClient` plays it through
the real loop; `play()` makes the same run without the loop, for simulations of thousands.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from daneel import Harness
from daneel.bench.diagnose.view import CallView, RunView
from daneel.harness.definition import Goal
from daneel.harness.reply import Reply
from daneel.harness.safety.untrusted import unfenced
from daneel.wire.messages import FunctionCall, Message, ToolCall

Results = Sequence[str]
Said = str | Callable[[Results], str]
"""Text; or what makes it of the results so far."""
Call = tuple[str, dict[str, Any]]
"""A tool's name, and arguments; an argument may be a function of the results so far."""


@dataclass(frozen=True)
class Script:
    """What the model does in one trial: the calls of each turn, then the answer. Right answers begin with `So`."""

    turns: Sequence[Sequence[Call]]
    answer: Said

    @property
    def num_turns(self) -> int:
        return len(self.turns) + 1


@dataclass(frozen=True, kw_only=True)
class Planted:
    """A harness, its goals with a script each, the faults that are in it, and its E on each goal."""

    name: str
    harness: Harness
    goals: dict[str, tuple[str, Callable[[random.Random], Script]]]
    """The prompt, and the script."""
    effectiveness: dict[str, float]
    faults: frozenset[tuple[str, frozenset[str]]] = frozenset()
    """(kind, tools) of each finding that must be made; no other may be."""

    def goal(self, name: str) -> Goal:
        return Goal(name, self.goals[name][0], lambda run: is_right(run.answer))

    def script(self, goal: str, seed: int) -> Script:
        return self.goals[goal][1](random.Random(f"{self.name} {goal} {seed}"))


def is_right(answer: str | None) -> bool:
    return answer is not None and answer.startswith("So")


def fault(kind: str, *tools: str) -> tuple[str, frozenset[str]]:
    return kind, frozenset(tools)


def resolved(value: Any, results: Results) -> Any:
    return value(results) if callable(value) else value


@dataclass
class ScriptClient:
    """A model that plays the script of the planted harness and goal whose prompt it is asked; the seed is the request's."""

    planted: Sequence[Planted]
    is_daneel: bool = True
    model: str = "scripted"
    server: str = "in this process"
    base_url: str = "http://scripted/v1"
    profile: None = None
    by_prompt: dict[tuple[str, str], tuple[Planted, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for each in self.planted:
            for goal, (prompt, _) in each.goals.items():
                self.by_prompt[str(each.harness.system), prompt] = each, goal

    def served_context(self) -> None:
        return None

    def chat(self, messages: Sequence[dict[str, Any]], *, params: dict[str, Any] | None = None, **_: Any) -> Reply:
        planted, goal = self.by_prompt[messages[0]["content"], messages[1]["content"]]
        script = planted.script(goal, (params or {})["seed"])
        turn = sum(message["role"] == "assistant" for message in messages)
        results = [unfenced(message["content"]) for message in messages if message["role"] == "tool"]
        if turn >= len(script.turns):
            return Reply(Message(role="assistant", content=resolved(script.answer, results)), "stop")
        calls = []
        for index, (name, arguments) in enumerate(script.turns[turn]):
            given = {key: resolved(value, results) for key, value in arguments.items()}
            function = FunctionCall(name=name, arguments=json.dumps(given))
            calls.append(ToolCall(id=f"c{turn}_{index}", type="function", index=index, function=function))
        return Reply(Message(role="assistant", content=None, tool_calls=calls), "tool_calls")


def play(planted: Planted, goal: str, seed: int) -> RunView:
    """The run that the loop would make of it."""
    script = planted.script(goal, seed)
    calls: list[CallView] = []
    results: list[str] = []
    for turn, named in enumerate(script.turns, start=1):
        given = [(name, {key: resolved(value, results) for key, value in args.items()}) for name, args in named]
        for name, arguments in given:
            tool = planted.harness.tool(name)
            assert tool is not None
            call = CallView(turn, name, arguments, frozenset(tool.effects))
            try:
                call.result = tool.run(tool.bind(arguments).kwargs)
            except Exception as error:
                call.error = str(error)
                call.result = f"Error: {error}"
            calls.append(call)
            results.append(call.result)
    answer = resolved(script.answer, results)
    shown = {tool.name: script.num_turns for tool in planted.harness.tools if tool.gates.hidden_until is None}
    return RunView(
        id=f"{planted.name}-{goal}-{seed}",
        harness=planted.name,
        harness_hash="h",
        goal=goal,
        prompt=planted.goals[goal][0],
        declarations=planted.harness.declarations(),
        shown=shown,
        calls=calls,
        answer=answer,
        stop_reason="answered",
        achieved=is_right(answer),
        turns=script.num_turns,
    )


def runs(planted: Planted, *, trials: int, start: int = 0) -> Iterator[RunView]:
    """`trials` runs of each goal."""
    for seed in range(start, start + trials):
        for goal in planted.goals:
            yield play(planted, goal, seed)
