"""Decoding grammars for llguidance, from the same description that the parser reads."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from daneel.formats.base import Tool
from daneel.formats.syntax import CallSyntax
from daneel.formats.validate import normalise_schema

OPTIONS = '%llguidance {"no_forcing": true}'
"""Where a grammar leaves one text only, llguidance would admit one tokenisation of it only. It need not be the one the model
would write before what comes next: Qwen2.5 then never wrote a second call."""

MAX_FORCED_CALLS = 8
"""Calls that one forced turn may hold: very small models go on calling for as long as the grammar lets them."""


MAX_DISTINCT_TOOLS = 6
"""Tools up to which the grammar keeps account of which have been called: it grows with two to this power."""


@dataclass(frozen=True, slots=True)
class CallLayout:
    """What stands around calls: Lark terms ("" = nothing), and the pads, which are text at a call's start and end."""

    before: str = ""
    call_open: str = ""
    open_pad: str = ""
    close_pad: str = ""
    call_close: str = ""
    separator: str = ""
    after: str = ""


ARRAY_LAYOUT = CallLayout(before='"["', separator='", "', after='"]"')
"""One JSON array that holds all calls."""


def marked_layout(family: str, call: CallSyntax, marker: Callable[[str], str]) -> CallLayout:
    """Each call between its markers. `ValueError` when the family's arguments have no decoding grammar yet."""
    if call.grammar != "json":
        raise ValueError(f"the format {family} has no decoding grammar yet")
    return CallLayout(
        call_open=marker(call.open),
        open_pad=call.open_pad,
        close_pad=call.close_pad,
        call_close=marker(call.close),
        separator=_quote(call.separator) if call.separator else "",
    )


def lark_grammar(
    layout: CallLayout, tools: Sequence[Tool], *, choice: str, parallel: bool, reasoning_close: str | None = None
) -> str:
    """Lark text that admits one call, or with `parallel` several, and nothing else.

    `reasoning_close`: the prompt left a reasoning block open; its text comes first, up to this Lark term.
    `ValueError` when no tool is given, or `choice` names none.
    """
    chosen = [tool for tool in tools if choice in ("required", tool.name)]
    if not chosen:
        raise ValueError(f"no tool is called {choice!r}" if tools else "no tools are given")
    start = _join("reasoning" if reasoning_close else "", layout.before, "calls", layout.after)
    rules = [f"start: {start}", *(_reasoning(reasoning_close) if reasoning_close else [])]
    rules += _calls(chosen, layout.separator if parallel else None)
    for number, tool in enumerate(chosen):
        opening = _quote(f'{layout.open_pad}{{"name": {_quote(tool.name)}, "arguments": ')
        closing = _quote("}" + layout.close_pad)
        rules.append(f"call_{number}: {_join(layout.call_open, opening, f'arguments_{number}', closing, layout.call_close)}")
        rules.append(f"arguments_{number}: %json {json.dumps(_object_schema(tool), ensure_ascii=False)}")
    return OPTIONS + "\n" + "\n".join(rules) + "\n"


def _calls(chosen: Sequence[Tool], separator: str | None) -> list[str]:
    """Which calls may follow each other; `separator` `None`: only one. Tools that take nothing are called at most once."""
    calls = [f"call_{number}" for number in range(len(chosen))]
    if separator is None:
        return ["calls: " + " | ".join(calls)]
    if len(chosen) > MAX_DISTINCT_TOOLS or not all(map(_takes_nothing, chosen)):
        return [f"calls: call ({separator} call){{0,{MAX_FORCED_CALLS - 1}}}", "call: " + " | ".join(calls)]
    rules = [f"calls: calls_{2 ** len(calls) - 1}"]
    for left in range(1, 2 ** len(calls)):  # a bit for each tool that is still to be called
        nexts = [(call, left & ~(1 << number)) for number, call in enumerate(calls) if left & (1 << number)]
        rules.append(
            f"calls_{left}: " + " | ".join(f"{call} ({separator} calls_{rest})?" if rest else call for call, rest in nexts)
        )
    return rules


def _takes_nothing(tool: Tool) -> bool:
    schema = _object_schema(tool)
    return not schema.get("properties") and schema.get("additionalProperties") is False


def _reasoning(close: str) -> list[str]:
    """Any text up to the closing marker. A special token cannot be part of text; a quoted marker must end it at once."""
    if close.startswith('"'):
        return ["reasoning: thought /\\n*/", f"thought[suffix={close}]: /(.|\\n)*/"]
    return [f"reasoning: /(.|\\n)*/ {close} /\\n*/"]


def _join(*terms: str) -> str:
    return " ".join(term for term in terms if term)


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


_SPACING = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
"""How the arguments are spaced. Where white space is free, small models write it without end."""


def _object_schema(tool: Tool) -> dict[str, Any]:
    """The schema of the arguments. Where it lists properties and does not speak of others, others are not admitted: what is
    not told, small models invent."""
    given = normalise_schema(tool.parameters) if tool.parameters else {}
    schema: dict[str, Any] = {"type": "object", **(given if isinstance(given, dict) else {}), "x-guidance": _SPACING}
    if "properties" in schema and not schema.keys() & {"patternProperties", "unevaluatedProperties", "allOf", "anyOf", "$ref"}:
        schema.setdefault("additionalProperties", False)
    return schema
