"""Families whose calls are JSON without markers, or nearly so."""

from __future__ import annotations

from dataclasses import replace

from daneel.formats.either_args import EitherGrammar
from daneel.formats.families.hermes import CHATML_HEADER, THINK, TOOL_CALL_TAGS
from daneel.formats.families.pythonic import LLAMA3_HEADER, LLAMA3_STOPS, LLAMA4_HEADER, LLAMA4_STOPS
from daneel.formats.family import Family
from daneel.formats.json_args import CallKeys, JsonGrammar
from daneel.formats.named_json import NamedJsonGrammar
from daneel.formats.python_args import MethodGrammar
from daneel.formats.strict_json import BareJsonGrammar, BegunTagGrammar
from daneel.formats.syntax import CallSyntax

_ARRAY = ("[", ", ", "]")

_FUNCTION_TAG = NamedJsonGrammar(
    written="<function={name}>{arguments}</function>", heads=("<function={name}>",), ends=("</function>",)
)
_BEGUN_TAG = BegunTagGrammar(written=_FUNCTION_TAG.written, heads=_FUNCTION_TAG.heads, ends=_FUNCTION_TAG.ends)

# Llama 3's key is "parameters"; models write "arguments" as well
_PARAMETERS = CallKeys(arguments=("parameters", "arguments"))
_WRITTEN = '{"name": {name}, "parameters": {arguments}}'
_LLAMA_JSON = JsonGrammar(keys=_PARAMETERS, written=_WRITTEN, slack="")

# meta-llama/Llama-3.1-8B-Instruct, Llama-3.2-3B-Instruct, and vLLM's templates for them. Several calls are separated by "; ";
# tools of Meta's own are called as `brave_search.call(query="x")` behind the marker
_LLAMA3 = Family(
    name="llama3-json",
    aliases=("llama3", "llama3.1", "llama3.2", "llama3.3"),
    call=CallSyntax(
        open="",
        close="",
        grammar=EitherGrammar(EitherGrammar(_LLAMA_JSON, _FUNCTION_TAG), MethodGrammar()),
        separator="; ",
        also_open=("<|python_tag|>",),
        body_opens=("<function=",),
        body_opens_anywhere=True,
        unmarked=_BEGUN_TAG,
        body_closes=("</function>",),
        bare=BareJsonGrammar(keys=_PARAMETERS, written=_WRITTEN, slack=""),
    ),
    stop_markers=LLAMA3_STOPS,
    control_markers=LLAMA3_HEADER,
    evidence=("<|start_header_id|>", '"parameters"', "ipython"),
    quirks=("the templates render one call of a turn at most",),
)

ROWS: tuple[Family, ...] = (
    # meetkai/functionary-medium-v3.1
    Family(
        name="functionary-v3.1",
        call=CallSyntax(
            open="",
            close="",
            grammar=_FUNCTION_TAG,
            body_opens=("<function=",),
            body_opens_anywhere=True,
            unmarked=_BEGUN_TAG,
            body_closes=("</function>",),
        ),
        stop_markers=LLAMA3_STOPS,
        control_markers=LLAMA3_HEADER,
        evidence=("<function=", "<|start_header_id|>", "</function>"),
        counter_evidence=(">>>", "<parameter="),
    ),
    # Salesforce/Llama-xLAM-2-8b-fc-r and xLAM-2-32b-fc-r (Qwen). Seen to write a fence, Mistral's marker and hermes's tags
    Family(
        name="xlam",
        call=CallSyntax(
            open="",
            close="",
            grammar=JsonGrammar(joints=_ARRAY, slack=""),
            also_open=("[TOOL_CALLS]", "<tool_call>"),
            also_close=("</tool_call>",),
            bare=BareJsonGrammar(joints=_ARRAY, slack=""),
            fenced=True,
        ),
        reasoning=THINK,
        stop_markers=(*LLAMA3_STOPS, "<|im_end|>", "<|endoftext|>"),
        control_markers=(*LLAMA3_HEADER, *CHATML_HEADER),
        evidence=("xLAM",),
        quirks=("the template drops the content of a turn that calls",),
    ),
    # microsoft/Phi-4-mini-instruct with vLLM's tool_chat_template_phi4_mini; the model's card has other markers
    Family(
        name="phi4-mini",
        call=CallSyntax(
            open="functools",
            close="",
            grammar=JsonGrammar(joints=_ARRAY, slack=""),
            also_open=("<|tool_call|>",),
            also_close=("<|/tool_call|>",),
        ),
        stop_markers=("<|end|>", "<|endoftext|>"),
        control_markers=("<|assistant|>",),
        evidence=("functools[", "<|system|>"),
        quirks=("the template writes past calls without the marker, their arguments not as JSON",),
    ),
    # fireworks-ai/llama-3-firefunction-v2
    Family(
        name="firefunction-v2",
        call=CallSyntax(open="functools", close="", grammar=JsonGrammar(joints=_ARRAY, slack="")),
        stop_markers=LLAMA3_STOPS,
        control_markers=LLAMA3_HEADER,
        evidence=("functools[", "<|start_header_id|>"),
        quirks=("the template takes the tools as text, in the variable functions",),
    ),
    # HuggingFaceTB/SmolLM3-3B
    Family(
        name="smollm3",
        call=TOOL_CALL_TAGS,
        reasoning=THINK,
        stop_markers=("<|im_end|>",),
        control_markers=CHATML_HEADER,
        evidence=("Reasoning Mode: ", "SmolLM"),
        quirks=("the template has no words for calls",),
    ),
    _LLAMA3,
    # vLLM's tool_chat_template_llama4_json
    replace(
        _LLAMA3,
        name="llama4-json",
        aliases=("llama4",),
        stop_markers=LLAMA4_STOPS,
        control_markers=LLAMA4_HEADER,
        evidence=("<|header_start|>", '"parameters"'),
        quirks=("a call that the template writes behind content cannot be told from JSON in the content",),
    ),
)
