"""Model outputs from public test suites: what must come out, at any cut. Read where they lie, beside the repository."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.formats.joined import Joined, parse

from daneel.formats.base import Tool
from daneel.formats.registry import FAMILIES
from daneel.formats.validate import ToolSet

FAMILY_OF = {
    "gemma4": "gemma4",
    "hermes": "hermes",
    "qwen2.5-hermes": "hermes",
    "qwen3-hermes": "hermes",
    "qwen3-vl (hermes)": "hermes",
    "qwq (hermes)": "hermes",
    "thinking-generic": "generic",
    "ollama-generic": "generic",
}


def _cases(shared_dir: Path, *, malformed: bool) -> list[dict[str, Any]]:
    lines = (shared_dir / "cases" / "outputs.jsonl").read_text(encoding="utf-8").splitlines()
    found = [json.loads(line) for line in lines]
    return [case for case in found if case["family"] in FAMILY_OF and case["malformed"] is malformed]


def _tools(case: dict[str, Any]) -> ToolSet | None:
    declared = case.get("tools") or case.get("tools_suggested")
    if not declared:
        return None
    functions = [item["function"] for item in declared]
    return ToolSet([Tool(item["name"], parameters=item.get("parameters") or {}) for item in functions])


def _in_reasoning(case: dict[str, Any]) -> bool:
    return bool(case.get("starts_in_reasoning"))


def _read(case: dict[str, Any], cuts: tuple[int, ...] = ()) -> Joined:
    family = FAMILIES[FAMILY_OF[case["family"]]]
    return parse(family, case["raw"], cuts, tools=_tools(case), in_reasoning=_in_reasoning(case))


def _wrong(case: dict[str, Any], got: Joined) -> list[str]:
    expect, wrong = case["expect"], []
    fields = set(case["asserts"])
    if case.get("scope") == "reasoning" and got.calls:
        fields.discard("content")
    for name, text in (("content", got.content), ("reasoning", got.reasoning)):
        if name in fields and (expect[name] or "").strip() != text.strip():
            wrong.append(name)
    if "tool_calls" in fields:
        calls = [{"name": call.name, "arguments": json.loads(call.arguments)} for call in got.calls]
        expected = [{"name": call["name"], "arguments": call["arguments"]} for call in expect["tool_calls"] or []]
        if json.dumps(calls, sort_keys=True) != json.dumps(expected, sort_keys=True) and calls != expected:
            wrong.append("tool_calls")
    return wrong


def test_valid_cases(shared_dir: Path) -> None:
    cases = _cases(shared_dir, malformed=False)
    failures = [(case["id"], wrong, case["raw"]) for case in cases if (wrong := _wrong(case, _read(case)))]
    assert len(failures) <= 0.03 * len(cases), failures


@pytest.mark.parametrize("malformed", [False, True])
def test_every_single_cut_gives_the_same(shared_dir: Path, malformed: bool) -> None:
    for case in _cases(shared_dir, malformed=malformed):
        whole = _read(case)
        for cut in range(1, len(case["raw"])):
            assert _read(case, (cut,)).events == whole.events, (case["id"], cut)
        assert _read(case, tuple(range(1, len(case["raw"])))).events == whole.events, case["id"]


def test_no_argument_that_the_text_does_not_hold(shared_dir: Path) -> None:
    for case in _cases(shared_dir, malformed=True):
        for call in _read(case).calls:
            for value in json.loads(call.arguments).values():
                assert str(value) in case["raw"] or json.dumps(value) in case["raw"], (case["id"], call)
