"""Families whose calls are JSON between markers of their own."""

from __future__ import annotations

from dataclasses import replace

from daneel.formats.families.hermes import CHATML_HEADER, THINK, TOOL_CALL_TAGS
from daneel.formats.family import Family
from daneel.formats.json_args import CallKeys, JsonGrammar
from daneel.formats.syntax import CallSyntax, ReasoningSyntax

_COMMA = ("[", ", ", "]")
_ARRAY = JsonGrammar(joints=_COMMA, slack="}]")
_UNENDED_ARRAY = JsonGrammar(joints=_COMMA, slack="")
"""For calls that nothing closes."""

_GRANITE_HEADER = ("<|start_of_role|>assistant<|end_of_role|>", "<|start_of_role|>", "<|end_of_role|>")

# swiss-ai/Apertus-8B-Instruct-2509
_APERTUS = Family(
    name="apertus",
    call=CallSyntax(
        open="<|tools_prefix|>",
        close="<|tools_suffix|>",
        grammar=JsonGrammar(keys=CallKeys(name_is_key=True), written="{{name}: {arguments}}", joints=_COMMA, slack="}]"),
        stray_close="control",
    ),
    reasoning=ReasoningSyntax(open="<|inner_prefix|>", close="<|inner_suffix|>", anywhere=True, stray_close="control"),
    stop_markers=("<|assistant_end|>",),
    control_markers=("<|assistant_start|>",),
    evidence=("<|tools_prefix|>", "<|inner_prefix|>"),
    quirks=("reasoning goes back only in the family's own message blocks",),
)

# ibm-granite/granite-3.3-2b-instruct, and the template for 3.0 and 3.1 that vLLM carries. Reasoning of 3.2 is spelled in
# sentences, of 3.3 in tags
_GRANITE3 = Family(
    name="granite3",
    call=CallSyntax(open="<|tool_call|>", close="", grammar=_UNENDED_ARRAY, stray_close="control", also_open=("<tool_call>",)),
    reasoning=ReasoningSyntax(
        open="<think>",
        close="</think>",
        also_open=("Here is my thought process:", "Here's my thought process:"),
        also_close=("Here is my response:", "Here's my response:"),
    ),
    stop_markers=("<|end_of_text|>",),
    control_markers=(*_GRANITE_HEADER, "<response>", "</response>", "</tool_call>"),
    evidence=("<|tool_call|>", "<|start_of_role|>"),
    quirks=("the template of 3.3 has no words for calls",),
)

# ibm-granite/granite-4.0-h-small and 4.1: hermes's calls in Granite's turns
_GRANITE4 = Family(
    name="granite4",
    aliases=("granite4.1",),
    call=TOOL_CALL_TAGS,
    reasoning=THINK,
    stop_markers=("<|end_of_text|>",),
    control_markers=_GRANITE_HEADER,
    evidence=("<tool_call>", "</tool_call>", "<|start_of_role|>"),
    counter_evidence=("<function=", "<arg_key>"),
)

# ibm-granite/granite-20b-functioncalling, by the template that vLLM carries
_GRANITE_20B = Family(
    name="granite-20b-fc",
    call=CallSyntax(open="<function_call>", close="", grammar=JsonGrammar(slack=""), open_pad=" ", separator="\n"),
    stop_markers=("<|endoftext|>",),
    control_markers=("<function_response>",),
    evidence=("<function_call> ", "<function_response>"),
)

# CohereLabs/c4ai-command-r7b-12-2024 and command-a-03-2025: ids count from 0 in every turn. Citations (<co>) stay in the text
_COHERE = Family(
    name="command-r7b",
    aliases=("command-r7b/a (cohere3)", "cohere3", "command-a"),
    call=CallSyntax(
        open="<|START_ACTION|>",
        close="<|END_ACTION|>",
        grammar=JsonGrammar(
            keys=CallKeys(names=("tool_name", "name"), arguments=("parameters", "arguments"), ids=("tool_call_id", "id")),
            written='{"tool_call_id": "{id}", "tool_name": {name}, "parameters": {arguments}}',
            joints=("[\n    ", ",\n    ", "\n]"),
            slack="}]",
        ),
        stray_close="control",
    ),
    reasoning=ReasoningSyntax(open="<|START_THINKING|>", close="<|END_THINKING|>", anywhere=True, stray_close="control"),
    stop_markers=("<|END_OF_TURN_TOKEN|>",),
    control_markers=(
        "<|START_RESPONSE|>",
        "<|END_RESPONSE|>",
        "<|START_TEXT|>",
        "<|END_TEXT|>",
        "<|START_OF_TURN_TOKEN|>",
        "<|CHATBOT_TOKEN|>",
        "<|END_RESPONSE_TOKEN|>",
    ),
    evidence=("<|START_ACTION|>",),
    counter_evidence=("<|START_TEXT|>",),
    quirks=("citations stay in the text as the model writes them",),
)

# the successors (Cohere2 MoE) open the reasoning in the prompt, and write their answer as text
_COHERE4 = replace(
    _COHERE,
    name="command4",
    aliases=("command4 (cohere4)", "cohere4"),
    evidence=("<|START_ACTION|>", "<|START_TEXT|>"),
    counter_evidence=(),
)

# CohereLabs/c4ai-command-r-plus: a heading and a fence
_COMMAND_R_PLUS = Family(
    name="command-r-plus",
    call=CallSyntax(
        open="Action:\n```json",
        close="```",
        grammar=_COHERE.call.grammar,
        open_pad="\n",
        close_pad="\n",
        also_open=("Action: ```json",),
    ),
    stop_markers=("<|END_OF_TURN_TOKEN|>",),
    control_markers=("<|START_OF_TURN_TOKEN|>", "<|CHATBOT_TOKEN|>"),
    evidence=("Action:", "directly-answer", "<|CHATBOT_TOKEN|>"),
    quirks=("its tool directly-answer, which means no call, comes out as a call to an undeclared tool",),
)

# nvidia/NVIDIA-Nemotron-Nano-9B-v2
_NEMOTRON_NANO_V2 = Family(
    name="nemotron-nano-v2",
    call=CallSyntax(open="<TOOLCALL>", close="</TOOLCALL>", grammar=_ARRAY),
    reasoning=THINK,
    stop_markers=("<SPECIAL_12>", "</s>"),
    control_markers=("<SPECIAL_10>", "<SPECIAL_11>Assistant\n", "<SPECIAL_11>"),
    evidence=("<TOOLCALL>", "<SPECIAL_11>"),
)

# ai21labs/AI21-Jamba-1.5
_JAMBA = Family(
    name="jamba",
    call=CallSyntax(open="<tool_calls>", close="</tool_calls>", grammar=_ARRAY),
    stop_markers=("<|eom|>", "<|endoftext|>"),
    control_markers=("<|bom|>",),
    evidence=("<tool_calls>", "<|bom|>"),
)

# ServiceNow-AI/Apriel-1.5-15b-Thinker and 1.6: the reasoning begins with a sentence, which 1.6 puts into the prompt
_APRIEL = Family(
    name="apriel",
    call=CallSyntax(
        open="<tool_calls>",
        close="</tool_calls>",
        grammar=JsonGrammar(written='{"name": {name}, "arguments": {arguments}, "id": "{id}"}', joints=_COMMA, slack="}]"),
    ),
    reasoning=ReasoningSyntax(open="Here are my reasoning steps:", close="[BEGIN FINAL RESPONSE]", stray_close="control"),
    stop_markers=("<|end|>", "</s>"),
    control_markers=("[END FINAL RESPONSE]", "<|begin_assistant|>", "<|assistant|>"),
    evidence=("<tool_calls>", "[BEGIN FINAL RESPONSE]"),
    quirks=("the template writes arguments given as an object in Python's words, given as text in quotes",),
)

# baidu/ERNIE-4.5-21B-A3B-Thinking: hermes's calls, the answer in tags of its own
_ERNIE = Family(
    name="ernie4.5",
    call=TOOL_CALL_TAGS,
    reasoning=THINK,
    stop_markers=("</s>", "<|im_end|>"),
    control_markers=(*CHATML_HEADER, "<response>", "</response>"),
    evidence=("<tool_call>", "</tool_call>", "<response>", "<|im_start|>"),
)

# RekaAI/reka-edge: hermes's calls, turns that end in <sep>
_REKA = Family(
    name="reka-edge",
    call=replace(TOOL_CALL_TAGS, separator=""),
    reasoning=THINK,
    stop_markers=("<sep>",),
    evidence=("<tool_call>", "</tool_call>", "<sep>"),
)

# speakleash/Bielik-11B-v3.0-Instruct: hermes's calls, results behind a token of their own
_BIELIK = Family(
    name="bielik",
    call=TOOL_CALL_TAGS,
    reasoning=THINK,
    stop_markers=("<|im_end|>", "</s>"),
    control_markers=(*CHATML_HEADER, "<|function_output|>"),
    evidence=("<tool_call>", "</tool_call>", "<|function_output|>"),
)

# internlm/internlm2_5-7b-chat, by the template that vLLM carries
_INTERNLM2 = Family(
    name="internlm2",
    call=CallSyntax(
        open="<|action_start|><|plugin|>",
        close="<|action_end|>",
        grammar=JsonGrammar(),
        open_pad="\n",
        stray_close="control",
        also_open=("<|action_start|>",),
    ),
    stop_markers=("<|im_end|>", "</s>"),
    control_markers=CHATML_HEADER,
    evidence=("<|action_start|><|plugin|>", "<|action_end|>"),
)

# ai-sage/GigaChat3-10B-A1.8B: a call is a message of its own; 3.1 has a token for it
_GIGACHAT3 = Family(
    name="gigachat3",
    call=CallSyntax(
        open="<|message_sep|>\n\nfunction call<|role_sep|>",
        close="",
        grammar=JsonGrammar(slack=""),
        open_pad="\n",
        also_open=("<|function_call|>",),
    ),
    stop_markers=("<|message_sep|>", "</s>"),
    control_markers=("<|message_sep|>\n\nassistant<|role_sep|>\n", "assistant<|role_sep|>\n", "<|role_sep|>"),
    evidence=("`function call`", "<|message_sep|>"),
    counter_evidence=("<|function_call|>",),
)
_GIGACHAT31 = replace(
    _GIGACHAT3,
    name="gigachat3.1",
    call=replace(
        _GIGACHAT3.call, open="<|function_call|>", open_pad="", also_open=("<|message_sep|>\n\nfunction call<|role_sep|>",)
    ),
    evidence=("<|function_call|>", "<|message_sep|>"),
    counter_evidence=(),
)

ROWS: tuple[Family, ...] = (
    _APERTUS,
    _GRANITE3,
    _GRANITE4,
    _GRANITE_20B,
    _COHERE4,
    _COHERE,
    _COMMAND_R_PLUS,
    _NEMOTRON_NANO_V2,
    _APRIEL,
    _JAMBA,
    _ERNIE,
    _REKA,
    _BIELIK,
    _INTERNLM2,
    _GIGACHAT31,
    _GIGACHAT3,
)
