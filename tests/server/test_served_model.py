"""What is found out about a model when it is loaded. The engine is the real scripted one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from daneel.errors import UserError
from daneel.server.engine_process import EngineProcess
from daneel.server.engines import byte_tokenizer
from daneel.server.engines.base import EngineSpec
from daneel.server.served_model import ServedModel, ServeOptions

SPEC = EngineSpec("scripted")


def with_model(use: Callable[[ServedModel], Awaitable[Any]], **options: Any) -> Any:
    async def run() -> Any:
        model = await ServedModel.load(SPEC, ServeOptions("mine", **options), version="9.9")
        try:
            return await use(model)
        finally:
            await model.close()

    return asyncio.run(run())


async def described(model: ServedModel) -> dict[str, Any]:
    return model.describe()


def test_the_family_and_its_stop_markers_are_told_from_the_template() -> None:
    async def use(model: ServedModel) -> None:
        assert model.family.name == "hermes"
        assert model.traits.knows_tools
        markers = [byte_tokenizer.PIECES[token_id].decode() for token_id in model.stop_ids]
        assert markers == ["<|im_end|>", "<|endoftext|>"]
        assert model.end_ids == {*model.stop_ids, *byte_tokenizer.EOG_IDS}

    with_model(use)


def test_a_format_given_by_name_brings_its_own_stop_markers() -> None:
    async def use(model: ServedModel) -> list[str]:
        return [byte_tokenizer.PIECES[token_id].decode() for token_id in model.stop_ids]

    assert with_model(use, family_name="gemma4") == ["<turn|>", "<|tool_response>", "<eos>"]


def test_a_template_without_tools_makes_the_generic_family() -> None:
    entry = with_model(described, template_source="{% for m in messages %}{{ m.content }}{% endfor %}")
    assert (entry["format"], entry["tool_prompt"]) == ("generic", "generic")


QWEN_LIKE = (
    '{% if tools %}<tool_call></tool_call>"arguments"{% for t in tools %}{{ t.function.name }}{% endfor %}{% endif %}'
    "{% for m in messages %}<|im_start|>created by Alibaba Cloud {{ m.content }}{% endfor %}"
)


@pytest.mark.parametrize(
    ("num_parameters", "family_name", "variant", "tool_prompt"),
    [
        (500_000_000, None, "example", "generic"),
        (1_500_000_000, None, "array", "generic"),
        (500_000_000, "hermes", None, "template"),
        (70_000_000_000, None, None, "template"),
        (None, None, None, "template"),
    ],
)
def test_a_model_known_to_be_small_is_told_of_tools_in_other_words_unless_the_format_is_given(
    monkeypatch: pytest.MonkeyPatch,
    num_parameters: int | None,
    family_name: str | None,
    variant: str | None,
    tool_prompt: str,
) -> None:
    info = EngineProcess.info
    sized = property(lambda self: msgspec.structs.replace(info.fget(self), num_parameters=num_parameters))
    monkeypatch.setattr(EngineProcess, "info", sized)
    entry = with_model(described, template_source=QWEN_LIKE, family_name=family_name)
    assert (entry["format"], entry["format_variant"], entry["tool_prompt"]) == ("hermes", variant, tool_prompt)
    assert bool(entry["default_sampling"]) == (variant is not None)


def test_a_model_whose_file_holds_no_template_speaks_chatml(monkeypatch: pytest.MonkeyPatch) -> None:
    info = EngineProcess.info
    monkeypatch.setattr(
        EngineProcess, "info", property(lambda self: msgspec.structs.replace(info.fget(self), chat_template=None))
    )

    async def use(model: ServedModel) -> str:
        return await model.renderer.render([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": None}])

    assert with_model(use) == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<|im_end|>\n<|im_start|>assistant\n"


def test_what_clients_may_know() -> None:
    entry = with_model(described, aliases=("other",), weights_sha256="ab" * 32)
    assert (entry["id"], entry["context_length"], entry["weights_sha256"]) == ("mine", 32_768, "ab" * 32)
    assert entry["system_fingerprint"].startswith("daneel-9.9-scripted-1-")
    assert len(entry["template_sha256"]) == 64
    assert entry["template_sha256"] != with_model(described, template_source="{{ messages }}")["template_sha256"]


@pytest.mark.parametrize(("options", "words"), [({"family_name": "none"}, "no format"), ({"template_source": "{{"}, "line 1")])
def test_what_cannot_be_used_is_said_before_the_engine_starts(
    options: dict[str, Any], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(EngineProcess, "start", None)
    with pytest.raises(UserError, match=words):
        with_model(described, **options)


def test_the_self_test_is_made_on_loading_and_told() -> None:
    entry = with_model(described)
    assert entry["format_from"] == "template"
    assert (len(entry["self_test"]["passed"]), entry["self_test"]["failed"], entry["warnings"]) == (13, [], [])
    wrong = with_model(described, family_name="gemma4")
    assert (wrong["format_from"], wrong["self_test"]["passed"]) == ("option", [])
    assert "calls do not come back" in wrong["warnings"][0]


def test_an_unknown_template_is_served_as_generic_and_says_so() -> None:
    entry = with_model(described, template_source="{{ tools }}{% for m in messages %}{{ m.role }} {{ m.content }}{% endfor %}")
    assert (entry["format"], entry["format_from"]) == ("generic", "nothing")
    assert "fits no format" in entry["warnings"][0]
