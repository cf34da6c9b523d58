"""What a chat template does with the messages it is given: history is arranged so that no template loses any of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class TemplateTraits:
    """Found by trying (`server/template_probe.py`), since a template is a program and says nothing of itself.

    `knows_tools`: it tells the model of the declared tools. `calls`: how it wants a call's arguments; `"none"`: it does not
    write calls. `several_calls`: it writes all calls of a message, not the first alone. `results`: it writes `tool` messages;
    `orphan_results`: also those without a call before them. `content_with_calls`: where the content of a message with calls is
    written. `"before"` them, as it was said; `"apart"`: lost or misplaced, so that it must be a message of its own; `"text"`:
    not even that works, so the calls are written into the content. `reasoning_field`: the field a thought is read from, if any;
    `reasoning_with_content`: a message with calls may have both. `system`: whether system messages are written, dropped without
    a word, or refused. `call_ids`: any, or nine letters and digits, as Mistral's templates demand.
    """

    knows_tools: bool = True
    calls: Literal["object", "string", "none"] = "object"
    several_calls: bool = True
    results: bool = True
    orphan_results: bool = True
    content_with_calls: Literal["before", "apart", "text"] = "before"
    reasoning_field: str | None = "reasoning_content"
    reasoning_with_content: bool = True
    system: Literal["written", "dropped", "refused"] = "written"
    call_ids: Literal["any", "nine"] = "any"
