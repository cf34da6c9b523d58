"""Calls as Gemma 4 writes them: `call:NAME{key:<|"|>text<|"|>,n:1,o:{k:true},l:[null]}`.

Source: the chat templates of google/gemma-4-31B-it (also of 2026-07-09) and gemma-4-E2B-it. FunctionGemma writes the same with
another delimiter.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from daneel.formats.base import Tool
from daneel.formats.gemma_lark import lark_arguments
from daneel.formats.gemma_scan import CALL, GemmaScanner
from daneel.formats.json_scan import WHITE
from daneel.formats.lark import join, quote
from daneel.formats.scan import Head
from daneel.formats.validate import ToolSet

DELIMITER = '<|"|>'


@dataclass(frozen=True, slots=True)
class GemmaGrammar:
    """`call:NAME{...}`.

    `delimiter` stands around strings. `sorted_keys`: the template sorts them, so that is the order in which they are decoded.
    `delimits_all`: a template writes the delimiter around every value; then it is read by the schema where that admits no
    string, as a repair.
    """

    delimiter: str = DELIMITER
    sorted_keys: bool = True
    delimits_all: bool = False
    key: str = "gemma"
    slack: str = ""
    expected_head: str = "'call:'"
    holds_several: bool = False

    def head(self, text: str, pos: int) -> Head:
        while pos < len(text) and text[pos] in WHITE:
            pos += 1
        rest = text[pos : pos + len(CALL)]
        if rest == CALL:
            return "yes"
        return "more" if CALL.startswith(rest) else "no"

    def scanner(self, tools: ToolSet) -> GemmaScanner:
        return GemmaScanner(self.delimiter, tools if self.delimits_all else None)

    def write(self, name: str, arguments: str) -> str:
        return f"{CALL}{name}{self._write(json.loads(arguments))}"

    def write_several(self, calls: Sequence[tuple[str, str]]) -> str:
        raise ValueError(f"one body holds one call, not {len(calls)}")

    def lark_body(
        self, tool: Tool, number: int, *, open_pad: str, close_pad: str, marker: Callable[[str], str]
    ) -> tuple[str, list[str]]:
        arguments, rules = lark_arguments(
            tool, number, delimiter=marker(self.delimiter), sorted_keys=self.sorted_keys, write=self._terms(marker)
        )
        return join(quote(f"{open_pad}{CALL}{tool.name}"), arguments, quote(close_pad) if close_pad else ""), rules

    def _terms(self, marker: Callable[[str], str]) -> Callable[[Any], str]:
        """Writes a value as Lark terms."""

        def terms(value: Any) -> str:
            pieces = self._write(value).split(self.delimiter)
            return f" {marker(self.delimiter)} ".join(quote(piece) if piece else "" for piece in pieces).strip()

        return terms

    def _write(self, value: Any) -> str:
        if isinstance(value, dict):
            return "{" + ",".join(f"{key}:{self._write(item)}" for key, item in value.items()) + "}"
        if isinstance(value, list):
            return "[" + ",".join(map(self._write, value)) + "]"
        if isinstance(value, str):
            return f"{self.delimiter}{value}{self.delimiter}"
        return json.dumps(value)
