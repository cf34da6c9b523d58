"""`@tool`: a Python function that a model may call.

    @tool
    def add(a: int, b: int) -> int:
        '''Add two numbers.

        Args:
            a: the first number
        '''
        return a + b

The signature and the docstring make the schema, see `schema.py`; arguments are checked before a call, see `arguments.py`. What
else `@tool` can be told has its own modules: `examples.py`, `rendering.py`, `gating.py`, and `running.py` for time limits.
"""

from __future__ import annotations

import inspect
import json
import re
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args, overload

from pydantic import BaseModel

from daneel.errors import UserError
from daneel.harness.tools.arguments import ArgumentsError, Bound, bind
from daneel.harness.tools.examples import Example, examples_of
from daneel.harness.tools.gating import NO_GATES, After, Calls, Gate, Gates, gates_of
from daneel.harness.tools.rendering import MAX_RESULT_CHARS, MIN_RESULT_CHARS, Render, Sentence, renderer, result_text
from daneel.harness.tools.running import value_of
from daneel.harness.tools.schema import JsonSchema, arguments_model, compact_schema, describe, where

__all__ = ["Effect", "Tool", "result_text", "source_of", "tool"]

Effect = Literal["read", "write", "network", "exec"]
EFFECTS: frozenset[Effect] = frozenset(get_args(Effect))

MAX_NAME_CHARS = 64
NAME = re.compile(rf"[A-Za-z0-9_.-]{{1,{MAX_NAME_CHARS}}}\Z")
"""Names that all servers take."""


GATE_PARAMETERS: dict[str, Any] = {
    "requires": (),
    "only_after": (),
    "max_calls": None,
    "hidden_until": None,
    "gate": None,
}
CHANGEABLE = frozenset(
    {"name", "description", "parallel", "repeats", "effects", "examples", "render"}
    | {"max_result_chars", "rest_hint", "timeout_s", *GATE_PARAMETERS}
)


@dataclass(frozen=True, eq=False)
class Tool:
    """A function a model may call. Made by `@tool`; calling it calls the function."""

    name: str
    description: str
    parameters: JsonSchema
    function: Callable[..., Any]
    source: str
    parallel: bool = False
    """Safe to run at the same time as other calls."""
    repeats: bool = False
    """Calling it again with the same arguments is sensible (it polls something): the repeat detector leaves it alone."""
    model: type[BaseModel] = field(repr=False, default=BaseModel)
    binder: Callable[[dict[str, Any]], Bound] | None = field(repr=False, default=None)
    """Checks arguments in place of `model`, for tools that came with a JSON schema of their own."""
    effects: frozenset[Effect] = frozenset()
    """What it does beyond computing its result; empty: nothing."""
    examples: tuple[Example, ...] = field(repr=False, default=())
    render: Render | None = field(repr=False, default=None)
    """`(result, arguments)` to what the model reads; None: strings as they are, all else as JSON."""
    gates: Gates = NO_GATES
    max_result_chars: int | None = MAX_RESULT_CHARS
    rest_hint: str = ""
    """How the model gets at the rest of a result that was cut: one sentence."""
    timeout_s: float | None = None
    origin: str = ""
    """Where it came from, when not from a function of the harness's author: goes before its name where names collide."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def declaration(self) -> dict[str, Any]:
        """The tool as the `tools` field of a request has it."""
        function = {"name": self.name, "description": self.description, "parameters": self.parameters}
        return {"type": "function", "function": function}

    def identity(self) -> list[Any]:
        """All that makes the tool behave as it does, for fingerprints."""
        gates = self.gates
        code = [source_of(part) for part in (self.render, gates.hidden_until) if part is not None]
        gated = [[[after.tool, after.success, after.same] for after in gates.after], gates.max_calls, repr(gates.gate)]
        limits = [self.max_result_chars, self.rest_hint, self.timeout_s]
        return [self.declaration(), self.source, self.parallel, self.repeats, sorted(self.effects), code, gated, limits]

    def with_changes(self, **changes: Any) -> Tool:
        """A copy that some of `@tool`'s parameters change, such as `timeout_s=` or `max_calls=`; checked as there.

        For tools that somebody else has made. The parameters of gates (`requires`, `only_after`, `max_calls`,
        `hidden_until`, `gate`) replace all gates together.
        """
        label = f"tool {self.name}"
        gates = {name: changes.pop(name) for name in GATE_PARAMETERS if name in changes}
        for name, check in self._checked().items():
            if name in changes:
                changes[name] = check(changes[name], label)
        if unknown := set(changes) - CHANGEABLE:
            raise UserError(f"{label}: {min(unknown)!r} cannot be changed; there are {', '.join(sorted(CHANGEABLE))}")
        if gates:
            changes["gates"] = gates_of(label, **{**GATE_PARAMETERS, **gates})
        changed = replace(self, **changes)
        check_name(changed.name, label)
        check_limits(label, max_result_chars=changed.max_result_chars, timeout_s=changed.timeout_s)
        return changed

    def _checked(self) -> dict[str, Callable[[Any, str], Any]]:
        parameters = set(self.parameters.get("properties", {}))
        return {
            "effects": effects_of,
            "examples": examples_of,
            "render": lambda given, label: renderer(given, parameters, label),
        }

    def bind(self, arguments: dict[str, Any]) -> Bound:
        """Check arguments. Raises ArgumentsError, whose message is for the model."""
        return bind(self.model, arguments) if self.binder is None else self.binder(arguments)

    def validate(self, arguments_json: str) -> dict[str, Any]:
        """Keyword arguments for the function, from JSON text. Raises ArgumentsError."""
        try:
            arguments = json.loads(arguments_json)
        except ValueError as error:
            raise ArgumentsError(f"the arguments are not JSON: {error}") from error
        if not isinstance(arguments, dict):
            raise ArgumentsError("the arguments must be a JSON object")
        return self.bind(arguments).kwargs

    def run(self, kwargs: dict[str, Any]) -> str:
        """Call the function; its result as the text the model reads, uncut. Exceptions of the function pass through."""
        value = value_of(self, kwargs)
        return result_text(value if self.render is None else self.render(value, kwargs))


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...


@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    parallel: bool = False,
    repeats: bool = False,
    effects: Effect | Iterable[Effect] = (),
    examples: Sequence[Example | tuple[dict[str, Any], Any]] = (),
    render: str | Render | None = None,
    requires: str | Sequence[str] = (),
    only_after: After | Sequence[After] = (),
    max_calls: int | None = None,
    hidden_until: Callable[[Calls], bool] | None = None,
    gate: Gate | None = None,
    max_result_chars: int | None = MAX_RESULT_CHARS,
    rest_hint: str = "",
    timeout_s: float | None = None,
) -> Callable[[Callable[..., Any]], Tool]: ...


def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    parallel: bool = False,
    repeats: bool = False,
    effects: Effect | Iterable[Effect] = (),
    examples: Sequence[Example | tuple[dict[str, Any], Any]] = (),
    render: str | Render | None = None,
    requires: str | Sequence[str] = (),
    only_after: After | Sequence[After] = (),
    max_calls: int | None = None,
    hidden_until: Callable[[Calls], bool] | None = None,
    gate: Gate | None = None,
    max_result_chars: int | None = MAX_RESULT_CHARS,
    rest_hint: str = "",
    timeout_s: float | None = None,
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a tool of a function: `@tool`, or `@tool(name=…, examples=[…], …)`; `Tool` says what each of them means.

    `requires` names tools that must have been called with success before; `only_after` says it of one in detail; `max_calls`
    is per run; `hidden_until` is given the calls so far; `gate` says how it looks while it is closed (`gating.py`).
    Raises UserError, naming tool and line, when the function has no docstring (and no `description` is given), a
    parameter has no type, the name has characters that servers refuse, or a value makes no sense.
    """

    def make(function: Callable[..., Any]) -> Tool:
        tool_name = name or function.__name__
        label = f"{where(function)}: tool {tool_name}"
        check_name(tool_name, where(function))
        text, per_parameter = describe(function)
        text = description if description is not None else text
        if not text.strip():
            raise UserError(f"{label} has no docstring; the model needs one to know when to call it")
        check_limits(label, max_result_chars=max_result_chars, timeout_s=timeout_s)
        model = arguments_model(function, tool_name, per_parameter)
        parameters = compact_schema(model)
        return Tool(
            name=tool_name,
            description=text,
            parameters=parameters,
            function=function,
            source=source_of(function),
            parallel=parallel,
            repeats=repeats,
            model=model,
            effects=effects_of(effects, label),
            examples=examples_of(examples, label),
            render=renderer(render, set(parameters["properties"]), label),
            gates=gates_of(
                label,
                requires=requires,
                only_after=only_after,
                max_calls=max_calls,
                hidden_until=hidden_until,
                gate=gate,
            ),
            max_result_chars=max_result_chars,
            rest_hint=rest_hint,
            timeout_s=timeout_s,
        )

    return make if function is None else make(function)


def named_apart(tools: Iterable[Any]) -> tuple[Any, ...]:
    """Where two tools have one name, those that came from elsewhere get their origin before it."""
    tools = tuple(tools)
    counts = Counter(tool.name for tool in tools if isinstance(tool, Tool))
    return tuple(
        replace(tool, name=f"{tool.origin}_{tool.name}"[:MAX_NAME_CHARS])
        if isinstance(tool, Tool) and tool.origin and counts[tool.name] > 1
        else tool
        for tool in tools
    )


def effects_of(given: Effect | Iterable[Effect], label: str) -> frozenset[Effect]:
    """The effects that a person has named. Raises UserError for one that there is not."""
    effects: frozenset[Effect] = frozenset([given] if isinstance(given, str) else given)
    for effect in effects - EFFECTS:
        raise UserError(f"{label}: effects: {effect!r} is none of {', '.join(sorted(EFFECTS))}")
    return effects


def check_name(name: str, label: str) -> None:
    """Raises UserError for a name that some server would refuse."""
    if not isinstance(name, str) or not NAME.match(name):
        raise UserError(f"{label}: tool name {name!r}: use 1 to {MAX_NAME_CHARS} letters, digits, '_', '-' and '.'")


def check_limits(label: str, *, max_result_chars: int | None, timeout_s: float | None) -> None:
    """Raises UserError for limits that make no sense."""
    if max_result_chars is not None and (not isinstance(max_result_chars, int) or max_result_chars < MIN_RESULT_CHARS):
        raise UserError(f"{label}: max_result_chars must be at least {MIN_RESULT_CHARS}, or None, not {max_result_chars!r}")
    if timeout_s is not None and (not isinstance(timeout_s, int | float) or not timeout_s > 0):
        raise UserError(f"{label}: timeout_s must be above 0, or None, not {timeout_s!r}")


def source_of(function: Callable[..., Any]) -> str:
    """The function's source text, for fingerprints; its bytecode when the source is not to be had."""
    if isinstance(function, Sentence):
        return repr(function)
    try:
        return textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError):
        code = getattr(function, "__code__", None)
        return code.co_code.hex() + repr(code.co_consts) if code is not None else repr(type(function))
