"""Families whose output is a sequence of framed messages."""

from __future__ import annotations

from daneel.formats.atem_args import AtemGrammar
from daneel.formats.family import Family
from daneel.formats.frame_args import FrameJsonGrammar
from daneel.formats.frame_syntax import FrameKind, FrameSyntax
from daneel.formats.syntax import CallSyntax, ReasoningSyntax

# openai/gpt-oss-120b. The template writes `to=` behind the role, the models mostly behind the channel
_HARMONY_CALL = FrameJsonGrammar(
    " to=functions.{name}<|channel|>commentary json<|message|>{arguments}", tokens=("<|channel|>", "<|message|>")
)
_HARMONY = Family(
    name="gpt-oss",
    aliases=("harmony",),
    call=CallSyntax(open="<|start|>assistant", close="<|call|>", grammar=_HARMONY_CALL),
    framing=FrameSyntax(
        start="<|start|>",
        role="assistant",
        labels=("<|channel|>", "<|constrain|>"),
        channel_label="<|channel|>",
        opens=(("<|message|>", None),),
        ends=("<|end|>", "<|call|>", "<|return|>"),
        interrupts=("<|channel|>",),
        recipient=r"to=[ \t]*(?P<to>[^\s<]+)",
        recipient_head="to=",
        kinds=(("assistant", None), ("user", None)),
        prefix="functions.",
        channels=(("analysis", "reasoning"),),
        thought="<|channel|>analysis<|message|>{text}<|end|><|start|>assistant",
        grammar=_HARMONY_CALL,
    ),
    reasoning=ReasoningSyntax(open="<|channel|>analysis<|message|>", close="<|end|>", anywhere=True, stray_close="control"),
    stop_markers=("<|call|>", "<|return|>"),
    control_markers=("<|end|>", "<|start|>"),
    evidence=("<|start|>assistant", "<|channel|>commentary", "<|call|>"),
    quirks=(
        "the template renders one call per message, and content beside a call as reasoning",
        "calls to built-in tools (python, browser) hold code or JSON; code is reported as a failed call",
    ),
)

# Muse Glimmer
_GLIMMER_CALL = AtemGrammar(before=" to=", between="<|message|>")
_GLIMMER = Family(
    name="glimmer",
    call=CallSyntax(open="<|start|>assistant", close="<|eom|>", grammar=_GLIMMER_CALL),
    framing=FrameSyntax(
        start="<|start|>",
        role="assistant",
        opens=(("<|message|>", None),),
        ends=("<|eom|>", "<|eot|>"),
        recipient=r"to=[ \t]*(?P<to>[^\s<]+)",
        recipient_head="to=",
        kinds=(("self", "reasoning"), ("user", "content")),
        tentative_without_recipient=True,
        rescue=False,
        grammar=_GLIMMER_CALL,
    ),
    reasoning=ReasoningSyntax(open=" to=self<|message|>", close="<|eom|>", anywhere=True, stray_close="control"),
    stop_markers=("<|eot|>",),
    control_markers=("<|eom|>", "<|start|>"),
    evidence=("<atem:function_calls>", "<|eom|>"),
    quirks=("a string that holds its own closing tag cannot be read back",),
)

# Thinking Machines' Inkling: messages of typed content
_INKLING_CALL = FrameJsonGrammar(
    '{name}<|content_invoke_tool_json|>{"name":{quoted_name},"args":{arguments}}',
    named=True,
    tokens=("<|content_invoke_tool_json|>",),
)
_INKLING_OPENS: tuple[tuple[str, FrameKind | None], ...] = (
    ("<|content_text|>", "content"),
    ("<|content_thinking|>", "reasoning"),
    ("<|content_invoke_tool_json|>", "call"),
    ("<|content_invoke_tool_text|>", "content"),
    ("<|content_tool_error|>", "content"),
)
_INKLING = Family(
    name="inkling",
    call=CallSyntax(open="<|message_model|>", close="<|end_message|>", grammar=_INKLING_CALL),
    framing=FrameSyntax(
        start="<|message_model|>",
        opens=_INKLING_OPENS,
        ends=("<|end_message|>", "<|content_model_end_sampling|>"),
        interrupts=tuple(marker for marker, _ in _INKLING_OPENS),
        thought="<|content_thinking|>{text}<|end_message|><|message_model|>",
        text=r"[^\s<>{}\[\]()\"'`|]*+",
        grammar=_INKLING_CALL,
    ),
    reasoning=ReasoningSyntax(open="<|content_thinking|>", close="<|end_message|>", anywhere=True, stray_close="control"),
    stop_markers=("<|content_model_end_sampling|>",),
    control_markers=("<|end_message|>", "<|message_model|>"),
    evidence=("<|content_invoke_tool_json|>", "<|message_model|>"),
)

# meetkai/functionary-medium-v3.2
_FUNCTIONARY_CALL = FrameJsonGrammar("{name}\n{arguments}")
_FUNCTIONARY = Family(
    name="functionary",
    aliases=("functionary-v3.2",),
    call=CallSyntax(open=">>>", close="", grammar=_FUNCTIONARY_CALL),
    framing=FrameSyntax(
        start=">>>",
        opens=(("\n", None),),
        ends=("<|eot_id|>", "<|eom_id|>", "<|end_of_text|>"),
        kinds=(("all", "content"),),
        body_head="{",
        text=r"[^\s<>{}\[\]()\"'`|]*+",
        grammar=_FUNCTIONARY_CALL,
    ),
    stop_markers=("<|eot_id|>", "<|eom_id|>", "<|end_of_text|>"),
    evidence=(">>>${recipient}",),
    quirks=("code for the built-in python tool is reported as a failed call, or left as content",),
)

ROWS: tuple[Family, ...] = (_HARMONY, _GLIMMER, _INKLING, _FUNCTIONARY)
