"""In which form results go to a foreign server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.support.scripted_server import calls, text
from tests.support.stage import PROMPT, Stage

from daneel import Harness, tool
from daneel.harness.result_style import family_by_name, num_parameters, plain_family
from daneel.harness.server_profile import ServerProfile


@tool
def cur_time() -> str:
    """Get current time"""
    return "12:00:00"


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Stage() as stage:
        yield stage


@pytest.mark.parametrize(
    ("model", "family"),
    [
        ("Qwen2.5-Coder-0.5B-Instruct-Q4_K_M.gguf", "hermes/example"),
        ("qwen2.5:0.5b", "hermes/example"),
        ("qwen2.5-coder:1.5b", "hermes/array"),
        ("Qwen/Qwen2.5-3B-Instruct", "hermes/array"),
        ("SmolLM2-135M-Instruct", "generic/example"),
        ("gemma-2-2b-it", "gemma2"),
        ("Qwen/Qwen2.5-7B-Instruct", None),
        ("qwen2.5", None),
        ("qwen3:0.6b", None),
        ("gemma-3-1b", None),
        ("smollm3-3b", None),
        ("llama3.2:1b", None),
        ("gpt-4o-mini", None),
        ("", None),
    ],
)
def test_small_models_that_are_known_to_need_it_are_told_plainly(model: str, family: str | None) -> None:
    found = family_by_name(model)
    assert (found.full_name if found else None) == family


@pytest.mark.parametrize(
    ("name", "size"),
    [("qwen2.5-0.5b", 5e8), ("smollm2-135m", 1.35e8), ("mixtral-8x7b", None), ("phi-4", None), ("x-70b-v2", 7e10)],
)
def test_sizes_in_names(name: str, size: float | None) -> None:
    assert num_parameters(name) == size


def test_the_harness_wins_over_the_profile_and_the_profile_over_the_name() -> None:
    plain, native, unknown = (ServerProfile(result_style=style) for style in ("plain", "native", None))
    small, other = "qwen2.5-0.5b", "gpt"
    found = {
        (style, model, profile.result_style): (family.full_name if (family := plain_family(style, profile, model)) else None)
        for style in ("auto", "native", "plain")
        for model in (small, other)
        for profile in (plain, native, unknown)
    }
    assert {key for key, family in found.items() if family is None} == {
        *(("native", model, profile) for model in (small, other) for profile in ("plain", "native", None)),
        ("auto", small, "native"),
        ("auto", other, "native"),
        ("auto", other, None),
    }
    assert found["auto", small, None] == "hermes/example"
    assert found["plain", other, None] == "generic"


def test_a_small_model_on_a_foreign_server_gets_its_results_plainly(stage: Stage) -> None:
    named = calls(("cur_time", {}), model="qwen2.5:0.5b")
    result, requests = stage.play([named, text(""), text("12:00")], Harness(tools=[cur_time]), owned_by="someone", stream=False)
    assert [event.data.get("family") for event in result.events if event.kind == "result_style"] == ["hermes/example"]
    roles = [message["role"] for message in requests[1]["messages"]]
    assert "tool" not in roles
    assert "cur_time: 12:00:00" in requests[1]["messages"][-1]["content"]
    # a notice of the harness is not the question that the results answer
    assert PROMPT in str(requests[2]["messages"][-2]["content"]) + str(requests[2]["messages"][-1]["content"])
    assert all("name" not in message for request in requests for message in request["messages"])


def test_native_is_native(stage: Stage) -> None:
    named = calls(("cur_time", {}), model="qwen2.5:0.5b")
    harness = Harness(tools=[cur_time], tool_result_style="native")
    _, requests = stage.play([named, text("12:00")], harness, owned_by="someone", stream=False)
    assert requests[1]["messages"][-1]["role"] == "tool"
