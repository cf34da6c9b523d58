"""The families daneel knows, and which of them a chat template belongs to.

Each row is read off the family's own chat templates; what a field means stands in `family.py`. Evidence is looked for in
the order of the table, so a family whose markers are part of another's stands above it.
"""

from __future__ import annotations

import sys
from dataclasses import replace

from daneel.errors import UserError
from daneel.formats.family import Family
from daneel.formats.syntax import CallSyntax, PlainStyle, ReasoningSyntax, ToolPrompt, WorkedExample

_THINK = ReasoningSyntax(open="<think>", close="</think>")
_TOOL_CALL_TAGS = CallSyntax(
    open="<tool_call>", close="</tool_call>", grammar="json", open_pad="\n", close_pad="\n", separator="\n"
)

GENERIC = "generic"

# google/gemma-4-31B-it of 2026-07-09 and gemma-4-E2B-it
_GEMMA4 = Family(
    name="gemma4",
    call=CallSyntax(open="<|tool_call>", close="<tool_call|>", grammar="gemma", stray_close="control"),
    reasoning=ReasoningSyntax(
        open="<|channel>",
        close="<channel|>",
        anywhere=True,
        labels=("thought",),
        content_labels=("response",),
        stray_close="control",
    ),
    stop_markers=("<turn|>", "<|tool_response>", "<eos>"),
    control_markers=("<|turn>", "<tool_response|>", "<|think|>"),
    evidence=("<|tool_call>", "call:", "<|turn>", "preserve_thinking"),
    content_before_calls=False,
    failed_result_role="user",
    quirks=("a string that holds its own delimiter cannot be read back", "a colon in a key cannot be read back"),
)

# Qwen/Qwen2.5-7B-Instruct, Qwen3-0.6B, QwQ-32B, NousResearch/Hermes-2-Pro
_HERMES = Family(
    name="hermes",
    call=_TOOL_CALL_TAGS,
    reasoning=_THINK,
    stop_markers=("<|im_end|>", "<|endoftext|>"),
    control_markers=("<|im_start|>",),
    evidence=("<tool_call>", "</tool_call>", '"arguments"', "<|im_start|>"),
    counter_evidence=("<function=", "<arg_key>", "<invoke", "<param name=", "<tool_calls>", "<tool_sep>"),
)

# models whose template knows no tools: daneel tells them how to call, and reads an array, the tags, or bare and fenced JSON
_GENERIC = Family(name=GENERIC, call=_TOOL_CALL_TAGS, reasoning=_THINK, result_style="plain", text_calls="array")

_SHORT_TOOL_PROMPT = """You can call these tools:
{tools}

To call tools, reply only with a JSON array:
[{{"name": "<tool name>", "arguments": {{}}}}]"""
_EXAMPLE = WorkedExample(
    "How is the weather and how many people live here?",
    (("get_weather", "Get the weather", "sunny, 21 C"), ("get_population", "Get the population", "709037")),
    "The weather is sunny, 21 C, and 709037 people live here.",
)

_OVERCALLS = "behind its worked example it calls every tool that it is shown, whatever is asked"

# Qwen2.5 up to 3B, Coder too: seen to write bare JSON whatever the template asks, to call one tool where two are needed unless
# asked for an array, and to call again instead of answering when results come back in tags (docs/log.md). Sampling:
# generation_config.json of Qwen/Qwen2.5-Coder-1.5B-Instruct without its repetition penalty, as the trials were run
_QWEN_ARRAY = replace(
    _HERMES,
    variant="array",
    evidence=(*_HERMES.evidence, "created by Alibaba Cloud"),
    counter_evidence=(*_HERMES.counter_evidence, "<think>"),
    max_parameters=4_000_000_000,
    tool_prompt=ToolPrompt(
        preferred=True, default_system="You are Qwen, created by Alibaba Cloud. You are a helpful assistant."
    ),
    text_calls="array",
    result_style="plain",
    sampling={"temperature": 0.7, "top_p": 0.8, "top_k": 20},
)

# the 0.5B of it cannot write an array unless it is shown one, nor answer unless it is shown an answer
_QWEN_EXAMPLE = replace(
    _QWEN_ARRAY,
    variant="example",
    max_parameters=1_000_000_000,
    tool_prompt=replace(_QWEN_ARRAY.tool_prompt, text=_SHORT_TOOL_PROMPT, examples=(_EXAMPLE,)),
    plain=PlainStyle(
        text="Tool results:\n{results}\n\nAnswer the question with a full sentence, using all these results: {question}"
    ),
    quirks=(_OVERCALLS,),
)

_ROWS = (
    _GEMMA4,
    # the template of the first google/gemma-4-31B-it opens no turn behind an assistant message unless its role is "model"
    replace(
        _GEMMA4,
        variant="first-template",
        evidence=("<|tool_call>", "call:", "<|turn>"),
        counter_evidence=(),
        split_role="model",
    ),
    _QWEN_EXAMPLE,
    _QWEN_ARRAY,
    _HERMES,
    # HuggingFaceTB/SmolLM2-135M-Instruct: calls only behind a worked example, answers when question and results are one
    # message. Sampling: the model's card
    replace(
        _GENERIC,
        variant="example",
        evidence=("named SmolLM, trained by Hugging Face",),
        tool_prompt=ToolPrompt(
            text=_SHORT_TOOL_PROMPT,
            default_system="You are a helpful AI assistant named SmolLM, trained by Hugging Face",
            examples=(replace(_EXAMPLE, answer=None),),
            examples_until_results=True,
        ),
        plain=PlainStyle(text="{question}\n\nTool results:\n{results}", merged=True),
        sampling={"temperature": 0.2, "top_p": 0.9},
        quirks=(_OVERCALLS,),
    ),
    _GENERIC,
)

FAMILIES: dict[str, Family] = {family.name: family for family in _ROWS if not family.variant}
"""The families as they are, by name, in the order of detection."""


def get(name: str) -> Family:
    """The family called `name`, or its variant `name/variant`. `UserError` lists the names there are."""
    named = {family.full_name: family for family in _ROWS}
    if name not in named:
        raise UserError(f"no format is called {name!r}; there are: {', '.join(sorted(named))}")
    return named[name]


def detect(template: str | None, *, num_parameters: int | None = None) -> Family:
    """The row whose evidence the chat template holds; the generic family when there is none.

    `num_parameters` of the model, if known: small models of some families are best served in a way of their own.
    """
    for family in _ROWS:
        small_enough = family.max_parameters is None or (num_parameters or sys.maxsize) <= family.max_parameters
        if template and family.evidence and small_enough and _fits(template, family):
            return family
    return FAMILIES[GENERIC]


def _fits(template: str, family: Family) -> bool:
    return all(text in template for text in family.evidence) and not any(text in template for text in family.counter_evidence)
