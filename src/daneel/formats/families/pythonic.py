"""Families whose calls are written as Python calls."""

from __future__ import annotations

from daneel.formats.either_args import EitherGrammar
from daneel.formats.families.hermes import CHATML_HEADER, THINK
from daneel.formats.family import Family
from daneel.formats.json_args import JsonGrammar
from daneel.formats.python_args import BarePythonGrammar, PythonGrammar
from daneel.formats.syntax import CallSyntax

LLAMA3_STOPS = ("<|eot_id|>", "<|eom_id|>", "<|end_of_text|>")
LLAMA3_HEADER = ("<|start_header_id|>assistant<|end_header_id|>",)
LLAMA4_STOPS = ("<|eot|>", "<|eom|>", "<|end_of_text|>")
LLAMA4_HEADER = ("<|header_start|>assistant<|header_end|>",)

_ASKED_FOR = "[func_name1(params_name1=params_value1"
"""How templates for these models show what a call looks like."""

_LOSSY = "the template writes past calls without the quotes of strings, or all values in quotes: they are not what was called"

ROWS: tuple[Family, ...] = (
    # LiquidAI/LFM2-8B-A1B, LFM2.5. Seen to write JSON between its markers as well
    Family(
        name="lfm2",
        aliases=("lfm2.5",),
        call=CallSyntax(
            open="<|tool_call_start|>",
            close="<|tool_call_end|>",
            grammar=EitherGrammar(PythonGrammar(), JsonGrammar(joints=("[", ", ", "]"), slack="")),
            stray_close="control",
        ),
        reasoning=THINK,
        stop_markers=("<|im_end|>", "<|endoftext|>"),
        control_markers=CHATML_HEADER,
        evidence=("List of tools: ", "<|im_start|>", "<|im_end|>"),
        counter_evidence=("<tool_call>",),
        quirks=("the templates of LFM2 and LFM2.5-Instruct have no words for calls", "a quote inside a string is not escaped"),
    ),
    # allenai/Olmo-3-7B-Think and Instruct: one call on each line
    Family(
        name="olmo3",
        call=CallSyntax(open="<function_calls>", close="</function_calls>", grammar=PythonGrammar(in_list=False)),
        reasoning=THINK,
        stop_markers=("<|im_end|>", "<|endoftext|>"),
        control_markers=CHATML_HEADER,
        evidence=("<function_calls>", "environment", "<|im_start|>"),
        counter_evidence=("<invoke",),
    ),
    # vLLM's tool_chat_template_gemma3_pythonic
    Family(
        name="gemma3-pythonic",
        call=CallSyntax(open="", close="", grammar=PythonGrammar(json_words=True), bare=BarePythonGrammar(json_words=True)),
        stop_markers=("<end_of_turn>", "<eos>"),
        control_markers=("<start_of_turn>model\n", "<start_of_turn>"),
        evidence=("<start_of_turn>", "python list of the function calls"),
        quirks=("the template leaves out the commas between the arguments of past calls, and writes content behind calls",),
    ),
    # vLLM's tool_chat_template_llama4_pythonic; Llama 4 itself writes the markers, or not
    Family(
        name="llama4-pythonic",
        call=CallSyntax(
            open="<|python_start|>",
            close="<|python_end|>",
            grammar=PythonGrammar(),
            stray_close="control",
            bare=BarePythonGrammar(),
        ),
        stop_markers=LLAMA4_STOPS,
        control_markers=LLAMA4_HEADER,
        evidence=("<|header_start|>", _ASKED_FOR),
        quirks=(_LOSSY,),
    ),
    # vLLM's tool_chat_template_llama3.2_pythonic and tool_chat_template_toolace
    Family(
        name="pythonic",
        aliases=("pythonic (llama3.2/toolace)", "llama3.2-pythonic", "toolace"),
        call=CallSyntax(open="", close="", grammar=PythonGrammar(), also_open=("<|python_tag|>",), bare=BarePythonGrammar()),
        stop_markers=LLAMA3_STOPS,
        control_markers=LLAMA3_HEADER,
        evidence=(_ASKED_FOR,),
        quirks=(_LOSSY,),
    ),
)
