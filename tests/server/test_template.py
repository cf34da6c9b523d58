"""Templates: rendered as transformers does, in children that cannot take the server with them."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from daneel.server.template import TemplateError, TemplateRenderer
from daneel.server.template_child import Failed, Rendered, compile_template, render
from daneel.wire.errors import BadRequest

USER = {"role": "user", "content": "U1"}
CHATML = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
TRIMMING = CHATML.replace("message.content", "message.content | trim")
HOSTILE = """
{%- for message in messages %}
{%- if message.content == "loop" %}{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}
{%- elif message.content == "memory" %}{{ "x" * message.count }}
{%- elif message.content == "refuse" %}{{ raise_exception("roles must alternate") }}
{%- elif message.content == "undefined" %}{{ nothing.at.all }}
{%- elif message.content == "escape" %}{{ messages.__class__.__mro__ }}
{%- elif message.content == "change" %}{{ messages.clear() }}
{%- else %}{{ message.content }}{% endif %}
{%- endfor %}"""


def with_renderer(source: str, use: Callable[[TemplateRenderer], Awaitable[Any]], **options: Any) -> Any:
    async def run() -> Any:
        renderer = await TemplateRenderer.start(source, bos_text="<s>", eos_text="</s>", **options)
        try:
            return await use(renderer)
        finally:
            await renderer.close()

    return asyncio.run(run())


def rendered(source: str, messages: list[dict[str, Any]], **options: Any) -> str:
    return str(with_renderer(source, lambda renderer: renderer.render(messages, **options)))


def refusal(source: str, messages: list[dict[str, Any]], **options: Any) -> str:
    with pytest.raises(BadRequest) as caught:
        rendered(source, messages, **options)
    return caught.value.message


def test_every_known_template_renders_as_transformers_renders_it(shared_dir: Path) -> None:
    lines = (shared_dir / "templates" / "rendered_examples.jsonl").read_text(encoding="utf-8").splitlines()
    dates = re.compile(r"20\d\d-\d\d-\d\d|(January|August|\w+ember) \d\d, 20\d\d|\d\d \w{3} 20\d\d|date: .*")
    different = []
    for line in lines:
        example = json.loads(line)
        if example["gen_default"].startswith("ERR"):
            continue
        template = compile_template((shared_dir / "templates" / example["file"]).read_text(encoding="utf-8"))
        variables = {"messages": [USER], "tools": None, "add_generation_prompt": True}
        reply = render(template, {**variables, "bos_token": "<BOS>", "eos_token": "<EOS>"})
        assert isinstance(reply, Rendered), example["file"]
        if dates.sub("DATE", reply.text) != dates.sub("DATE", example["gen_default"]):
            different.append(example["file"])
    # the two write a date in the words of a whole sentence
    assert [name for name in different if "istral" not in name] == []
    assert len(lines) > 80


def test_json_is_written_as_models_were_trained_on_it() -> None:
    source = "{{ messages[0].x | tojson }} {{ messages[0].x | tojson(indent=2, separators=(',', ' : '), sort_keys=true) }}"
    text = rendered(source, [{"x": {"b": "<é> & 'q'", "a": 1}}])
    assert text == '{"b": "<é> & \'q\'", "a": 1} {\n  "a" : 1,\n  "b" : "<é> & \'q\'"\n}'


def test_the_tags_and_names_of_transformers_are_there() -> None:
    source = (
        "{{ bos_token }}{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}{% break %}{% endfor %}"
        "{{ strftime_now('%Y') | length }}{{ eos_token }}"
    )
    assert rendered(source, [USER, USER]) == "<s>U14</s>"


def test_blocks_leave_no_white_space() -> None:
    assert rendered("a\n  {% if true %}\nb\n  {% endif %}\nc", [USER]) == "a\nb\nc"


def test_without_tools_the_name_is_null_or_absent_as_the_template_can_bear() -> None:
    assert rendered("{{ tools is none }}", [USER]) == "True"
    assert rendered("{% for tool in tools %}x{% endfor %}{{ tools is defined }}", [USER]) == "False"
    assert rendered("{{ tools[0].name }}", [USER], tools=[{"name": "f"}]) == "f"


@pytest.mark.parametrize(
    ("source", "knows"),
    [
        (CHATML, False),
        ("{% if tools %}{{ tools | tojson }}{% endif %}", True),
        ("{% if messages[0].role == 'system' %}{{ tools | tojson }}{% endif %}", True),
        ("{{ raise_exception('never') }}", False),
    ],
)
def test_whether_a_template_knows_tools_is_found_by_trying(source: str, knows: bool) -> None:
    assert with_renderer(source, lambda renderer: renderer.knows_tools()) is knows


@pytest.mark.parametrize(
    ("source", "content", "end"),
    [
        (CHATML, "The answer is ", "assistant\nThe answer is "),
        (TRIMMING, "The answer is ", "assistant\nThe answer is"),
        (TRIMMING, "  The answer", "assistant\nThe answer"),
        (CHATML, "U1", "assistant\nU1"),
        (CHATML, "", "assistant\n"),
    ],
)
def test_the_last_message_is_continued_where_its_content_ends(source: str, content: str, end: str) -> None:
    messages = [USER, {"role": "assistant", "content": content}]
    text = rendered(source, messages, add_generation_prompt=False, continue_final_message=True)
    assert text.endswith(end)
    assert text.count("<|im_end|>") == 1


def test_a_last_message_that_ends_in_calls_cannot_be_continued() -> None:
    calls = [{"id": "c", "type": "function", "function": {"name": "f", "arguments": {}}}]
    message = refusal(CHATML, [USER, {"role": "assistant", "content": "x", "tool_calls": calls}], continue_final_message=True)
    assert "ends in tool calls" in message


def test_a_last_message_that_is_not_rendered_cannot_be_continued() -> None:
    source = "{% for m in messages %}{% if m.role == 'user' %}{{ m.content }}{% endif %}{% endfor %}"
    message = refusal(source, [USER, {"role": "assistant", "content": "x"}], continue_final_message=True)
    assert "does not render the last message" in message


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("refuse", "the chat template refused the messages: roles must alternate"),
        ("undefined", "the chat template failed: UndefinedError: 'nothing' is undefined"),
        ("escape", "SecurityError"),
        ("change", "SecurityError"),
        ("\ud800", "UnicodeEncodeError"),
    ],
)
def test_a_refusal_or_an_error_is_the_requests_fault_and_says_why(content: str, message: str) -> None:
    assert message in refusal(HOSTILE, [{"role": "user", "content": content}])


def test_time_and_memory_are_bounded_and_the_next_request_is_served() -> None:
    async def use(renderer: TemplateRenderer) -> list[str]:
        said = []
        for content, count in [("loop", 0), ("fine", 0), ("memory", 10**10), ("fine", 0), ("memory", 10**8), ("fine", 0)]:
            try:
                said.append(await renderer.render([{"role": "user", "content": content, "count": count}]))
            except BadRequest as error:
                said.append(error.message)
        return said

    looped, fine, large, fine_too, long, fine_again = with_renderer(HOSTILE, use, timeout_s=1.0)
    assert looped == "the chat template took longer than 1 s and was stopped"
    assert large == "the chat template failed: it needs more memory than it may have"
    assert "over the limit of 16000000" in long
    assert fine == fine_too == fine_again == "fine"


def test_one_slow_request_does_not_hold_up_another() -> None:
    async def use(renderer: TemplateRenderer) -> bool:
        slow = asyncio.create_task(renderer.render([{"role": "user", "content": "loop"}]))
        for _ in range(3):
            assert await renderer.render([USER]) == "U1"
        still_running = not slow.done()
        slow.cancel()
        await asyncio.wait({slow})
        assert await renderer.render([USER]) == await renderer.render([USER]) == "U1"
        return still_running

    assert with_renderer(HOSTILE, use, timeout_s=30.0)


def test_a_cancelled_request_never_gives_its_text_to_the_next() -> None:
    async def use(renderer: TemplateRenderer) -> None:
        for index in range(20):
            task = asyncio.create_task(renderer.render([{"role": "user", "content": f"old {index}"}]))
            for _ in range(index % 5):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait({task})
            assert await renderer.render([{"role": "user", "content": f"new {index}"}]) == f"new {index}"

    with_renderer(HOSTILE, use)


@pytest.mark.parametrize("source", ["{% for %}", "{{ unclosed", "{% generation %}x"])
def test_a_template_that_does_not_compile_is_a_clear_error(source: str) -> None:
    with pytest.raises(TemplateError, match="the chat template cannot be used: line 1: "):
        rendered(source, [USER])


def test_a_template_cannot_hurt_while_it_is_compiled() -> None:
    # the compiler computes constant expressions; the child's limits must hold there too
    reply = render(compile_template("{{ 1 }}"), {})
    assert reply == Rendered("1")
    with pytest.raises(TemplateError, match="memory"):
        rendered("{{ 'x' * (10**8) }}", [USER])


def test_numbers_of_any_size_reach_the_template() -> None:
    assert rendered("{{ messages[0].n }}", [{"n": 10**30}]) == str(10**30)


def test_what_a_template_raises_is_a_value() -> None:
    assert render(compile_template("{{ raise_exception('no') }}"), {}) == Failed("refused", "no")
