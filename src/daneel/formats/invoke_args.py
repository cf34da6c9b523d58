"""Calls as `<invoke name="NAME">` with a `<parameter name="KEY">VALUE</parameter>` for each argument, whatever the tags' names.

Sources: the chat templates of MiniMaxAI/MiniMax-M2, openbmb/MiniCPM5-1B (`<function name=`, `<param name=`, CDATA),
deepseek-ai/DeepSeek-V3.2 and V4 (`<｜DSML｜invoke`; each parameter says whether it is a string), and stepfun-ai/step3.

Values are raw text, nothing in them is escaped. So a closing tag ends a value only where another parameter or the call's end
follows; anything else that looks like one is text, as are parameter tags that come in pairs. Where those do not pair up,
nothing tells which closing tag is the value's: such a call is malformed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from daneel.formats.base import Tool
from daneel.formats.invoke_lark import Speller, parameters, typed_value_rules, value_rules
from daneel.formats.invoke_scan import CDATA_END, CDATA_OPEN, InvokeScanner
from daneel.formats.invoke_tags import InvokeTags, begins, tag_reader
from daneel.formats.json_members import members
from daneel.formats.json_scan import WHITE
from daneel.formats.lark import join
from daneel.formats.scan import Head
from daneel.formats.validate import ToolSet

_ODD_GAPS = " \t\n\r\u0120"


@dataclass(frozen=True, slots=True)
class InvokeGrammar:
    """The grammar for one spelling of the tags.

    `line`: what the family writes behind the opening tag and behind each parameter. `no_arguments`: what it writes in a call
    without arguments. `token`: a part of the tags that may be one token of its own. `sure`: a body begins only where the whole
    opening tag stands and a parameter or the call's end follows: text may speak of such tags.
    """

    tags: InvokeTags
    line: str = "\n"
    no_arguments: str = ""
    token: str = ""
    sure: bool = False
    key: str = "invoke"
    slack: str = ""
    holds_several: bool = False

    @property
    def expected_head(self) -> str:
        return "the tool's name" if self.tags.marker else f'{self.tags.call_open} name="..."'

    def head(self, text: str, pos: int) -> Head:
        tags = self.tags
        pos = _skip(text, pos, WHITE)
        for literal in (tags.before, tags.before_word):
            if literal and text.startswith(literal, pos):
                pos = _skip(text, pos + len(literal), WHITE)
            elif literal and begins(text, pos, literal):
                return "more"
        if self.sure:
            return self._sure_head(text, pos)
        if tags.marker:
            return "more" if pos == len(text) else "yes" if text[pos] in "\"'" or text[pos].isalnum() else "no"
        if not text.startswith(tags.call_open, pos):
            return "more" if begins(text, pos, tags.call_open) else "no"
        pos = _skip(text, pos + len(tags.call_open), _ODD_GAPS)
        if begins(text, pos, "name"):
            return "more"
        return "yes" if text.startswith("name", pos) else "no"

    def _sure_head(self, text: str, pos: int) -> Head:
        tags = self.tags
        tag = (tag_reader("", "name") if tags.marker else tag_reader(tags.call_open)).read(text, pos)
        if tag is None or tag == "more":
            return tag or "no"
        if not tag.attributes.get("name"):
            return "no"
        pos = _skip(text, tag.end, WHITE)
        if tag.closed or any(text.startswith(following, pos) for following in (tags.value_open, tags.call_end)):
            return "yes"
        return "more" if any(begins(text, pos, following) for following in (tags.value_open, tags.call_end)) else "no"

    def scanner(self, tools: ToolSet) -> InvokeScanner:
        return InvokeScanner(self.tags, tools)

    def write(self, name: str, arguments: str) -> str:
        tags, line = self.tags, self.line
        given = members(arguments)
        values = "".join(self._write_value(key, value) + line for key, value in given) or self.no_arguments
        opening = f'"{name}">' if tags.marker else f'{tags.before}{tags.before_word}{tags.call_open} name="{name}">'
        return f"{opening}{line}{values}{'' if tags.marker else tags.call_end + tags.after}"

    def _write_value(self, key: str, value: str) -> str:
        is_string = value.startswith('"')
        text = str(json.loads(value)) if is_string else value
        if self.tags.cdata and any(char in text for char in "<&\n"):
            text = f"{CDATA_OPEN}{text}{CDATA_END}"
        kind = f' string="{str(is_string).lower()}"' if self.tags.typed else ""
        return f'{self.tags.value_open} name="{key}"{kind}>{text}{self.tags.value_end}'

    def write_several(self, calls: Sequence[tuple[str, str]]) -> str:
        raise ValueError("one body holds one call")

    def lark_body(
        self, tool: Tool, number: int, *, open_pad: str, close_pad: str, marker: Callable[[str], str]
    ) -> tuple[str, list[str]]:
        speller, tags = Speller(self.token, marker), self.tags
        terms, rules = [], list[str]()
        for place, (key, schema, required) in enumerate(parameters(tool)):
            rule = f"parameter_{place}_{number}"
            expression, others = self._parameter(speller, _label(key), schema, f"{place}_{number}")
            rules += [f"{rule}: {expression}", *others]
            terms.append(rule if required else f"{rule}?")
        name, empty = _label(tool.name), "" if terms else self.no_arguments
        opening = f'"{name}">' if tags.marker else f'{tags.before}{tags.before_word}{tags.call_open} name="{name}">'
        ending = close_pad if tags.marker else f"{tags.call_end}{tags.after}{close_pad}"
        return join(
            speller.literal(f"{open_pad}{opening}{self.line}{empty}"), *terms, speller.literal(ending) if ending else ""
        ), rules

    def _parameter(self, speller: Speller, key: str, schema: dict[str, Any], rule: str) -> tuple[str, list[str]]:
        tags, ending = self.tags, f"{self.tags.value_end}{self.line}"
        opening = f'{tags.value_open} name="{key}"'
        if not tags.typed:
            value, rules = value_rules(speller, schema, ending, f"value_{rule}")
            return join(speller.literal(f"{opening}>"), value), rules
        found, rules = typed_value_rules(speller, schema, (ending, ending), rule)
        kinds = zip(("true", "false"), found, strict=True)
        choices = [join(speller.literal(f'{opening} string="{kind}">'), value) for kind, value in kinds if value]
        return " | ".join(choices), rules


def _label(text: str) -> str:
    """A name that can stand between quotes."""
    if any(char in '"<>' for char in text):
        raise ValueError(f"the name {text!r} cannot be written in this format")
    return text


def _skip(text: str, pos: int, chars: str) -> int:
    while pos < len(text) and text[pos] in chars:
        pos += 1
    return pos
