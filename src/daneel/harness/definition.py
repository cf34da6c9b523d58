"""`Harness` and `@goal`: what a harness file holds.

harness = Harness(tools=[cur_time], system=None, max_turns=8)

@goal(prompt="What's the current time?")
def now(trial) -> bool:
    return ...
"""

from __future__ import annotations

import copy
import hashlib
import inspect
import json
import math
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from importlib.metadata import version
from inspect import isasyncgenfunction, iscoroutinefunction, isgeneratorfunction
from pathlib import Path
from typing import Any, Literal

from daneel.errors import UserError
from daneel.harness.context_policy import ContextPolicy
from daneel.harness.policy import Recovery
from daneel.harness.raised import forks_end_here
from daneel.harness.run_record import Run
from daneel.harness.safety.policy import SafetyPolicy
from daneel.harness.tools import gating
from daneel.harness.tools.registry import Tool, named_apart, source_of
from daneel.harness.tools.schema import where

ToolResultStyle = Literal["auto", "native", "plain"]

HELD_BY_OTHER_FIELDS = (
    "messages",
    "tools",
    "stream",
    "tool_choice",
    "tool_result_style",
    "temperature",
    "max_tokens",
    "seed",
    "model",
)


@dataclass(frozen=True, kw_only=True)
class Harness:
    """What the loop works with: tools, prompt, limits, sampling and recovery policy. Raises UserError when they do not fit.

    `tool_choice` and `first_tool_choice` (the first turn only) are "auto", "none", "required" or a tool's name.
    `tool_result_style`: "plain" sends results as a plain message, for models that do not finish with their own format;
    "auto" leaves it to the server where the server is daneel's, and is "native" elsewhere.
    """

    tools: Sequence[Tool] = ()
    system: str | None = None
    max_turns: int | None = 8
    name: str | None = None
    temperature: float | None = None
    max_tokens: int | None = 2048
    """Per turn: small models may go on for ever. None: the server's own limit."""
    sampling: Mapping[str, Any] = field(default_factory=dict)
    """Any further request fields, such as `top_p` or `chat_template_kwargs`."""
    tool_choice: str = "auto"
    first_tool_choice: str | None = None
    tool_result_style: ToolResultStyle = "auto"
    recovery: Recovery = field(default_factory=Recovery)
    max_run_tokens: int | None = None
    """Prompt and completion tokens over the whole run."""
    timeout_s: float | None = None
    max_calls: Mapping[str, int] = field(default_factory=dict)
    """Calls per tool and run, by tool name."""
    gate: gating.Gate = field(default_factory=gating.Gate)
    """How closed gates look to the model, for tools whose own gate does not say."""
    safety: SafetyPolicy = field(default_factory=SafetyPolicy)
    """What its tools may do unasked, and what a person is asked for."""
    context: ContextPolicy = field(default_factory=ContextPolicy)
    """When the conversation is made shorter, and by what."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "tools", named_apart(self.tools))
        label = f"harness {self.name}" if self.name else "harness"
        names: set[str] = set()
        for tool in self.tools:
            if not isinstance(tool, Tool):
                raise UserError(f"{label}: {getattr(tool, '__name__', tool)!r} is not a tool; put @tool above the function")
            if tool.name in names:
                raise UserError(f"{label}: two tools are called {tool.name}")
            names.add(tool.name)
        for name in self.safety.unknown_tools(names):
            raise UserError(f"{label}: safety: there is no tool {name}")
        gating.check(self.tools, label)
        self._check_choices(label, names)
        self._check_numbers(label)
        for key in self.sampling:
            if key in HELD_BY_OTHER_FIELDS:
                raise UserError(f"{label}: sampling: {key} has its own field of Harness or is set by the loop")

    def _check_choices(self, label: str, names: set[str]) -> None:
        for field_name, choice in (("tool_choice", self.tool_choice), ("first_tool_choice", self.first_tool_choice)):
            if choice in (None, "auto", "none"):
                continue
            if choice == "required" and names:
                continue
            if choice not in names:
                raise UserError(f'{label}: {field_name}: {choice!r} is neither "auto", "none", "required" nor a tool of it')
        for name in self.max_calls:
            if name not in names:
                raise UserError(f"{label}: max_calls: there is no tool {name}")
        if self.tool_result_style not in ("auto", "native", "plain"):
            raise UserError(f'{label}: tool_result_style must be "auto", "native" or "plain", not {self.tool_result_style!r}')

    def _check_numbers(self, label: str) -> None:
        for field_name in ("max_turns", "max_tokens", "max_run_tokens"):
            value = getattr(self, field_name)
            if value is not None and (not isinstance(value, int) or value < 1):
                raise UserError(f"{label}: {field_name} must be a whole number of at least 1, or None, not {value!r}")
        if self.timeout_s is not None and not self.timeout_s > 0:
            raise UserError(f"{label}: timeout_s must be above 0, or None, not {self.timeout_s!r}")
        if self.temperature is not None and not 0 <= self.temperature < math.inf:
            raise UserError(f"{label}: temperature must be 0 or more, not {self.temperature!r}")
        try:
            json.dumps(dict(self.sampling), allow_nan=False)
        except (TypeError, ValueError) as error:  # sent as it is, NaN would become null: the server's default, unasked
            raise UserError(f"{label}: sampling cannot be sent as JSON: {error}") from error

    def tool(self, name: str) -> Tool | None:
        """The tool of exactly this name."""
        return next((tool for tool in self.tools if tool.name == name), None)

    def declarations(self) -> list[dict[str, Any]]:
        """The `tools` field of a request."""
        return [tool.declaration() for tool in self.tools]

    def with_changes(self, **changes: Any) -> Harness:
        """A copy with other values in some fields; checked as a new one is."""
        return replace(self, **changes)

    def showing(self, tools: Sequence[Tool]) -> Harness:
        """This harness with only these of its tools, as the model sees it in one turn; its limits still speak of all."""
        shown = copy.copy(self)
        object.__setattr__(shown, "tools", tuple(tools))
        return shown

    def fingerprint(self) -> str:
        """*H*: the hash of all that makes this harness behave as it does, its name apart.

        Prompts, tool schemas and source, limits, recovery policy, sampling, and daneel's version.
        """
        return digest(self._identity())

    def parts(self) -> dict[str, str]:
        """The hash of each field of it and of each tool: says where two harnesses differ."""
        identity = self._identity()
        tools = {f"tool {tool[0]['function']['name']}": tool for tool in identity.pop("tools")}
        return {name: digest(value) for name, value in {**identity, **tools}.items()}

    def _identity(self) -> dict[str, Any]:
        plain = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("name", "tools", "recovery")}
        tools = [tool.identity() for tool in self.tools]
        return {**plain, "tools": tools, "recovery": asdict(self.recovery), "daneel": version("daneel")}


Known = Callable[[Path], str | Run]
"""Does to a workspace what a solver would, or a bad one; gives its answer, or the whole run."""

_NO_PLAIN_FUNCTION = (iscoroutinefunction, isasyncgenfunction, isgeneratorfunction)


@dataclass(frozen=True)
class Goal:
    """A prompt, and a check that says whether a run achieved it. Made by `@goal`; calling it calls the check.

    `setup` fills a fresh folder for each trial, which is then the current folder and the run's `workspace`. `known_pass` and
    `known_fail` act on such a folder as a solver would and return its answer, or a whole `Run`. `min_turns`: the fewest turns
    the goal can be reached in, if that is known. `held_out`: kept for confirming, never for choosing.
    """

    name: str
    prompt: str
    check: Callable[[Run], bool]
    setup: Callable[[Path], object] | None = None
    known_pass: Known | None = None
    known_fail: Known | None = None
    min_turns: int | None = None
    held_out: bool = False

    def __call__(self, run: Run) -> bool:
        with forks_end_here():
            said: object = self.check(run)  # whatever a person's code gives
        if inspect.isawaitable(said) or isinstance(said, AsyncGenerator | Generator):
            raise TypeError(f"the check gave a {type(said).__name__}, which is neither true nor false")
        return bool(said)

    def fingerprint(self) -> str:
        """*G*: the hash of prompt, set-up and check."""
        return digest([self.prompt, source_of(self.check), *([source_of(self.setup)] if self.setup else [])])

    def parts(self) -> dict[str, str]:
        """The hash of each part of *G*: says where two goals differ."""
        sources = {"check": self.check, "set-up": self.setup}
        return {"prompt": digest(self.prompt), **{name: digest(source_of(part)) for name, part in sources.items() if part}}


def goal(
    *,
    prompt: str,
    name: str | None = None,
    setup: Callable[[Path], object] | None = None,
    known_pass: Known | None = None,
    known_fail: Known | None = None,
    min_turns: int | None = None,
    held_out: bool = False,
) -> Callable[[Callable[[Run], bool]], Goal]:
    """Make a goal of a check: `@goal(prompt="…")` above `def name(trial) -> bool`. The check is given the finished `Run`.

    What the other arguments mean: see `Goal`.
    """
    if not isinstance(prompt, str) or not prompt.strip():
        raise UserError("goal: the prompt is empty")
    for label, part in (("setup", setup), ("known_pass", known_pass), ("known_fail", known_fail)):
        if part is not None and not callable(part):
            raise UserError(f"goal: {label} must be a function of the workspace, not {part!r}")
        if part is not None and any(is_kind(part) for is_kind in _NO_PLAIN_FUNCTION):
            raise UserError(f"{where(part)}: goal: {label} must be a plain function: no async, no yield")
    if min_turns is not None and (isinstance(min_turns, bool) or not isinstance(min_turns, int) or min_turns < 1):
        raise UserError(f"goal: min_turns must be a whole number of at least 1, or None, not {min_turns!r}")
    if not isinstance(held_out, bool):
        raise UserError(f"goal: held_out must be True or False, not {held_out!r}")

    def make(check: Callable[[Run], bool]) -> Goal:
        goal_name = name or check.__name__
        if any(is_kind(check) for is_kind in _NO_PLAIN_FUNCTION):
            # what it gives is an object before it is an answer, and so would count as achieved whatever it says
            raise UserError(f"{where(check)}: goal {goal_name}: the check must be a plain function: no async, no yield")
        return Goal(goal_name, prompt, check, setup, known_pass, known_fail, min_turns, held_out)

    return make


def digest(value: Any) -> str:
    """A short hash of JSON-like data: the same for the same data, on any machine."""
    canonical = json.dumps(value, sort_keys=True, ensure_ascii=False, default=_plain)
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else repr(value)
