"""Decoding grammars for llguidance, from the same description that the parser reads."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from daneel.formats.base import Tool
from daneel.formats.lark import join, object_schema, quote
from daneel.formats.scan import ArgumentGrammar, JoinsCalls
from daneel.formats.syntax import CallSyntax

OPTIONS = '%llguidance {"no_forcing": true}'
"""Where a grammar leaves one text only, llguidance would admit one tokenisation of it only. It need not be the one the model
would write before what comes next: Qwen2.5 then never wrote a second call."""

MAX_FORCED_CALLS = 8
"""Calls that one forced turn may hold: very small models go on calling for as long as the grammar lets them."""


MAX_DISTINCT_TOOLS = 6
"""Tools up to which the grammar keeps account of which have been called: it grows with two to this power."""


_SPECIAL = re.compile(r"(<\|[^|<>]+\|>)")


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


def marked_layout(call: CallSyntax, marker: Callable[[str], str]) -> CallLayout:
    """Each call between its markers, or all of them between one pair."""
    opening, closing = _marker(call.open, marker), _marker(call.close, marker)
    joints = call.grammar.joints if call.grammar.holds_several and isinstance(call.grammar, JoinsCalls) else None
    separator = joints[1] if joints else call.separator
    separator = quote(separator) if separator else ""
    if call.shared or joints:
        first, last = call.open_pad + (joints[0] if joints else ""), (joints[2] if joints else "") + call.close_pad
        before, after = join(opening, quote(first) if first else ""), join(quote(last) if last else "", closing)
        return CallLayout(before=before, separator=separator, after=after)
    return CallLayout(
        call_open=opening, open_pad=call.open_pad, close_pad=call.close_pad, call_close=closing, separator=separator
    )


def _marker(text: str, marker: Callable[[str], str]) -> str:
    """A marker that may be made of several: `<|a|>text<|b|>`."""
    return join(*(marker(part) for part in _SPECIAL.split(text) if part))


def lark_grammar(
    layout: CallLayout,
    grammar: ArgumentGrammar,
    tools: Sequence[Tool],
    *,
    choice: str,
    parallel: bool,
    marker: Callable[[str], str],
    reasoning_close: str | None = None,
) -> str:
    """Lark text that admits one call, or with `parallel` several, and nothing else.

    `reasoning_close`: the prompt left a reasoning block open; its text comes first, up to this Lark term.
    `ValueError` when no tool is given, `choice` names none, or the arguments have no decoding grammar.
    """
    chosen = [tool for tool in tools if choice in ("required", tool.name)]
    if not chosen:
        raise ValueError(f"no tool is called {choice!r}" if tools else "no tools are given")
    start = join("reasoning" if reasoning_close else "", layout.before, "calls", layout.after)
    rules = [f"start: {start}", *(_reasoning(reasoning_close) if reasoning_close else [])]
    rules += _calls(chosen, layout.separator if parallel else None)
    for number, tool in enumerate(chosen):
        body, others = grammar.lark_body(tool, number, open_pad=layout.open_pad, close_pad=layout.close_pad, marker=marker)
        rules += [f"call_{number}: {join(layout.call_open, body, layout.call_close)}", *others]
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
    schema = object_schema(tool)
    return not schema.get("properties") and schema.get("additionalProperties") is False


def _reasoning(close: str) -> list[str]:
    """Any text up to the closing marker. A special token cannot be part of text; a quoted marker must end it at once."""
    if close.startswith('"'):
        return ["reasoning: thought /\\n*/", f"thought[suffix={close}]: /(.|\\n)*/"]
    return [f"reasoning: /(.|\\n)*/ {close} /\\n*/"]
