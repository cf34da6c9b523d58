"""Calls as Qwen3-Coder and its relatives write them: `<function=NAME>`, a `<parameter=KEY>` for each argument, `</function>`.

Sources: the chat templates of Qwen3-Coder, Qwen3.5 and 3.8, Nemotron 3 and 3.5, Step 3.5 Flash and Seed-OSS. The templates
differ in the markers, in the white space around a value, and in how they write values that are no strings.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from daneel.formats.base import Tool
from daneel.formats.lark import join, json_rule, object_schema, quote
from daneel.formats.scan import Head
from daneel.formats.typed_value import argument_schema, kinds_of
from daneel.formats.validate import ToolSet
from daneel.formats.xml_scan import FUNCTION, FUNCTION_END, PARAMETER, PARAMETER_END, Frame, XmlScanner, head_of_block

_ANY_TEXT = "/(.|\\n)*/"
_LABEL = "/[^<>\\n]+/"


@dataclass(frozen=True, slots=True)
class XmlGrammar:
    """`<function=NAME>` blocks.

    `open`, `close`: the markers around a block. `value_pad`: the white space on each side of a value that belongs to its tags.
    `values`: how the template writes what is no string: as JSON; as Python prints it; or `"words"`, Python's words for scalars
    and JSON for the rest. `sure`: a block begins only where a tag follows the name; without an opening marker it may else be
    text that speaks of such tags.
    """

    open: str = "<tool_call>"
    close: str = "</tool_call>"
    value_pad: str = "\n"
    values: Literal["json", "python", "words"] = "words"
    sure: bool = False

    @property
    def key(self) -> str:
        return "xml"

    @property
    def slack(self) -> str:
        return ""

    @property
    def expected_head(self) -> str:
        return FUNCTION

    @property
    def holds_several(self) -> bool:
        return False

    def head(self, text: str, pos: int) -> Head:
        return head_of_block(text, pos, self.close, sure=self.sure)

    def scanner(self, tools: ToolSet) -> XmlScanner:
        return XmlScanner(self._frame, tools)

    def write(self, name: str, arguments: str) -> str:
        members = [f"{self._opening(key)}{self._value(value)}{self._closing}" for key, value in json.loads(arguments).items()]
        return f"{FUNCTION}{name}>\n{''.join(members)}{FUNCTION_END}"

    def write_several(self, calls: Sequence[tuple[str, str]]) -> str:
        raise ValueError("each call has its own markers")

    def lark_body(
        self, tool: Tool, number: int, *, open_pad: str, close_pad: str, marker: Callable[[str], str]
    ) -> tuple[str, list[str]]:
        schema = object_schema(tool)
        properties = schema.get("properties")
        if isinstance(properties, dict):
            required = schema.get("required", [])
            rules: list[str] = []
            terms = []
            for place, key in enumerate(properties):
                name = f"parameter_{place}_{number}"
                terms.append(name if key in required else f"{name}?")
                rules += self._parameter_rules(name, place, number, key, argument_schema(schema, key))
        else:
            terms, rules = self._free_rules(number) if schema.get("additionalProperties") is not False else ([], [])
        opening, ending = quote(f"{open_pad}{FUNCTION}{_label(tool.name)}>\n"), quote(f"{FUNCTION_END}{close_pad}")
        return join(opening, *terms, ending), rules

    # -- pieces -------------------------------------------------------------------------------------------------------------

    @property
    def _frame(self) -> Frame:
        return Frame(self.open, self.close, self.value_pad)

    def _opening(self, key: str) -> str:
        return f"{PARAMETER}{key}>{self.value_pad}"

    @property
    def _closing(self) -> str:
        return f"{self.value_pad}{PARAMETER_END}\n"

    def _value(self, value: Any) -> str:
        if isinstance(value, str):
            return value
        if self.values == "python" or (self.values == "words" and not isinstance(value, dict | list)):
            return str(value)
        return json.dumps(value, ensure_ascii=False)

    def _parameter_rules(self, name: str, place: int, number: int, key: str, schema: dict[str, Any] | None) -> list[str]:
        opening, value = quote(self._opening(_label(key))), f"value_{place}_{number}"
        allowed = _texts(schema)
        if allowed:
            choices = " | ".join(quote(text) for text in allowed)
            return [f"{name}: {opening} ({choices}) {quote(self._closing)}"]
        if "string" in kinds_of(schema):
            return [f"{name}: {opening} {value}", f"{value}[suffix={quote(self._closing)}]: {_ANY_TEXT}"]
        return [f"{name}: {opening} {value} {quote(self._closing)}", f"{value}: {json_rule(schema or {})}"]

    def _free_rules(self, number: int) -> tuple[list[str], list[str]]:
        """Arguments of any name."""
        name, label, value = f"parameter_{number}", f"label_{number}", f"value_{number}"
        rules = [
            f"{name}: {quote(PARAMETER)} {label} {quote('>' + self.value_pad)} {value}",
            f"{label}: {_LABEL}",
            f"{value}[suffix={quote(self._closing)}]: {_ANY_TEXT}",
        ]
        return [f"{name}*"], rules


def _texts(schema: dict[str, Any] | None) -> list[str]:
    """The texts that an enumeration of nothing but texts admits."""
    values = (schema or {}).get("enum")
    return values if isinstance(values, list) and all(isinstance(value, str) for value in values) else []


def _label(text: str) -> str:
    """A name that the format can write."""
    if not text.strip() or any(char in "<>\n" for char in text):
        raise ValueError(f"the name {text!r} cannot be written in this format")
    return text
