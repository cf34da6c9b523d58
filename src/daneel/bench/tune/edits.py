"""Edits of a harness, as data: what `daneel tune` tries, stores, and writes into the file of the winner.

    edited(harness, [Rename(tool="my_date", name="cur_date"), Drop(tools=("now",))])

Edits are applied one after the other, and each speaks of the harness that those before it have made. The same edits of the same
harness give the same harness, hash included, in any process.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence
from typing import Any, cast

import msgspec
from msgspec import Struct

from daneel.bench.tune.merged import merged_tool
from daneel.bench.tune.sentences import told_as_sentence
from daneel.errors import UserError
from daneel.harness.definition import Harness
from daneel.harness.tools.gating import After
from daneel.harness.tools.registry import Tool

_RULE_FIELDS = ("allow", "ask", "deny", "private", "untrusted")


class Drop(Struct, frozen=True, kw_only=True, tag="drop"):
    """Leave these tools out, and what limits and safety rules say of them."""

    tools: tuple[str, ...]

    @property
    def told(self) -> str:
        return f"drop {', '.join(self.tools)}"


class Rename(Struct, frozen=True, kw_only=True, tag="rename"):
    """Call a tool otherwise, also where gates, limits, safety rules, prompt and descriptions speak of it.

    In prose, a name is changed only where it cannot be an ordinary word: it has an underscore, a figure or a dot, or stands in
    backticks.
    """

    tool: str
    name: str

    @property
    def told(self) -> str:
        return f"rename {self.tool} to {self.name}"


class Describe(Struct, frozen=True, kw_only=True, tag="describe"):
    """Another description."""

    tool: str
    text: str

    @property
    def told(self) -> str:
        return f"describe {self.tool} as “{self.text}”"


class Reorder(Struct, frozen=True, kw_only=True, tag="reorder"):
    """Declare these tools first, in this order, and the others after them."""

    first: tuple[str, ...]

    @property
    def told(self) -> str:
        return f"declare {', '.join(self.first)} first"


class GateAfter(Struct, frozen=True, kw_only=True, tag="gate"):
    """A tool may be called only once another one was called with success. Its other gates stay."""

    tool: str
    requires: str

    @property
    def told(self) -> str:
        return f"gate {self.tool} until {self.requires} was called"


class Sentence(Struct, frozen=True, kw_only=True, tag="sentence"):
    """Tell results that are JSON objects as a sentence: `{key}` and `{key.inner}` stand for their values."""

    tool: str
    template: str

    @property
    def told(self) -> str:
        return f"let {self.tool} say “{self.template}”"


class Shorten(Struct, frozen=True, kw_only=True, tag="shorten"):
    """Cut a tool's results to so many characters; the model is told that they were cut."""

    tool: str
    max_result_chars: int

    @property
    def told(self) -> str:
        return f"cut results of {self.tool} to {self.max_result_chars} characters"


class Merge(Struct, frozen=True, kw_only=True, tag="merge"):
    """One tool in place of two: it calls the first, then the second, and gives both results.

    `link`: an argument of the second that is taken from the first one's result, and so is none of the merged tool's: the value
    of that name where the result is a JSON object, else the whole result.
    """

    first: str
    second: str
    name: str
    description: str
    link: str | None = None

    @property
    def told(self) -> str:
        how = "" if self.link is None else f", whose result is its {self.link}"
        return f"merge {self.first}{how} and {self.second} as {self.name} (“{self.description}”)"


Edit = Drop | Rename | Describe | Reorder | GateAfter | Sentence | Shorten | Merge


def edited(harness: Harness, edits: Sequence[Edit]) -> Harness:
    """The harness with these edits. Raises `UserError` when one cannot be made, naming it."""
    for edit in edits:
        try:
            harness = _APPLY[type(edit)](harness, edit)
        except UserError as error:
            raise UserError(f"cannot {edit.told}: {error}") from error
    return harness


def edits_of(data: Any) -> list[Edit]:
    """Edits from JSON data. Raises `UserError`."""
    try:
        return msgspec.convert(data, list[Edit])
    except msgspec.ValidationError as error:
        raise UserError(f"edits: {error}") from error


def told(edits: Sequence[Edit]) -> str:
    """Edits in words."""
    return "; ".join(edit.told for edit in edits) or "no change"


def _tool(harness: Harness, name: str) -> Tool:
    found = harness.tool(name)
    if found is None:
        raise UserError(f"there is no tool {name}; it has {', '.join(tool.name for tool in harness.tools)}")
    return found


def _with_tool(harness: Harness, name: str, changed: Tool) -> Harness:
    return harness.with_changes(tools=[changed if tool.name == name else tool for tool in harness.tools])


def _drop(harness: Harness, edit: Drop) -> Harness:
    for name in edit.tools:
        _tool(harness, name)
        if name in (harness.tool_choice, harness.first_tool_choice):
            raise UserError(f"the harness makes the model call {name}")
    kept = [tool for tool in harness.tools if tool.name not in edit.tools]
    return _without(harness, edit.tools, kept)


def _without(harness: Harness, names: Sequence[str], tools: Sequence[Tool]) -> Harness:
    """`harness` with these tools, and without what limits and rules say of `names`."""
    gone = {f"tool:{name}" for name in names}
    rules = {name: [rule for rule in getattr(harness.safety, name) if rule not in gone] for name in _RULE_FIELDS}
    return harness.with_changes(
        tools=tools,
        max_calls={name: count for name, count in harness.max_calls.items() if name not in names},
        safety=_with_rules(harness.safety, rules),
    )


def _with_rules(safety: Any, rules: dict[str, list[str]]) -> Any:
    """Only fields that differ are replaced, so that a policy that says nothing of the tools keeps its hash."""
    changed = {name: type(getattr(safety, name))(new) for name, new in rules.items() if list(getattr(safety, name)) != new}
    return dataclasses.replace(safety, **changed) if changed else safety


def _rename(harness: Harness, edit: Rename) -> Harness:
    _tool(harness, edit.tool)
    if harness.tool(edit.name) is not None:
        raise UserError(f"there is a tool {edit.name} already")
    before, after = edit.tool, edit.name

    def renamed(name: str | None) -> Any:
        return after if name == before else name

    tools = []
    for tool in harness.tools:
        changed = tool.with_changes(name=renamed(tool.name), description=_in_prose(tool.description, before, after))
        if any(each.tool == before for each in tool.gates.after):
            waits = tuple(dataclasses.replace(each, tool=renamed(each.tool)) for each in tool.gates.after)
            changed = dataclasses.replace(changed, gates=dataclasses.replace(tool.gates, after=waits))
        tools.append(changed)
    spoken = {
        name: [f"tool:{after}" if rule == f"tool:{before}" else rule for rule in getattr(harness.safety, name)]
        for name in _RULE_FIELDS
    }
    # the tools are not checked against what speaks of them until all of it is renamed
    return harness.with_changes(
        tools=tools,
        system=None if harness.system is None else _in_prose(harness.system, before, after),
        tool_choice=renamed(harness.tool_choice),
        first_tool_choice=renamed(harness.first_tool_choice),
        max_calls={renamed(name): count for name, count in harness.max_calls.items()},
        safety=_with_rules(harness.safety, spoken),
    )


def _in_prose(text: str, before: str, after: str) -> str:
    is_word = before.isalpha() and before in (before.lower(), before.capitalize())
    pattern = rf"(?<=`){re.escape(before)}(?=[`(])" if is_word else rf"(?<![\w.-]){re.escape(before)}(?![\w-])"
    return re.sub(pattern, lambda _: after, text)


def _describe(harness: Harness, edit: Describe) -> Harness:
    return _with_tool(harness, edit.tool, _tool(harness, edit.tool).with_changes(description=edit.text))


def _reorder(harness: Harness, edit: Reorder) -> Harness:
    if len(set(edit.first)) != len(edit.first):
        raise UserError("a tool is named twice")
    first = [_tool(harness, name) for name in edit.first]
    return harness.with_changes(tools=[*first, *(tool for tool in harness.tools if tool.name not in edit.first)])


def _gate(harness: Harness, edit: GateAfter) -> Harness:
    tool = _tool(harness, edit.tool)
    _tool(harness, edit.requires)
    gates = dataclasses.replace(tool.gates, after=(*tool.gates.after, After(edit.requires)))
    return _with_tool(harness, edit.tool, dataclasses.replace(tool, gates=gates))


def _sentence(harness: Harness, edit: Sentence) -> Harness:
    return _with_tool(harness, edit.tool, told_as_sentence(_tool(harness, edit.tool), edit.template))


def _shorten(harness: Harness, edit: Shorten) -> Harness:
    changed = _tool(harness, edit.tool).with_changes(max_result_chars=edit.max_result_chars)
    return _with_tool(harness, edit.tool, changed)


def _merge(harness: Harness, edit: Merge) -> Harness:
    first, second = _tool(harness, edit.first), _tool(harness, edit.second)
    if first is second:
        raise UserError("the two are one tool")
    if {first.name, second.name} & {harness.tool_choice, harness.first_tool_choice}:
        raise UserError("the harness makes the model call one of them")
    if edit.name not in (first.name, second.name) and harness.tool(edit.name) is not None:
        raise UserError(f"there is a tool {edit.name} already")
    merged = merged_tool(first, second, name=edit.name, description=edit.description, link=edit.link)
    tools = [merged if tool is first else tool for tool in harness.tools if tool is not second]
    spoken = [rule for name in _RULE_FIELDS for rule in getattr(harness.safety, name)]
    if {f"tool:{first.name}", f"tool:{second.name}"} & set(spoken):
        raise UserError("safety rules speak of one of them; what is allowed must not change unasked")
    return _without(harness, [first.name, second.name], tools)


_APPLY = cast(
    "dict[type[Edit], Callable[[Harness, Any], Harness]]",
    {
        Drop: _drop,
        Rename: _rename,
        Describe: _describe,
        Reorder: _reorder,
        GateAfter: _gate,
        Sentence: _sentence,
        Shorten: _shorten,
        Merge: _merge,
    },
)
