"""Families whose calls are `<function=NAME>` with a `<parameter=KEY>` for each argument."""

from __future__ import annotations

from dataclasses import replace

from daneel.formats.either_args import EitherGrammar
from daneel.formats.families.hermes import CHATML_HEADER, THINK
from daneel.formats.family import Family
from daneel.formats.json_args import JsonGrammar
from daneel.formats.syntax import CallSyntax, ReasoningSyntax
from daneel.formats.xml_args import XmlGrammar
from daneel.formats.xml_scan import FUNCTION

_UNMARKED = "a text argument that holds the end of a whole call cannot be read back"
_TAGS = ("<tool_call>", "<function=", "<parameter=", "<|im_start|>")


def _call(grammar: XmlGrammar, separator: str = "\n") -> CallSyntax:
    """Models of this kind often leave out the opening marker, and some write JSON between the markers, as their elders did."""
    return CallSyntax(
        open=grammar.open,
        close=grammar.close,
        grammar=EitherGrammar(grammar, JsonGrammar()),
        open_pad="\n",
        close_pad="\n",
        separator=separator,
        body_opens=(FUNCTION,),
        body_opens_anywhere=True,
        unmarked=replace(grammar, sure=True),
    )


# Qwen/Qwen3-Coder-30B-A3B-Instruct
_QWEN3_CODER = Family(
    name="qwen3-coder",
    aliases=("qwen3-coder-xml",),
    call=_call(XmlGrammar()),
    reasoning=THINK,
    stop_markers=("<|im_end|>", "<|endoftext|>"),
    control_markers=CHATML_HEADER,
    evidence=_TAGS,
    quirks=(_UNMARKED,),
)

# Qwen/Qwen3.5-4B: the prompt opens the reasoning
_QWEN35 = replace(_QWEN3_CODER, name="qwen3.5", aliases=("qwen3.5 (xml)",), evidence=(*_TAGS, "<think>"))

# Qwen3.8: scalars are written as JSON, and reasoning of earlier turns is kept
_QWEN38 = replace(
    _QWEN35,
    name="qwen3.8",
    aliases=(),
    call=_call(XmlGrammar(values="json")),
    evidence=(*_TAGS, "<think>", "resolved_reasoning_effort"),
)

# nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16, Nemotron 3.5
_NEMOTRON3 = replace(
    _QWEN35,
    name="nemotron3",
    aliases=("nemotron-v3", "nemotron-v3.5"),
    evidence=(*_TAGS, "<think></think>", "truncate_history_thinking"),
)

# stepfun-ai/Step-3.5-Flash: the prompt always opens the reasoning
_STEP35 = replace(
    _QWEN35,
    name="step3.5",
    aliases=(),
    call=_call(XmlGrammar(), separator=""),
    evidence=(*_TAGS, "<|im_start|>tool_response"),
)

# ByteDance-Seed/Seed-OSS-36B-Instruct
_SEED_OSS = Family(
    name="seed-oss",
    call=_call(XmlGrammar(open="<seed:tool_call>", close="</seed:tool_call>", value_pad="", values="python")),
    reasoning=ReasoningSyntax(open="<seed:think>", close="</seed:think>"),
    stop_markers=("<seed:eos>",),
    control_markers=("<seed:bos>assistant\n", "<seed:bos>", "<seed:pad>"),
    evidence=("<seed:tool_call>", "<function=", "<seed:think>"),
    quirks=(_UNMARKED,),
)

ROWS: tuple[Family, ...] = (_SEED_OSS, _STEP35, _NEMOTRON3, _QWEN38, _QWEN35, _QWEN3_CODER)
