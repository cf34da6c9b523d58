"""Mistral's families: `[TOOL_CALLS]` before a JSON array, or before each call's name.

All rows read both ways; they differ in what they write. Sources: the chat templates of Mistral-Nemo-Instruct-2407 (the array),
Mistral-Small-3.2-24B-Instruct-2506 (name, id, arguments), Devstral-Small-2507 and Ministral-3-14B-Reasoning-2512 (name,
arguments; reasoning in `[THINK]`).
"""

from __future__ import annotations

from dataclasses import replace

from daneel.formats.either_args import EitherGrammar
from daneel.formats.family import Family
from daneel.formats.json_args import JsonGrammar
from daneel.formats.named_json import NamedJsonGrammar
from daneel.formats.syntax import CallSyntax, ReasoningSyntax

# nothing closes a call, so nothing is slack before its end
_ARRAY = JsonGrammar(
    written='{"name": {name}, "arguments": {arguments}, "id": "{id}"}',
    joints=("[", ", ", "]"),
    id_size=9,
    id_pattern="[a-zA-Z0-9]{9}",
    slack="",
)
_NAMED = NamedJsonGrammar(
    written="{name}[ARGS]{arguments}",
    heads=("{name}[ARGS]", "{name}[CALL_ID]{id}[ARGS]", "{name}"),
    head_repairs=("", "", "missing_arguments_marker"),
    tokens=("[ARGS]", "[CALL_ID]"),
    slack="",
)
_NAMED_WITH_ID = replace(_NAMED, written="{name}[CALL_ID]{id}[ARGS]{arguments}")

_CALL_IDS = "the template wants call ids of nine letters or digits"
_CONTENT_LOST = "the template leaves out the content of a message that calls tools"

_MISTRAL = Family(
    name="mistral",
    call=CallSyntax(open="[TOOL_CALLS]", close="", grammar=EitherGrammar(_ARRAY, _NAMED), stray_close="control"),
    reasoning=ReasoningSyntax(open="[THINK]", close="[/THINK]", anywhere=True, stray_close="control"),
    stop_markers=("</s>",),
    control_markers=("[INST]", "[/INST]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]"),
    evidence=("[TOOL_CALLS]", "[AVAILABLE_TOOLS]"),
    counter_evidence=("[ARGS]",),
    quirks=(_CALL_IDS, _CONTENT_LOST),
)

_MINISTRAL3 = replace(
    _MISTRAL,
    name="ministral3",
    aliases=("ministral3 (mistral v13 think)", "mistral-v13", "devstral", "magistral"),
    call=replace(_MISTRAL.call, grammar=EitherGrammar(_NAMED, _ARRAY)),
    evidence=("[TOOL_CALLS]", "[ARGS]"),
    counter_evidence=("[CALL_ID]",),
    quirks=(),
)

_SMALL_32 = replace(
    _MISTRAL,
    name="mistral-small-3.2",
    aliases=("mistral-v11",),
    call=replace(_MISTRAL.call, grammar=EitherGrammar(_NAMED_WITH_ID, _ARRAY)),
    evidence=("[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"),
    counter_evidence=(),
)

ROWS: tuple[Family, ...] = (_SMALL_32, _MINISTRAL3, _MISTRAL)
