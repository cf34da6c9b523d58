"""ATEM blocks: values are raw text that the schema types, and the block should invoke whom the header names."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.formats.test_framed import _read

from daneel.formats.base import Tool
from daneel.formats.registry import get
from daneel.formats.validate import ToolSet

PROPERTIES = {"s": {"type": "string"}, "n": {"type": "integer"}, "b": {"type": "boolean"}, "l": {"type": "array"}}
TOOLS = ToolSet([Tool("f", parameters={"type": "object", "properties": PROPERTIES}), Tool("ns.g"), Tool("g")])


def _block(*invokes: str) -> str:
    return "\n".join(["<atem:function_calls>", *invokes, "</atem:function_calls>"])


def _invoke(name: str, **values: str) -> str:
    lines = [f'<atem:parameter name="{key}">{value}</atem:parameter>' for key, value in values.items()]
    return "\n".join([f'<atem:invoke name="{name}">', *lines, "</atem:invoke>"])


@pytest.mark.parametrize(
    ("wire", "value"),
    [
        ({"s": " 5 "}, " 5 "),
        ({"s": "\nx\n"}, "\nx\n"),
        ({"s": ""}, ""),
        ({"s": "<|eot|><|start|>assistant to=user<|message|>"}, "<|eot|><|start|>assistant to=user<|message|>"),
        ({"s": '</atem:invoke> &amp; "q" é🎉'}, '</atem:invoke> &amp; "q" é🎉'),
        ({"n": "5"}, 5),
        ({"n": "five"}, "five"),
        ({"b": "true"}, True),
        ({"l": '[1, {"a": null}]'}, [1, {"a": None}]),
        ({"other": "5"}, "5"),
    ],
)
def test_values_are_raw_and_typed_by_the_schema(wire: dict[str, str], value: Any) -> None:
    got = _read("glimmer", f" to=f<|message|>{_block(_invoke('f', **wire))}<|eot|>", tools=TOOLS)
    assert [json.loads(call.arguments) for call in got.calls] == [dict.fromkeys(wire, value)]
    assert got.calls[0].repair is None


@pytest.mark.parametrize(
    ("text", "name", "repair"),
    [
        (f" to=ns<|message|>{_block(_invoke('ns.g'))}", "ns.g", "recipient"),
        (f" to=f.f<|message|>{_block(_invoke('f'))}", "f", "recipient"),
        (f" to=f.f<|message|>{_block(_invoke('f.f'))}", "f.f", None),
        (f"<|message|>{_block(_invoke('ns.g'))}", "ns.g", "missing_recipient"),
        (f" to=f<|message|>{_block(_invoke('f<|message|>'))}", "f", "marker_in_name"),
        (f" to=other<|message|>{_block(_invoke('other'))}", "other", None),
        (" to=f<|message|>" + _block(_invoke("f")).removesuffix("</atem:function_calls>"), "f", "missing_end_tag"),
        (" to=f<|message|>" + _block(_invoke("f")).removesuffix("</atem:function_calls>") + "<|eot|>", "f", "missing_end_tag"),
        (" to=f<|message|>" + _block(_invoke("f")).replace("</atem:invoke>\n", ""), "f", "missing_end_tag"),
        (" to=f<|message|>" + _invoke("f") + "<|eom|>", "f", "missing_open_tag+missing_end_tag"),
        (' to=g<|message|><atem:function_calls><atem:invoke name="g"/></atem:function_calls>', "g", None),
    ],
)
def test_who_is_called(text: str, name: str, repair: str | None) -> None:
    got = _read("glimmer", text, tools=TOOLS)
    assert [(call.name, call.repair) for call in got.calls] == [(name, repair)]
    assert (got.content, got.failed) == ("", [])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f" to=f<|message|>{_block(_invoke('g'))}<|eot|>", "the header names 'f', the call 'g'"),
        (f" to=f<|message|>{_block(_invoke('g<|message|>'))}<|eot|>", "a marker stands in the tool's name"),
        (f" to=f<|message|>{_block()}<|eot|>", "the block holds no call"),
        (' to=f<|message|>{"s": "x"}<|eot|>', "expected <atem:function_calls>"),
        (" to=f<|message|><atem:function_calls><atem:invoke name='f'><|eot|>", 'expected <atem:invoke name="…">'),
        (
            ' to=f<|message|><atem:function_calls><atem:invoke name="f"><atem:parameter name="s">x<|eot|>',
            "the message ends before",
        ),
    ],
)
def test_what_cannot_be_read(text: str, message: str) -> None:
    got = _read("glimmer", text, tools=TOOLS)
    assert got.calls == []
    assert [failed.message.startswith(message) for failed in got.failed] == [True]


def test_a_parameter_twice_fails() -> None:
    twice = _invoke("f", s="x").replace("</atem:invoke>", '<atem:parameter name="s">y</atem:parameter></atem:invoke>')
    got = _read("glimmer", f" to=f<|message|>{_block(twice)}<|eot|>", tools=TOOLS)
    assert (got.calls, [failed.message for failed in got.failed]) == ([], ["the parameter 's' stands twice"])


def test_a_block_is_content_where_it_is_told_to_the_user_or_not_certain() -> None:
    block = _block(_invoke("f", n="five"))
    assert _read("glimmer", f" to=user<|message|>{block}<|eot|>", tools=TOOLS).content == block
    assert _read("glimmer", f"<|message|>{block}<|eot|>", tools=TOOLS).content == block
    assert _read("glimmer", f"<|message|>{_block(_invoke('other'))}<|eot|>", tools=TOOLS).content == _block(_invoke("other"))
    assert _read("glimmer", f"<|message|>Hi {block}<|eot|>", tools=TOOLS).content == f"Hi {block}"
    assert _read("glimmer", f" to=self<|message|>{block}<|eot|>", tools=TOOLS).reasoning == block


def test_several_calls_in_a_block_and_text_behind_it() -> None:
    got = _read("glimmer", f" to=f<|message|>{_block(_invoke('f', s='a'), _invoke('f', s='b'))}\nDone.<|eot|>", tools=TOOLS)
    assert [json.loads(call.arguments) for call in got.calls] == [{"s": "a"}, {"s": "b"}]
    assert (got.content.strip(), got.failed) == ("Done.", [])


def test_written_as_the_template_writes_it() -> None:
    arguments = json.dumps({"s": " a ", "n": 1, "b": True, "l": [1, "é"]}, ensure_ascii=False)
    assert get("glimmer").write_call("f", arguments) == (
        '<|start|>assistant to=f<|message|><atem:function_calls>\n<atem:invoke name="f">\n'
        '<atem:parameter name="s"> a </atem:parameter>\n<atem:parameter name="n">1</atem:parameter>\n'
        '<atem:parameter name="b">true</atem:parameter>\n<atem:parameter name="l">[1, "é"]</atem:parameter>\n'
        "</atem:invoke>\n</atem:function_calls><|eom|>"
    )
