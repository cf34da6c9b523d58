"""The families whose calls are JSON between markers: detection, decoding grammars, and what they make of broken output."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import llguidance
import pytest
from tests.formats.joined import Joined, parse

from daneel.formats.base import Tool
from daneel.formats.families import json_marked, mistral
from daneel.formats.registry import detect, get
from daneel.formats.validate import ToolSet

NAMES = [row.name for group in (mistral, json_marked) for row in group.ROWS]
GROUPS = {
    "mistral": {"mistral", "mistral-small-3.2", "ministral3"},
    "ministral3 (mistral v13 think)": {"ministral3"},
    "gigachat3": {"gigachat3", "gigachat3.1"},
    "command-r7b/a (cohere3)": {"command-r7b"},
    "command4 (cohere4)": {"command4"},
} | {name: {name} for name in ("apertus", "granite3", "granite4", "granite-20b-fc", "nemotron-nano-v2", "apriel")}
GROUPS |= {name: {name} for name in ("jamba", "ernie4.5", "reka-edge", "bielik", "internlm2", "command-r-plus")}
"""The reference data's names of families, and daneel's."""

HERMES = ("hermes", "qwen2.5-hermes", "qwen3-hermes", "qwen3-vl (hermes)", "qwq (hermes)", "mimo")


def test_the_templates_of_these_families_and_no_others_are_detected(shared_dir: Path) -> None:
    templates = shared_dir / "templates"
    for item in json.loads((templates / "manifest.json").read_text(encoding="utf-8")):
        found = detect((templates / item["file"]).read_text(encoding="utf-8")).name
        if item["family"] in GROUPS:
            assert found in GROUPS[item["family"]], item["file"]
        else:
            assert found not in NAMES, item["file"]
            assert (found == "hermes") is (item["family"] in HERMES), item["file"]


def test_the_names_of_the_reference_data_are_known() -> None:
    for name, names in GROUPS.items():
        assert get(name).name in names
    for name in HERMES:
        assert get(name).full_name == "hermes"


@pytest.mark.parametrize(
    ("template", "name"),
    [
        ("Mistral-Small-3.2-24B-Instruct-2506.jinja", "mistral-small-3.2"),
        ("unsloth-mistral-Devstral-Small-2507.jinja", "ministral3"),
        ("mistralai-Mistral-Nemo-Instruct-2407.jinja", "mistral"),
        ("GigaChat3-10B-A1.8B.jinja", "gigachat3"),
        ("GigaChat3.1-10B-A1.8B.jinja", "gigachat3.1"),
    ],
)
def test_a_template_gets_the_row_that_writes_as_it_does(shared_dir: Path, template: str, name: str) -> None:
    assert detect((shared_dir / "templates" / template).read_text(encoding="utf-8")).name == name


# -- decoding grammars ------------------------------------------------------------------------------------------------------


class _Bytes:
    eos_token_id = 256
    bos_token_id = None
    tokens = [bytes([value]) for value in range(256)] + [b"<end>"]
    special_token_ids = [256]

    def __call__(self, text: bytes) -> list[int]:
        return list(text)


TOKENIZER = llguidance.LLTokenizer(llguidance.TokenizerWrapper(_Bytes()), slices=[])
TOOLS = [
    Tool("now"),
    Tool("say.it-2", parameters={"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]}),
]
NOW: tuple[str, dict[str, Any]] = ("now", {})
SAY: tuple[str, dict[str, Any]] = ("say.it-2", {"x": 'a "b" [ARGS] </tool_call>'})


def _accepts(grammar: str, text: str) -> bool:
    assert not llguidance.LLMatcher.validate_grammar(grammar, TOKENIZER)
    matcher = llguidance.LLMatcher(TOKENIZER, grammar)
    ids = list(text.encode())
    return matcher.try_consume_tokens(ids) == len(ids) and matcher.is_accepting()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("parallel", "calls", "admitted"),
    [
        (True, [NOW], True),
        (True, [SAY, NOW, SAY], True),
        (False, [SAY], True),
        (False, [NOW, SAY], False),
        (True, [("other", {})], False),
        (True, [("say.it-2", {"x": 1})], False),
        (True, [("say.it-2", {})], False),
    ],
)
def test_what_may_be_decoded_is_what_is_read(
    name: str, parallel: bool, calls: list[tuple[str, dict[str, Any]]], admitted: bool
) -> None:
    family = get(name)
    grammar = family.call_grammar(TOOLS, choice="required", parallel=parallel, marker=json.dumps)
    text = family.write_calls([(call, json.dumps(arguments)) for call, arguments in calls])
    assert _accepts(grammar, text) is admitted
    got = parse(family, text, tools=ToolSet(TOOLS))
    assert [(call.name, json.loads(call.arguments)) for call in got.calls] == calls
    assert {call.repair for call in got.calls} == {None}


def test_special_tokens_are_referred_to_one_by_one() -> None:
    seen: list[str] = []

    def marker(text: str) -> str:
        seen.append(text)
        return json.dumps(text)

    for name in ("gigachat3", "internlm2", "mistral-small-3.2"):
        get(name).call_grammar(TOOLS, choice="now", parallel=False, marker=marker)
    assert seen == [
        *("<|message_sep|>", "\n\nfunction call", "<|role_sep|>"),
        *("<|action_start|>", "<|plugin|>", "<|action_end|>"),
        *("[TOOL_CALLS]", "[CALL_ID]", "[ARGS]"),
    ]


# -- what comes out ---------------------------------------------------------------------------------------------------------

A, B = '{"name": "a", "arguments": {"x": 1}}', '{"name": "b", "arguments": {}}'
C = '{"tool_call_id": "0", "tool_name": "a", "parameters": {"x": 1}}'


def _told(got: Joined) -> tuple[str, str, list[tuple[str, str | None]], list[str]]:
    calls = [(f"{call.name}{call.arguments}", call.repair) for call in got.calls]
    return got.content, got.reasoning, calls, [call.error_type for call in got.failed]


CALL_A = 'a{"x": 1}'
CASES: list[tuple[str, str, str, str, list[tuple[str, str | None]], list[str]]] = [
    # both of Mistral's ways, whatever the row
    ("mistral", 'Hi[TOOL_CALLS]a[ARGS]{"x": 1}[TOOL_CALLS]b{}</s>', "Hi", "",
     [(CALL_A, None), ("b{}", "missing_arguments_marker")], []),
    ("ministral3", f"[TOOL_CALLS] [{A}, {B}]", "", "", [(CALL_A, None), ("b{}", None)], []),
    ("ministral3", f"[TOOL_CALLS]{A}", "", "", [(CALL_A, "object_body")], []),
    ("ministral3", '[TOOL_CALLS]a[ARGS]{"x": "[TOOL_CALLS]b[ARGS]{}"}', "", "",
     [('a{"x": "[TOOL_CALLS]b[ARGS]{}"}', None)], []),
    ("ministral3", '[THINK]h[/THINK]t[TOOL_CALLS]a[ARGS]{"x": 1} u', "t u", "h", [(CALL_A, None)], []),
    ("ministral3", '[THINK]h[TOOL_CALLS]a[ARGS]{"x": 1}', "", "h", [(CALL_A, None)], []),
    ("ministral3", 'The [TOOL_CALLS] marker is one.', "The [TOOL_CALLS] marker is one.", "", [], []),
    ("ministral3", '[TOOL_CALLS]a[ARGS]{"x": [TOOL_CALLS]b[ARGS]{}', "", "", [("b{}", None)], ["malformed"]),
    ("ministral3", '[TOOL_CALLS]a(x=1)[TOOL_CALLS]b[ARGS]{}', "", "", [("b{}", None)], ["malformed"]),
    ("ministral3", '[TOOL_CALLS]a[ARGS]{"x": 1', "", "", [], ["truncated"]),
    ("ministral3", "[TOOL_CALLS]a[ARGS]</s>", "", "", [], ["malformed"]),
    ("mistral", f"[TOOL_CALLS][{A}", "", "", [(CALL_A, "missing_array_end")], []),
    ("mistral", f"[TOOL_CALLS][{A}, {{bad}}]", "", "", [(CALL_A, None)], ["malformed"]),
    ("mistral", f'[TOOL_CALLS][{A}, {{"name": "b"', "", "", [(CALL_A, None)], ["truncated"]),
    # bodies that nothing closes
    ("granite3", f"<|tool_call|>[{A}, {B}]<|end_of_text|>", "", "", [(CALL_A, None), ("b{}", None)], []),
    ("granite3", f"<tool_call>{A}</tool_call>", "", "", [(CALL_A, "object_body")], []),
    ("granite3", "Here is my thought process: t\n\nHere is my response: r", "r", "t\n\n", [], []),
    ("granite3", "<think>t</think>\n<response>r</response>", "r", "t", [], []),
    ("granite-20b-fc", f"Hm.\n<function_call> {A}\n<function_call> {B}\n<|endoftext|>", "Hm.\n\n\n", "",
     [(CALL_A, None), ("b{}", None)], []),
    ("gigachat3", f"Hi<|message_sep|>\n\nfunction call<|role_sep|>\n{A}<|message_sep|>", "Hi", "", [(CALL_A, None)], []),
    ("gigachat3", f"<|function_call|>{A}</s>", "", "", [(CALL_A, None)], []),
    ("gigachat3", "Hi<|message_sep|>", "Hi", "", [], []),
    ("gigachat3", "Hi<|message_sep|>\n\n", "Hi\n\n", "", [], []),
    ("gigachat3", "<|function_call|>not json</s>", "<|function_call|>not json", "", [], []),
    # arrays between markers
    ("nemotron-nano-v2", f"<TOOLCALL>[{A} {B}]</TOOLCALL>", "", "", [(CALL_A, "missing_array_end+shared_markers"),
     ("b{}", "object_body+extra_braces")], []),
    ("nemotron-nano-v2", f"<TOOLCALL>[{A}</TOOLCALL>", "", "", [(CALL_A, "missing_array_end")], []),
    ("nemotron-nano-v2", f"<TOOLCALL>[{A}]", "", "", [(CALL_A, "missing_close_marker")], []),
    ("nemotron-nano-v2", f"<TOOLCALL>[{A}, {{bad}}]</TOOLCALL><TOOLCALL>[{B}]</TOOLCALL>", "", "",
     [(CALL_A, None), ("b{}", None)], ["malformed"]),
    ("nemotron-nano-v2", "<TOOLCALL>[]</TOOLCALL>", "", "", [], []),
    ("jamba", f"Sure<tool_calls>[\n  {A}\n]</tool_calls><|eom|>", "Sure", "", [(CALL_A, None)], []),
    ("apertus", '<|inner_prefix|>h<|inner_suffix|>t<|tools_prefix|>[{"a": {"x": 1}}]<|tools_suffix|><|assistant_end|>',
     "t", "h", [(CALL_A, None)], []),
    ("apertus", f"<|tools_prefix|>[{A}]<|tools_suffix|>", "", "", [(CALL_A, "named_keys")], []),
    ("apertus", '<|tools_prefix|>[{"a": {"x": 1}, "b": {}}]<|tools_suffix|>', "", "", [], ["malformed"]),
    ("apriel", f"Here are my reasoning steps:\nh\n[BEGIN FINAL RESPONSE]\nt\n[END FINAL RESPONSE]\n<tool_calls>[{A}]"
     "</tool_calls>\n<|end|>", "t\n\n\n", "h\n", [(CALL_A, None)], []),
    # Cohere: wrappers vanish, citations stay
    ("command-r7b", f"<|START_THINKING|>h<|END_THINKING|><|START_ACTION|>[\n    {C}\n]<|END_ACTION|><|END_OF_TURN_TOKEN|>",
     "", "h", [(CALL_A, None)], []),
    ("command-r7b", "<|START_RESPONSE|>a <co>b</co: 0:[1]><|END_RESPONSE|>", "a <co>b</co: 0:[1]>", "", [], []),
    ("command4", "<|START_THINKING|><|END_THINKING|><|START_TEXT|>t<|END_TEXT|>", "t", "", [], []),
    ("command-r-plus", f"Plan: x\nAction:\n```json\n[\n    {C}\n]\n```", "Plan: x\n", "", [(CALL_A, None)], []),
    ("command-r-plus", "Action: run.", "Action: run.", "", [], []),
    # hermes's calls in other turns
    ("granite4", f"<tool_call>\n{A}\n</tool_call><|end_of_text|>", "", "", [(CALL_A, None)], []),
    ("ernie4.5", "<think>\nh\n</think>\n\n<response>\nt\n</response>\n</s>", "t\n\n", "h\n", [], []),
    ("ernie4.5", f"h\n</think>\n\n<tool_call>\n{A}\n</tool_call>\n</s>", "h\n</think>\n\n\n", "", [(CALL_A, None)], []),
    ("reka-edge", f" <think>\nh\n</think>\n\nt <tool_call>\n{A}\n</tool_call><tool_call>\n{B}\n</tool_call>\n\n<sep>", "t \n\n",
     "h\n", [(CALL_A, None), ("b{}", None)], []),
    ("internlm2", f"t<|action_start|><|plugin|>\n{A}<|action_end|><|im_end|>", "t", "", [(CALL_A, None)], []),
    ("internlm2", '<|action_start|><|plugin|>{"name": "a", "parameters": {"x": 1}}', "", "",
     [(CALL_A, "parameters_key+missing_close_marker")], []),
    ("internlm2", f"<|action_start|>{A}<|action_end|>", "", "", [(CALL_A, None)], []),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "content", "reasoning", "calls", "failed"), CASES)
def test_what_comes_out_at_any_cut(
    name: str, text: str, content: str, reasoning: str, calls: list[tuple[str, str | None]], failed: list[str]
) -> None:
    whole = parse(get(name), text)
    assert _told(whole) == (content, reasoning, calls, failed)
    for cut in range(1, len(text)):
        assert parse(get(name), text, (cut,)).events == whole.events, cut
    assert parse(get(name), text, range(1, len(text))).events == whole.events


def test_ids_that_the_model_writes_are_kept() -> None:
    got = parse(get("mistral"), "[TOOL_CALLS]a[CALL_ID]abcDEF123[ARGS]{}")
    assert [call.call_id for call in got.calls] == ["abcDEF123"]
    got = parse(get("mistral"), '[TOOL_CALLS][{"name": "a", "arguments": {}, "id": "abcDEF123"}]')
    assert [call.call_id for call in got.calls] == ["abcDEF123"]
    got = parse(get("command-r7b"), f"<|START_ACTION|>[{C}]<|END_ACTION|>")
    assert [call.call_id for call in got.calls] == ["0"]


@pytest.mark.parametrize(
    ("name", "prompt", "inside"),
    [
        ("apriel", "<|begin_assistant|>\nHere are my reasoning steps:\n", True),
        ("command4", "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|><|START_THINKING|>", True),
        ("command-r7b", "<|CHATBOT_TOKEN|><|START_THINKING|><|END_THINKING|>", False),
        ("granite3", "<|start_of_role|>assistant<|end_of_role|><think>I'm", True),
        ("granite3", "<|start_of_role|>assistant<|end_of_role|>Here is my thought process: I", True),
        ("granite3", "<|start_of_role|>assistant<|end_of_role|><think>x</think>Hello", False),
        ("ministral3", "[THINK]x[/THINK]Hello, ", False),
        ("reka-edge", "assistant: <think>\n", True),
        ("nemotron-nano-v2", "<SPECIAL_11>Assistant\n<think>\n", True),
    ],
)
def test_the_prompt_tells_whether_reasoning_is_open(name: str, prompt: str, inside: bool) -> None:
    assert get(name).starts_in_reasoning(prompt) is inside


def test_a_line_that_may_be_a_call_is_seen_behind_a_call_inside_reasoning() -> None:
    tools = ToolSet([Tool("a"), Tool("b")])
    text = f"[TOOL_CALLS]a[ARGS]{{}},\n\n{B}"
    whole = parse(get("ministral3"), text, tools=tools, in_reasoning=True)
    assert [(call.name, call.repair) for call in whole.calls] == [("a", None), ("b", "bare_json")]
    for cut in range(1, len(text)):
        assert parse(get("ministral3"), text, (cut,), tools=tools, in_reasoning=True).events == whole.events, cut
