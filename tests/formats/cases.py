"""Reading the reference cases: model outputs and rendered turns, with what must come out. They lie beside the repository."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from pathlib import Path
from typing import Any

from tests.formats.joined import Joined, parse

from daneel.formats import registry
from daneel.formats.base import Tool
from daneel.formats.family import Family
from daneel.formats.validate import ToolSet

SHARED = Path(__file__).resolve().parents[3] / "shared"
Case = dict[str, Any]
_CITATION = re.compile(r"<co>|</co: [^>]*>")
"""Cohere's citations: kept in the text, and compared without them."""


@lru_cache(maxsize=2)
def load(name: str) -> tuple[Case, ...]:
    """The cases of one file; none where it is absent."""
    path = SHARED / "cases" / name
    return tuple(json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()) if path.exists() else ()


def families(name: str) -> list[str]:
    """The families of a file, as it calls them."""
    return sorted({case["family"] for case in load(name)})


def family_of(case: Case) -> Family:
    template = SHARED / "templates" / (case.get("template") or "")
    source = template.read_text(encoding="utf-8") if template.is_file() else None  # some makers do not let theirs be copied
    return registry.resolve(case["family"], source)


def tools_of(case: Case) -> ToolSet | None:
    """`None` when nothing is declared: then every name counts."""
    declared = case.get("tools") or case.get("tools_suggested")
    if not declared:
        return None
    functions = [item["function"] for item in declared]
    return ToolSet([Tool(item["name"], parameters=item.get("parameters") or {}) for item in functions])


def read(case: Case, cuts: tuple[int, ...] = ()) -> Joined:
    """What daneel makes of the case's text, fed in pieces; conservation is asserted."""
    family, prompt = family_of(case), case.get("gen_prompt") or ""
    inside = case.get("starts_in_reasoning") or (None if prompt else False)
    unmatched = case.get("gen_prompt_unmatched") or ""  # what a rendered turn does not repeat of the prompt
    closers = family.reasoning.closes if family.reasoning is not None else ()
    if not any(closer in case["raw"] for closer in closers):  # a turn that closes a block has it opened by the prompt
        prompt = prompt[: len(prompt) - len(unmatched)]
    return parse(family, case["raw"], cuts, tools=tools_of(case), in_reasoning=inside, prompt=prompt)


def wrong(case: Case, got: Joined) -> list[str]:
    """The asserted fields that differ, with what came out; white space around content and reasoning apart."""
    expect, found = case["expect"], []
    fields = set(case.get("asserts") or ("content", "reasoning", "tool_calls"))
    if case.get("scope") == "reasoning" and (got.calls or got.failed):
        fields.discard("content")
    for name, text in (("content", got.content), ("reasoning", got.reasoning)):
        if name in fields and (expect[name] or "").strip() != _CITATION.sub("", text).strip():
            found.append(f"{name} {text!r} for {expect[name]!r}")
    if "tool_calls" in fields:
        calls = [(call.name, json.loads(call.arguments)) for call in got.calls]
        expected = [(call["name"], _arguments(call["arguments"])) for call in expect["tool_calls"] or []]
        if not _same(calls, expected):
            found.append(f"calls {calls} for {expected}")
    return found


def _arguments(given: Any) -> Any:
    return json.loads(given) if isinstance(given, str) else given


def _same(left: Any, right: Any) -> bool:
    """JSON equality: 5 = 5.0, but true is not 1."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_same(left[key], right[key]) for key in left)
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(_same, left, right))
    return bool(left == right)
