"""Families whose calls are `<invoke name="NAME">` blocks, and their relatives."""

from __future__ import annotations

from dataclasses import replace

from daneel.formats.families.hermes import CHATML_HEADER, THINK
from daneel.formats.family import Family
from daneel.formats.invoke_args import InvokeGrammar
from daneel.formats.invoke_tags import InvokeTags
from daneel.formats.nested_tags import NestedTagGrammar
from daneel.formats.syntax import CallSyntax, ReasoningSyntax

_DELIMITER_QUIRK = "a string in which tags of parameters open or close without their partner cannot be read back"

_M2_GRAMMAR = InvokeGrammar(InvokeTags(ended_by=("</minimax:tool_call>", "<invoke name=")))

# MiniMaxAI/MiniMax-M2
_MINIMAX_M2 = Family(
    name="minimax-m2",
    aliases=("minimax",),
    call=CallSyntax(
        open="<minimax:tool_call>",
        close="</minimax:tool_call>",
        grammar=_M2_GRAMMAR,
        open_pad="\n",
        close_pad="\n",
        separator="\n",
        stray_close="control",
        shared=True,
        body_opens=("<invoke name=",),
        body_opens_anywhere=True,
        unmarked=replace(_M2_GRAMMAR, sure=True),
    ),
    reasoning=THINK,
    stop_markers=("[e~[",),
    control_markers=("]~b]ai\n", "]~b]", "]~!b["),
    evidence=("<minimax:tool_call>", "<invoke name="),
    result_text="<response>{value}</response>",
    quirks=(_DELIMITER_QUIRK,),
)

_M3_PREFIX = "]<]minimax[>["

# MiniMaxAI/MiniMax-M3
_MINIMAX_M3 = Family(
    name="minimax-m3",
    call=CallSyntax(
        open=f"{_M3_PREFIX}<tool_call>",
        close=f"{_M3_PREFIX}</tool_call>",
        grammar=NestedTagGrammar(_M3_PREFIX, "tool_call"),
        open_pad="\n",
        close_pad="\n",
        separator="\n",
        stray_close="control",
        shared=True,
        body_opens=(f"{_M3_PREFIX}<invoke name=",),
        body_opens_anywhere=True,
        body_closes=(f"{_M3_PREFIX}</invoke>",),
    ),
    reasoning=ReasoningSyntax(open="<mm:think>", close="</mm:think>"),
    stop_markers=("[e~[",),
    control_markers=("]~b]ai\n", "]~b]", "]~!b["),
    evidence=(_M3_PREFIX, "<mm:think>"),
    result_text="<response>{value}</response>",
    quirks=(
        "the template leaves out arguments that are null",
        "an empty object, array and text look alike: only the tool's schema tells them apart",
        "a key that holds > cannot be read back",
    ),
)

_DSML = "｜DSML｜"
_DSML_SECTIONS = ("function_calls", "tool_calls")


def _dsml(section: str, *, no_arguments: str = "") -> CallSyntax:
    """Calls of DeepSeek V3.2 and V4: they differ in the name of the section. The other's is read too."""
    opens = [f"<{_DSML}{name}>" for name in sorted(_DSML_SECTIONS, key=lambda name: name != section)]
    closes = [f"</{_DSML}{name}>" for name in sorted(_DSML_SECTIONS, key=lambda name: name != section)]
    body = f"<{_DSML}invoke name="
    tags = InvokeTags(f"{_DSML}invoke", f"{_DSML}parameter", typed=True, ended_by=(*closes, body))
    return CallSyntax(
        open=opens[0],
        close=closes[0],
        grammar=InvokeGrammar(tags, no_arguments=no_arguments, token=_DSML),
        open_pad="\n",
        close_pad="\n",
        separator="\n",
        stray_close="control",
        also_open=tuple(opens[1:]),
        also_close=tuple(closes[1:]),
        shared=True,
        body_opens=(body,),
        body_opens_anywhere=True,
        body_closes=(f"</{_DSML}invoke>",),
    )


_DEEPSEEK_STOP = ("<｜end▁of▁sentence｜>",)
_DEEPSEEK_CONTROL = ("<｜begin▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>")

# deepseek-ai/DeepSeek-V3.2
_DEEPSEEK_V32 = Family(
    name="deepseek-v3.2",
    call=_dsml("function_calls"),
    reasoning=THINK,
    stop_markers=_DEEPSEEK_STOP,
    control_markers=_DEEPSEEK_CONTROL,
    evidence=(_DSML, "function_calls>"),
    result_text="<result>{value}</result>",
    quirks=(_DELIMITER_QUIRK, "all arguments may come in one parameter called arguments or input"),
)

# deepseek-ai/DeepSeek-V4, DeepSeek-V4-Flash-0731
_DEEPSEEK_V4 = Family(
    name="deepseek-v4",
    call=_dsml("tool_calls", no_arguments="\n"),
    reasoning=THINK,
    stop_markers=_DEEPSEEK_STOP,
    control_markers=_DEEPSEEK_CONTROL,
    evidence=(_DSML, "tool_calls>"),
    counter_evidence=("function_calls>",),
    result_text="<tool_result>{value}</tool_result>",
    quirks=(_DELIMITER_QUIRK, "a call may end the thinking without </think>"),
)

_FUNCTION_OPENS = ("<function name=", "<functionname=", "<function\u0120name=")

# openbmb/MiniCPM5-1B
_MINICPM5 = Family(
    name="minicpm5",
    aliases=("minicpm",),
    call=CallSyntax(
        open=_FUNCTION_OPENS[0],
        close="</function>",
        grammar=InvokeGrammar(
            InvokeTags("function", "param", cdata=True, marker=True, ended_by=_FUNCTION_OPENS), line="", sure=True
        ),
        separator="\n",
        also_open=_FUNCTION_OPENS[1:],
    ),
    reasoning=THINK,
    stop_markers=("<|im_end|>",),
    control_markers=CHATML_HEADER,
    evidence=("<function name=", "<param name="),
    result_text="<tool_response>\n{value}\n</tool_response>",
    quirks=("detokenised text may lack the space in <function name=, or show it as \u0120",),
)

_STEP3_BEGIN, _STEP3_END = "<｜tool_call_begin｜>", "<｜tool_call_end｜>"
_STEP3_INVOKE, _STEP3_CLOSE = "<steptml:invoke name=", "<｜tool_calls_end｜>"

# stepfun-ai/step3; its template is not at hand, public parsers agree on what it writes
_STEP3 = Family(
    name="step3",
    call=CallSyntax(
        open="<｜tool_calls_begin｜>",
        close=_STEP3_CLOSE,
        grammar=InvokeGrammar(
            InvokeTags(
                "steptml:invoke",
                "steptml:parameter",
                before=_STEP3_BEGIN,
                before_word="function<｜tool_sep｜>",
                after=_STEP3_END,
                ended_by=(_STEP3_END, _STEP3_CLOSE, _STEP3_BEGIN, _STEP3_INVOKE),
            ),
            line="",
        ),
        stray_close="control",
        shared=True,
        body_opens=(_STEP3_BEGIN,),
        body_opens_anywhere=True,
        body_closes=(_STEP3_END,),
    ),
    reasoning=THINK,
    evidence=("<steptml:invoke",),
    quirks=(_DELIMITER_QUIRK,),
)

ROWS: tuple[Family, ...] = (_MINIMAX_M2, _MINIMAX_M3, _DEEPSEEK_V32, _DEEPSEEK_V4, _MINICPM5, _STEP3)
