"""DeepSeek's families whose calls are a name and a JSON object: R1 and V3 (in a fence), V3.1 (bare).

Sources: the chat templates of deepseek-ai/DeepSeek-R1-Distill-Llama-8B and -Qwen-32B, DeepSeek-V3.1, and vLLM's and llama.cpp's
templates for R1, V3 and V3.1. Models write the markers as tokens, but also letter by letter, with other separators.
"""

from __future__ import annotations

from dataclasses import replace

from daneel.formats.families.hermes import THINK
from daneel.formats.family import Family
from daneel.formats.named_json import NamedJsonGrammar
from daneel.formats.syntax import CallSyntax

_CALLS_BEGIN, _CALLS_END = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"
_BEGIN, _SEP, _END = "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>"
_SEPARATORS = ("▁", "_", " ")


def _spelled(text: str) -> tuple[str, ...]:
    """The text with each of the separators that stand between the words of a marker; the model's own first."""
    return tuple(text.replace("▁", separator) for separator in _SEPARATORS)


_FENCED = f"{_BEGIN}function{_SEP}{{name}}"
_BARE = f"{_BEGIN}{{name}}{_SEP}"
_NO_BEGIN = f"function{_SEP}{{name}}"  # the word and the separator still say what follows


def _grammar(written: str, *, fenced: bool) -> NamedJsonGrammar:
    """Both forms are read, in every spelling; `fenced` says which of them is the family's own."""
    forms = [(_FENCED, ""), (_BARE, "missing_type")] if fenced else [(_BARE, ""), (_FENCED, "extra_type")]
    forms.append((_NO_BEGIN, "missing_begin_marker"))
    return NamedJsonGrammar(
        written=written,
        heads=tuple(head for form, _ in forms for head in _spelled(form)),
        head_repairs=tuple(repair for form, repair in forms for _ in _spelled(form)),
        reserved=("function",) if fenced else (),
        ends=_spelled(_END),
        fence="written" if fenced else "read",
        tokens=(_BEGIN, _SEP, _END),
        key="fenced-json" if fenced else "named-json",
    )


_CALL = CallSyntax(
    open=_CALLS_BEGIN,
    close=_CALLS_END,
    grammar=_grammar(f"{_FENCED}\n```json\n{{arguments}}\n```{_END}", fenced=True),
    separator="\n",
    stray_close="control",
    also_open=(*_spelled(_CALLS_BEGIN)[1:], *_spelled("<｜tool▁calls｜>")),
    also_close=_spelled(_CALLS_END)[1:],
    shared=True,
    body_opens=_spelled(_BEGIN),
    body_opens_anywhere=True,
    body_closes=_spelled(_END),
)

_RESULTS = tuple(f"<｜tool▁{word}｜>" for word in ("outputs▁begin", "outputs▁end", "output▁begin", "output▁end"))

# deepseek-ai/DeepSeek-R1-Distill-Qwen-32B and -Llama-8B, llama.cpp's and vLLM's templates for R1; cogito writes alike
_R1 = Family(
    name="deepseek-r1",
    aliases=("cogito", "cogito (deepseek-like)"),
    call=_CALL,
    reasoning=THINK,
    stop_markers=("<｜end▁of▁sentence｜>", "<｜User｜>"),
    control_markers=("<｜Assistant｜>", "<｜begin▁of▁sentence｜>", *_RESULTS),
    evidence=(_CALLS_BEGIN, "```json", "think>"),
    quirks=("the Distill templates write the content behind the calls, that of the Llama leaves out calls beside content",),
)

# vLLM's template for DeepSeek-V3, which does not think
_V3 = replace(_R1, name="deepseek-v3", aliases=(), evidence=(_CALLS_BEGIN, "```json"), quirks=())

# deepseek-ai/DeepSeek-V3.1 and vLLM's template for it
_V31 = replace(
    _V3,
    name="deepseek-v3.1",
    call=replace(
        _CALL,
        grammar=_grammar(f"{_BARE}{{arguments}}{_END}", fenced=False),
        separator="",
    ),
    evidence=(_CALLS_BEGIN,),
)

ROWS: tuple[Family, ...] = (_R1, _V3, _V31)
