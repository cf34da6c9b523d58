"""Two tools as one: the first is called, then the second, and both results are given."""

from __future__ import annotations

import copy
import json
from typing import Any

from daneel.errors import UserError
from daneel.harness.tools.arguments import ArgumentsError, Bound
from daneel.harness.tools.registry import Tool, check_name


def merged_tool(first: Tool, second: Tool, *, name: str, description: str, link: str | None) -> Tool:
    """The two as one tool. `link`: the argument of the second that comes from the first one's result.

    Raises `UserError` where they cannot be merged: arguments of one name, gates, no such argument, effects that could not be
    checked.
    """
    check_name(name, "merge")
    mine, theirs = (_properties(tool) for tool in (first, second))
    own = {key: schema for key, schema in theirs.items() if key != link}
    _refuse(first, second, link, clash=sorted(mine.keys() & own.keys()))

    def bind(arguments: dict[str, Any]) -> Bound:
        if unknown := sorted(arguments.keys() - mine.keys() - own.keys()):
            raise ArgumentsError(f"there is no argument {unknown[0]}; there are {', '.join([*mine, *own]) or 'none'}")
        bound = first.bind({key: value for key, value in arguments.items() if key in mine})
        # what comes from the first result is not known yet; the rest is checked again with it
        later = {key: copy.deepcopy(value) for key, value in arguments.items() if key in own}
        checked = Bound({}, later) if link is not None else second.bind(later)
        return Bound(
            {"first": bound.kwargs, "second": checked.kwargs or later},
            {**bound.arguments, **checked.arguments},
            (*bound.conversions, *checked.conversions),
        )

    def call(first_arguments: dict[str, Any], second_arguments: dict[str, Any]) -> str:
        said = first.run(first_arguments)
        given = second_arguments
        if link is not None:
            given = second.bind({**second_arguments, link: linked_value(said, link)}).kwargs
        return f"{said}\n{second.run(given)}"

    return Tool(
        name=name,
        description=description,
        parameters=_parameters(first, second, link),
        function=lambda first, second: call(first, second),
        source=f"{first.source}\n# then, with {link or 'its own arguments'}:\n{second.source}",
        parallel=first.parallel and second.parallel,
        repeats=first.repeats and second.repeats,
        binder=bind,
        effects=first.effects | second.effects,
        max_result_chars=_larger(first.max_result_chars, second.max_result_chars),
        timeout_s=None if None in (first.timeout_s, second.timeout_s) else (first.timeout_s or 0) + (second.timeout_s or 0),
    )


def _refuse(first: Tool, second: Tool, link: str | None, *, clash: list[str]) -> None:
    """Raises `UserError` where the two cannot be merged."""
    if link is not None and link not in _properties(second):
        raise UserError(f"{second.name} has no argument {link}")
    if clash:
        raise UserError(f"both have an argument {clash[0]}")
    if link is not None and second.effects:
        # what is allowed is told from the arguments of a call, and this one would not be among them
        raise UserError(f"{second.name} has effects, and must be called with arguments that can be checked before")
    if first.gates or second.gates:
        raise UserError("a tool with gates is not merged")
    if "$defs" in first.parameters or "$defs" in second.parameters:
        raise UserError("a tool whose schema has definitions is not merged")


def linked_value(text: str, link: str) -> Any:
    """What a first result gives for the argument `link`: its field of that name, or all of it."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text.strip()
    return value[link] if isinstance(value, dict) and link in value else text.strip()


def _properties(tool: Tool) -> dict[str, Any]:
    found = tool.parameters.get("properties", {})
    return found if isinstance(found, dict) else {}


def _parameters(first: Tool, second: Tool, link: str | None) -> dict[str, Any]:
    properties = {**_properties(first), **{key: schema for key, schema in _properties(second).items() if key != link}}
    required = [name for tool in (first, second) for name in tool.parameters.get("required", ()) if name in properties]
    joined = {**second.parameters, **first.parameters, "properties": copy.deepcopy(properties)}
    joined.pop("required", None)
    return {**joined, "required": required} if required else joined


def _larger(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else max(one, other)
