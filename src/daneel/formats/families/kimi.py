"""The families of Moonshot's Kimi, and Solar Open, which marks its calls alike.

Sources: the chat templates of moonshotai/Kimi-K2-Instruct, Kimi-K2-Thinking and upstage/Solar-Open-100B.
"""

from __future__ import annotations

from daneel.formats.families.hermes import THINK, TOOL_CALL_TAGS
from daneel.formats.family import Family
from daneel.formats.named_json import NamedJsonGrammar
from daneel.formats.syntax import CallSyntax, ReasoningSyntax

_TURNS = ("<|im_assistant|>assistant<|im_middle|>", "<|im_user|>", "<|im_assistant|>", "<|im_system|>", "<|im_middle|>")
_BEGIN, _ARGUMENTS, _END = "<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>"

# moonshotai/Kimi-K2-Instruct and -Thinking. The id holds the name, and an index that runs over the whole conversation
_K2 = Family(
    name="kimi-k2",
    aliases=("kimi",),
    call=CallSyntax(
        open="<|tool_calls_section_begin|>",
        close="<|tool_calls_section_end|>",
        grammar=NamedJsonGrammar(
            written=f"{_BEGIN}functions.{{name}}:{{id}}{_ARGUMENTS}{{arguments}}{_END}",
            heads=(f"{_BEGIN}{{id}}{_ARGUMENTS}",),
            ends=(_END,),
            name_in_id=r"(?:functions\.)?(?P<name>.+):\d+",
            id_prefix="functions.",
            tokens=(_BEGIN, _ARGUMENTS, _END),
            example_id="0",
            id_pattern="[0-9]{1,4}",
        ),
        stray_close="control",
        also_open=("<|tool_call_section_begin|>",),
        also_close=("<|tool_call_section_end|>",),
        shared=True,
        body_opens=(_BEGIN,),
        body_opens_anywhere=True,
        body_closes=(_END,),
    ),
    reasoning=THINK,
    stop_markers=("<|im_end|>", "[EOS]"),
    control_markers=_TURNS,
    evidence=("<|tool_calls_section_begin|>", _ARGUMENTS),
    quirks=("the id of a call holds the tool's name and a running index; the template numbers the calls anew",),
)

# moonshotai/Kimi-VL-A3B-Thinking, whose template knows no tools
_VL = Family(
    name="kimi-vl",
    aliases=("kimi-vl-thinking",),
    call=TOOL_CALL_TAGS,
    reasoning=ReasoningSyntax(open="◁think▷", close="◁/think▷"),
    stop_markers=("<|im_end|>", "[EOS]"),
    control_markers=_TURNS,
    evidence=("<|im_middle|>", "<|media_start|>"),
    counter_evidence=("<|tool_calls_section_begin|>",),
    result_style="plain",
    text_calls="array",
)

_SOLAR_BEGIN, _SOLAR_END = "<|tool_call:begin|>", "<|tool_call:end|>"
_SOLAR_NAME, _SOLAR_ARGUMENTS = "<|tool_call:name|>", "<|tool_call:args|>"

# upstage/Solar-Open-100B: messages of one turn, each begun anew; the reasoning is one of them, the calls another
_SOLAR = Family(
    name="solar-open",
    aliases=("solar",),
    call=CallSyntax(
        open="<|tool_calls|>",
        close="<|calls|>",
        grammar=NamedJsonGrammar(
            written=f"{_SOLAR_BEGIN}{{id}}{_SOLAR_NAME}{{name}}{_SOLAR_ARGUMENTS}{{arguments}}{_SOLAR_END}",
            heads=(
                f"{_SOLAR_BEGIN}{{id}}{_SOLAR_NAME}{{name}}{_SOLAR_ARGUMENTS}",
                f"{_SOLAR_BEGIN}{_SOLAR_NAME}{{name}}{_SOLAR_ARGUMENTS}",
            ),
            head_repairs=("", "missing_id"),
            ends=(_SOLAR_END,),
            tokens=(_SOLAR_BEGIN, _SOLAR_NAME, _SOLAR_ARGUMENTS, _SOLAR_END),
            example_id="a1b2c3d4e5",
            id_pattern="[a-z0-9]{10}",
        ),
        stray_close="control",
        shared=True,
        body_opens=(_SOLAR_BEGIN,),
        body_opens_anywhere=True,
        body_closes=(_SOLAR_END,),
    ),
    reasoning=ReasoningSyntax(open="<|think|>", close="<|end|>", anywhere=True, stray_close="control"),
    stop_markers=("<|end|>", "<|endoftext|>"),
    control_markers=("<|begin|>assistant", "<|content|>"),
    evidence=(_SOLAR_BEGIN, _SOLAR_ARGUMENTS),
    quirks=("the template leaves out content beside calls",),
)

ROWS: tuple[Family, ...] = (_K2, _VL, _SOLAR)
