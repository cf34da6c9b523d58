"""Decoding grammars for llguidance, from the same description that the parser reads."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from daneel.formats.base import Tool
from daneel.formats.syntax import CallSyntax
from daneel.formats.validate import normalise_schema


def lark_grammar(
    family: str,
    call: CallSyntax,
    tools: Sequence[Tool],
    *,
    choice: str,
    parallel: bool,
    marker: Callable[[str], str],
    reasoning_close: str | None = None,
) -> str:
    """Lark text that admits one call, or with `parallel` several, and nothing else.

    `reasoning_close`: the prompt left a reasoning block open; its text comes first, up to this marker.
    """
    if call.grammar != "json":
        raise ValueError(f"the format {family} has no decoding grammar yet")
    chosen = [tool for tool in tools if choice in ("required", tool.name)]
    if not chosen:
        raise ValueError(f"no tool is called {choice!r}" if tools else "no tools are given")
    rules = ["start: " + _sequence(call, parallel=parallel, reasoning=reasoning_close is not None)]
    if reasoning_close is not None:
        rules.append(f"reasoning: /(.|\\n)*/ {marker(reasoning_close)} /\\n*/")
    rules.append("call: " + " | ".join(f"call_{number}" for number in range(len(chosen))))
    for number, tool in enumerate(chosen):
        opening = f'{call.open_pad}{{"name": {json.dumps(tool.name, ensure_ascii=False)}, "arguments": '
        rules.append(
            f"call_{number}: {marker(call.open)} {_quote(opening)} arguments_{number} "
            f"{_quote('}' + call.close_pad)} {marker(call.close)}"
        )
        rules.append(f"arguments_{number}: %json {json.dumps(_object_schema(tool), ensure_ascii=False)}")
    return "%llguidance {}\n" + "\n".join(rules) + "\n"


def _sequence(call: CallSyntax, *, parallel: bool, reasoning: bool) -> str:
    separator = f"{_quote(call.separator)} " if call.separator else ""
    calls = f"call ({separator}call)*" if parallel else "call"
    return f"reasoning {calls}" if reasoning else calls


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _object_schema(tool: Tool) -> object:
    schema = normalise_schema(tool.parameters) if tool.parameters else {}
    return {"type": "object", **schema}
