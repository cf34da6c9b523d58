"""The self-test with real templates in real children: what passes, and what is said of what does not."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from daneel.formats import registry
from daneel.formats.self_test import PLAIN, SelfTest
from daneel.server import self_test as module
from daneel.server.engines.scripted import CHAT_TEMPLATE
from daneel.server.prompt_writer import PLAIN_TEMPLATE, find_traits
from daneel.server.self_test import self_test
from daneel.server.template import TemplateRenderer


def try_out(source: str, *, family: str | None = None) -> SelfTest:
    async def run() -> SelfTest:
        chosen = registry.resolve(family, source)
        renderer = await TemplateRenderer.start(source, bos_text="<s>", eos_text="</s>")
        try:
            return await self_test(renderer, chosen, await find_traits(renderer, chosen, {}))
        finally:
            await renderer.close()

    return asyncio.run(run())


@pytest.mark.parametrize("source", [CHAT_TEMPLATE, PLAIN_TEMPLATE])
def test_all_known_calls_come_back(source: str) -> None:
    tested = try_out(source)
    assert tested.failed == ()
    assert len(tested.passed) >= 12


def test_the_wrong_format_is_found_out() -> None:
    tested = try_out(CHAT_TEMPLATE, family="gemma4")
    assert not tested.works
    assert tested.failed[0].cause == "reading"
    assert "get_weather" in tested.failed[0].reason


def test_a_template_that_loses_what_it_is_given() -> None:
    lossy = CHAT_TEMPLATE.replace("function.arguments | tojson", 'function.arguments | tojson | replace(": null", ": 0")')
    tested = try_out(lossy)
    assert [failure.case for failure in tested.failed] == ["numbers, booleans and null"]
    assert tested.failed[0].reason == "/note is null and is read as 0"
    assert tested.works


def test_a_template_that_wants_results_behind_calls() -> None:
    strict = "{% if messages[-1].tool_calls %}{{ raise_exception('results, please') }}{% endif %}" + CHAT_TEMPLATE
    assert try_out(strict).failed == ()


def test_a_template_that_refuses_is_quoted() -> None:
    picky = "{% if messages | length > 1 %}{{ raise_exception('one at a time') }}{% endif %}" + CHAT_TEMPLATE
    tested = try_out(picky)
    assert tested.passed == ()
    assert {failure.cause for failure in tested.failed} == {"rendering"}
    assert "one at a time" in tested.failed[0].reason


def test_a_slow_template_ends_the_test_not_the_loading(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_S", -1.0)
    tested = try_out(CHAT_TEMPLATE)
    assert tested.passed == ()
    assert "too slow" in tested.failed[0].reason


@pytest.mark.parametrize(
    "name",
    [
        "Qwen-Qwen3-0.6B.jinja",
        "Qwen3-Coder.jinja",
        "GLM-4.6.jinja",
        "google-gemma-4-31B-it.jinja",
        "ollama__gemma4_31b_chat_template.jinja",
        "openai-gpt-oss-120b.jinja",
        "deepseek-ai-DeepSeek-V3.1.jinja",
        "tencent-Hy3.jinja",
    ],
)
def test_calls_come_back_from_makers_templates(name: str, shared_dir: Path) -> None:
    tested = try_out((shared_dir / "templates" / name).read_text(encoding="utf-8"))
    assert PLAIN in tested.passed
    assert tested.failed == ()
