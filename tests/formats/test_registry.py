"""Which family a template belongs to, and what a family says of itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from daneel.errors import UserError
from daneel.formats.registry import FAMILIES, detect, get


def test_an_unknown_name_lists_what_there_is() -> None:
    with pytest.raises(UserError, match=r"gemma4, .*generic, generic/example, .*hermes, hermes/array, hermes/example"):
        get("nonsense")


@pytest.mark.parametrize("template", [None, "", "{% for message in messages %}{{ message.content }}{% endfor %}"])
def test_a_template_without_evidence_is_generic(template: str | None) -> None:
    assert detect(template).name == "generic"


def test_detection_from_the_templates_themselves(shared_dir: Path) -> None:
    folder = shared_dir / "templates"
    finer = {  # where the manifest's families are broader than the registry's
        "GigaChat3.1-10B-A1.8B.jinja": "gigachat3.1",
        "Mistral-Small-3.2-24B-Instruct-2506.jinja": "mistral-small-3.2",
        "unsloth-mistral-Devstral-Small-2507.jinja": "ministral3",
    }
    without_calls = {"rwkv", "phi3.5"}
    for entry in json.loads((folder / "manifest.json").read_text(encoding="utf-8")):
        found = detect((folder / entry["file"]).read_text(encoding="utf-8")).name
        named = "generic" if entry["family"] in without_calls else get(entry["family"]).name
        assert found == finer.get(entry["file"], named), entry["file"]


def test_a_variant_has_a_name_of_its_own() -> None:
    example = get("hermes/example")
    assert (example.name, example.variant) == ("hermes", "example")
    assert example.call == get("hermes").call


@pytest.mark.parametrize(
    ("num_parameters", "variant"),
    [
        (None, ""),
        (494_000_000, "example"),
        (1_540_000_000, "array"),
        (3_090_000_000, "array"),
        (7_600_000_000, ""),
    ],
)
def test_small_models_of_a_family_are_told_of_tools_in_their_own_way(
    shared_dir: Path, num_parameters: int | None, variant: str
) -> None:
    template = (shared_dir / "templates" / "Qwen-Qwen2.5-7B-Instruct.jinja").read_text(encoding="utf-8")
    family = detect(template, num_parameters=num_parameters)
    assert (family.name, family.variant, family.tool_prompt.preferred) == ("hermes", variant, bool(variant))
    assert family.markers == get("hermes").markers


@pytest.mark.parametrize(
    ("name", "prompt", "inside"),
    [
        ("hermes", "<|im_start|>assistant\n<think>\n", True),
        ("hermes", "<|im_start|>assistant\n<think>I'm", True),
        ("hermes", "<|im_start|>assistant\n<think>\n\n</think>\n\n", False),
        ("hermes", "<|im_start|>user\nWhat is <think>?<|im_end|>\n<|im_start|>assistant\n", False),
        ("hermes", "<|im_start|>assistant\n", False),
        ("gemma4", "<|turn>model\n<|channel>thought\n", True),
        ("gemma4", "<|turn>model\n<|channel>thought\n<channel|>", False),
        ("gemma4", "<|turn>model\n<|channel>thought\nI'm thinking<channel|>Hello, ", False),
        ("generic", "Assistant: <think>\n", True),
        ("generic", "User: What is <think>?\nAssistant:", False),
    ],
)
def test_whether_the_prompt_opened_the_reasoning(name: str, prompt: str, inside: bool) -> None:
    assert get(name).starts_in_reasoning(prompt) is inside


def test_markers_are_all_texts_that_mean_something() -> None:
    assert {"<|tool_call>", "<tool_call|>", "<turn|>", "<|tool_response>", "<|channel>", "<channel|>"} <= set(
        get("gemma4").markers
    )
    for family in FAMILIES.values():
        assert all(family.markers)
        assert set(family.stop_markers) <= set(family.markers)
