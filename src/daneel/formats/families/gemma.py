"""The families of Google's Gemma."""

from __future__ import annotations

from dataclasses import replace

from daneel.formats.families.hermes import TOOL_CALL_TAGS
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
    control_markers=("<|turn>model\n", "<|turn>", "<tool_response|>", "<|think|>"),
    evidence=("<|tool_call>", "call:", "<|turn>", "preserve_thinking"),
    quirks=("a string that holds its own delimiter cannot be read back", "a colon in a key cannot be read back"),
)

# google/functiongemma-270m-it, and vLLM's template for it, which delimits every value
_FUNCTIONGEMMA = Family(
    name="functiongemma",
    call=CallSyntax(
        open="<start_function_call>",
        close="<end_function_call>",
        grammar=GemmaGrammar(delimiter="<escape>", sorted_keys=False, delimits_all=True),
        stray_close="control",
    ),
    stop_markers=("<end_of_turn>", "<start_function_response>", "<eos>"),
    control_markers=("<start_of_turn>model\n", "<start_of_turn>", "<end_function_response>"),
    evidence=("<start_function_call>", "call:"),
    quirks=(
        "a string that holds its own delimiter cannot be read back",
        "a template that delimits every value leaves the types to the schema",
        "a template that writes a message's calls leaves out its content",
    ),
)

# google/gemma-2-2b-it, and others of Gemma whose template knows no tools
_GEMMA2 = Family(
    name="gemma2",
    aliases=("gemma2 (no tools)", "gemma", "gemma3"),
    call=TOOL_CALL_TAGS,
    stop_markers=("<end_of_turn>", "<eos>"),
    control_markers=("<start_of_turn>model\n", "<start_of_turn>"),
    evidence=("<start_of_turn>", "<end_of_turn>"),
    counter_evidence=("tool",),
    result_style="plain",
    text_calls="array",
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
    _FUNCTIONGEMMA,
    _GEMMA2,
)
