"""The hermes family: JSON objects in `<tool_call>` tags, as NousResearch's Hermes and Qwen write them."""

from __future__ import annotations

from dataclasses import replace

from daneel.formats.either_args import EitherGrammar
from daneel.formats.families.worked_example import EXAMPLE, OVERCALLS, SHORT_TOOL_PROMPT
from daneel.formats.family import Family
from daneel.formats.json_args import JsonGrammar
from daneel.formats.syntax import CallSyntax, PlainStyle, ReasoningSyntax, ToolPrompt
from daneel.formats.xml_args import XmlGrammar

CHATML_HEADER = ("<|im_start|>assistant\n", "<|im_start|>")
"""How a turn of the model begins in ChatML, should the model write it itself."""

THINK = ReasoningSyntax(open="<think>", close="</think>")
TOOL_CALL_TAGS = CallSyntax(
    open="<tool_call>",
    close="</tool_call>",
    grammar=EitherGrammar(JsonGrammar(), XmlGrammar()),
    open_pad="\n",
    close_pad="\n",
    separator="\n",
)
"""Models of these families are seen to write the XML of their younger relatives between the tags as well."""

# Qwen/Qwen2.5-7B-Instruct, Qwen3-0.6B, QwQ-32B, XiaomiMiMo/MiMo-VL-7B-RL, NousResearch/Hermes-2-Pro
_HERMES = Family(
    name="hermes",
    aliases=("qwen2.5-hermes", "qwen3-hermes", "qwen3-vl (hermes)", "qwq (hermes)", "qwen2.5", "qwen3", "qwq", "mimo"),
    call=TOOL_CALL_TAGS,
    reasoning=THINK,
    stop_markers=("<|im_end|>", "<|endoftext|>"),
    control_markers=CHATML_HEADER,
    evidence=("<tool_call>", "</tool_call>", '"arguments"', "<|im_start|>"),
    counter_evidence=("<function=", "<arg_key>", "<invoke", "<param name=", "<tool_calls>", "<tool_sep>"),
)

# Qwen2.5 up to 3B, Coder too: seen to write bare JSON whatever the template asks, to call one tool where two are needed unless
# asked for an array, and to call again instead of answering when results come back in tags (docs/log.md). Sampling:
# generation_config.json of Qwen/Qwen2.5-Coder-1.5B-Instruct without its repetition penalty, as the trials were run
_QWEN_ARRAY = replace(
    _HERMES,
    variant="array",
    aliases=(),
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
    tool_prompt=replace(_QWEN_ARRAY.tool_prompt, text=SHORT_TOOL_PROMPT, examples=(EXAMPLE,)),
    plain=PlainStyle(
        text="Tool results:\n{results}\n\nAnswer the question with a full sentence, using all these results: {question}"
    ),
    quirks=(OVERCALLS,),
)

ROWS: tuple[Family, ...] = (_QWEN_EXAMPLE, _QWEN_ARRAY, _HERMES)
