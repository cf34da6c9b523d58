"""The families daneel knows, and which of them a chat template belongs to.

Each row is read off the family's own chat templates; what a field means stands in `family.py`. Evidence is looked for in
the order of the table, so a family whose markers are part of another's stands above it.
"""

from __future__ import annotations

from dataclasses import replace

from daneel.errors import UserError
from daneel.formats.family import Family
from daneel.formats.syntax import CallSyntax, ReasoningSyntax

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

_ROWS = (
    _GEMMA4,
    # the template of the first google/gemma-4-31B-it opens no turn behind an assistant message unless its role is "model"
    replace(_GEMMA4, evidence=("<|tool_call>", "call:", "<|turn>"), counter_evidence=(), split_role="model"),
    # Qwen/Qwen2.5-7B-Instruct, Qwen3-0.6B, QwQ-32B, NousResearch/Hermes-2-Pro
    Family(
        name="hermes",
        call=_TOOL_CALL_TAGS,
        reasoning=_THINK,
        stop_markers=("<|im_end|>", "<|endoftext|>"),
        control_markers=("<|im_start|>",),
        evidence=("<tool_call>", "</tool_call>", '"arguments"', "<|im_start|>"),
        counter_evidence=("<function=", "<arg_key>", "<invoke", "<param name=", "<tool_calls>", "<tool_sep>"),
    ),
    # models whose template knows no tools: daneel tells them how to call, and reads the tags or bare and fenced JSON
    Family(name=GENERIC, call=_TOOL_CALL_TAGS, reasoning=_THINK, result_style="plain", text_calls="array"),
)

FAMILIES: dict[str, Family] = {family.name: family for family in reversed(_ROWS)}
"""By name; where a name has several rows, which differ in how the template must be served, the first."""


def get(name: str) -> Family:
    """The family called `name`. `UserError` lists the names there are."""
    family = FAMILIES.get(name)
    if family is None:
        raise UserError(f"no format is called {name!r}; there are: {', '.join(sorted(FAMILIES))}")
    return family


def detect(template: str | None) -> Family:
    """The family whose evidence the chat template holds; the generic one when there is none."""
    for family in _ROWS:
        if (
            template
            and family.evidence
            and all(text in template for text in family.evidence)
            and not any(text in template for text in family.counter_evidence)
        ):
            return family
    return FAMILIES[GENERIC]
