"""Decoding grammars for llguidance, from the same description that the parser reads."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from daneel.formats.base import Tool
from daneel.formats.syntax import CallSyntax
from daneel.formats.validate import normalise_schema

MAX_FORCED_CALLS = 8
"""Calls that one forced turn may hold: very small models go on calling for as long as the grammar lets them."""


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
    calls = f"call ({layout.separator} call){{0,{MAX_FORCED_CALLS - 1}}}" if parallel else "call"
    start = _join("reasoning" if reasoning_close else "", layout.before, calls, layout.after)
    rules = [f"start: {start}", *(_reasoning(reasoning_close) if reasoning_close else [])]
    rules.append("call: " + " | ".join(f"call_{number}" for number in range(len(chosen))))
    for number, tool in enumerate(chosen):
        opening = _quote(f'{layout.open_pad}{{"name": {_quote(tool.name)}, "arguments": ')
        closing = _quote("}" + layout.close_pad)
        rules.append(f"call_{number}: {_join(layout.call_open, opening, f'arguments_{number}', closing, layout.call_close)}")
        rules.append(f"arguments_{number}: %json {json.dumps(_object_schema(tool), ensure_ascii=False)}")
    return "%llguidance {}\n" + "\n".join(rules) + "\n"


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


def _object_schema(tool: Tool) -> object:
    schema = normalise_schema(tool.parameters) if tool.parameters else {}
    return {"type": "object", **schema, "x-guidance": _SPACING}
