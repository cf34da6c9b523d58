"""Families whose arguments are pairs of tags, a key and a value."""

from __future__ import annotations

import re
from dataclasses import replace

from daneel.formats.family import Family
from daneel.formats.json_args import JsonGrammar
from daneel.formats.pair_args import PairGrammar, suffixed, with_suffix
from daneel.formats.pair_tags import PairTags
from daneel.formats.syntax import CallSyntax, ReasoningSyntax

_THINK = ReasoningSyntax(open="<think>", close="</think>")
_OPEN, _CLOSE = "<tool_call>", "</tool_call>"
_DELIMITER = "a string that holds the tag that closes its value cannot be read back"
_WHITE = "white space around a value is part of it"

_GLM_ENDS = ("<|user|>", "<|observation|>", "<|endoftext|>")
_GLM_PAIRS = PairGrammar(others=(_OPEN, *_GLM_ENDS))

# zai-org/GLM-4.7-Flash
_GLM47 = Family(
    name="glm4.7",
    call=CallSyntax(open=_OPEN, close=_CLOSE, grammar=_GLM_PAIRS),
    reasoning=_THINK,
    stop_markers=_GLM_ENDS,
    control_markers=("<|assistant|>", "<|system|>", "[gMASK]", "<sop>"),
    evidence=("[gMASK]<sop>", "<tool_call>", "<arg_key>"),
    quirks=(_DELIMITER, _WHITE),
)

# zai-org/GLM-4.5 and GLM-4.6: a line for each tag
_GLM46 = replace(
    _GLM47,
    name="glm4.6",
    aliases=("glm4.5",),
    call=CallSyntax(open=_OPEN, close=_CLOSE, grammar=replace(_GLM_PAIRS, pad="\n"), separator="\n"),
    evidence=(*_GLM47.evidence, "/nothink"),
)

# vLLM's template for GLM-4-0414: tells of tools in words, and leaves calls and results out
_GLM4 = replace(
    _GLM46,
    name="glm4",
    aliases=(),
    evidence=("<tool_call>", "<arg_key>", "[Round "),
    result_style="plain",
    quirks=(*_GLM47.quirks, "its template renders neither calls nor results"),
)

# poolside/Laguna-S-2.1, Laguna-XS-2.1, Laguna-XS.2: some templates write line breaks that the models do not
_LAGUNA_ENDS = ("</assistant>", "〈|EOS|〉")
_LAGUNA = Family(
    name="laguna",
    aliases=("laguna (poolside)", "poolside"),
    call=CallSyntax(open=_OPEN, close=_CLOSE, grammar=PairGrammar(others=(_OPEN, *_LAGUNA_ENDS))),
    reasoning=_THINK,
    stop_markers=_LAGUNA_ENDS,
    control_markers=("<assistant>\n",),
    evidence=("〈|EOS|〉", "<tool_call>", "<arg_key>"),
    quirks=(_DELIMITER, _WHITE, "calls written as JSON, and those that name a tool it does not have, are seen"),
)


def _hunyuan_v3(suffix: str, *others: str) -> Family:
    """The family with its tags spelled with a suffix, and `others` read besides."""

    def spelled(text: str, with_others: bool = True) -> tuple[str, ...]:
        return tuple(with_suffix(text, each) for each in ((suffix, *others) if with_others else others))

    tags = PairTags(body_open=_OPEN, name_end="<tool_sep>", body_close=_CLOSE)
    ends = tuple(marker for name in ("eos", "User") for marker in _special(name, suffix, *others))
    opens, closes = spelled("<tool_calls>"), spelled("</tool_calls>")
    thinks, thoughts = spelled("<think>"), spelled("</think>")
    grammar = PairGrammar(
        suffixed(tags, suffix),
        tuple(suffixed(tags, other) for other in others),
        pad="\n",
        closes=closes,
        others=(*opens, *ends),
    )
    return Family(
        name="hunyuan-v3",
        aliases=("hy3",),
        call=CallSyntax(
            open=opens[0],
            close=closes[0],
            grammar=grammar,
            open_pad="\n",
            close_pad="\n",
            separator="\n",
            also_open=opens[1:],
            also_close=closes[1:],
            shared=True,
            body_opens=spelled(_OPEN),
            body_opens_anywhere=True,
        ),
        reasoning=ReasoningSyntax(open=thinks[0], close=thoughts[0], also_open=thinks[1:], also_close=thoughts[1:]),
        stop_markers=ends,
        control_markers=tuple(
            marker for name in ("Assistant", "begin_of_sentence", "pad") for marker in _special(name, suffix, *others)
        ),
        evidence=("<｜hy_", "<tool_sep"),
        quirks=(_DELIMITER, _WHITE, "its tags may have a suffix, which is read from the template"),
        respell=_hunyuan_v3_of,
    )


def _special(name: str, *suffixes: str) -> tuple[str, ...]:
    return tuple(f"<｜hy_{name}{suffix}｜>" for suffix in suffixes)


_SUFFIX = re.compile(r"""set\s+HYTK\s*=\s*['"]([^'"<>｜{}\s]*)['"]|<tool_sep([^>{}\s]*)>""")


def _hunyuan_v3_of(template: str) -> Family:
    """The suffix is set in a variable at the template's head, or written out in its tags."""
    found = _SUFFIX.search(template)
    return _hunyuan_v3(found[1] or found[2] or "") if found else _HUNYUAN_V3


# tencent/Hy3: the published models' tags end in ":opensource"
_HUNYUAN_V3 = _hunyuan_v3("", ":opensource")

# tencent/Hunyuan-A13B-Instruct
_HUNYUAN_A13B = Family(
    name="hunyuan-a13b",
    aliases=("hunyuan",),
    call=CallSyntax(open="<tool_calls>", close="</tool_calls>", grammar=JsonGrammar(joints=("[", ", ", "]"))),
    reasoning=_THINK,
    stop_markers=("<|eos|>", "<|extra_0|>", "<|endoftext|>"),
    control_markers=("<answer>", "</answer>", "<|startoftext|>", "<|extra_4|>"),
    evidence=("<tool_calls>[{", "<|extra_0|>", "<|startoftext|>"),
    quirks=("it wraps answers in <answer> tags, which vanish wherever they stand",),
)

# meituan-longcat/LongCat-Flash-Lite; LongCat-Flash-Chat writes JSON between the same markers
_LONGCAT_OPEN, _LONGCAT_CLOSE, _LONGCAT_ENDS = "<longcat_tool_call>", "</longcat_tool_call>", ("</longcat_s>", "<longcat_user>")
_LONGCAT = Family(
    name="longcat",
    call=CallSyntax(
        open=_LONGCAT_OPEN,
        close=_LONGCAT_CLOSE,
        grammar=PairGrammar(
            PairTags("<longcat_arg_key>", "</longcat_arg_key>", "<longcat_arg_value>", "</longcat_arg_value>"),
            pad="\n",
            closes=(_LONGCAT_CLOSE,),
            others=(_LONGCAT_OPEN, *_LONGCAT_ENDS),
            json="equal",
        ),
        separator="\n",
    ),
    reasoning=ReasoningSyntax(open="<longcat_think>", close="</longcat_think>"),
    stop_markers=_LONGCAT_ENDS,
    control_markers=("<longcat_assistant>", "<longcat_system>"),
    evidence=("<longcat_tool_call>", "<longcat_arg_key>"),
    quirks=(_DELIMITER, _WHITE),
)
_LONGCAT_JSON = replace(
    _LONGCAT,
    variant="json",
    call=CallSyntax(open=_LONGCAT_OPEN, close=_LONGCAT_CLOSE, grammar=JsonGrammar(), separator="\n"),
    evidence=("<longcat_tool_call>",),
    counter_evidence=("<longcat_arg_key>",),
    quirks=(),
)

ROWS: tuple[Family, ...] = (_GLM46, _GLM47, _GLM4, _LAGUNA, _HUNYUAN_V3, _HUNYUAN_A13B, _LONGCAT, _LONGCAT_JSON)
