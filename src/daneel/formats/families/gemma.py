"""The families of Google's Gemma."""

from __future__ import annotations

from dataclasses import replace

from daneel.formats.family import Family
from daneel.formats.gemma_args import GemmaGrammar
from daneel.formats.syntax import CallSyntax, ReasoningSyntax

# google/gemma-4-31B-it of 2026-07-09 and gemma-4-E2B-it
_GEMMA4 = Family(
    name="gemma4",
    call=CallSyntax(open="<|tool_call>", close="<tool_call|>", grammar=GemmaGrammar(), stray_close="control"),
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

ROWS: tuple[Family, ...] = (
    _GEMMA4,
    # the template of the first google/gemma-4-31B-it opens no turn behind an assistant message unless its role is "model"
    replace(
        _GEMMA4,
        variant="first-template",
        evidence=("<|tool_call>", "call:", "<|turn>"),
        counter_evidence=(),
        split_role="model",
    ),
)
