"""From a request's messages to the prompt's token ids: write the text, recall what was generated, encode."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from daneel.formats.validate import ToolSet
from daneel.server.prompt_writer import PromptWriter
from daneel.server.served_model import ServedModel
from daneel.server.turn_memory import Recalled, first_difference
from daneel.wire.errors import BadRequest, ContextTooLong
from daneel.wire.requests import ChatRequest


@dataclass(frozen=True, slots=True)
class Prompt:
    """What the model is given. `tools` are those it was shown; `starts_in_reasoning`: the text ends inside a thought.

    `rendered` is what the template wrote; `text` and `ids` have earlier turns as they were generated, where the template says
    the same. `cache_miss`: where it does not, and so the model must read again what it once wrote.
    """

    rendered: str
    text: str
    ids: list[int]
    tools: ToolSet
    result_style: Literal["native", "plain"]
    starts_in_reasoning: bool
    cache_miss: str | None = None


async def build_prompt(request: ChatRequest, model: ServedModel, *, tenant: str = "") -> Prompt:
    """The prompt, with what is remembered of this tenant's turns unless the request wants no cache.

    Raises `BadRequest` naming the field; `ContextTooLong` with both numbers.
    """
    info = model.info
    bos_text = info.bos_text if info.add_bos else ""
    writer = PromptWriter(model.renderer, model.family, model.traits, model.template_variables, bos_text)
    written = await writer.write(request)
    rendered, tools = written.text, written.tools
    remembers = request.cache is None or request.cache.mode != "off"
    recalled = model.turns.recall(rendered, tools, tenant=tenant) if remembers else Recalled()
    ids = [*recalled.ids, *await model.encoder.encode(rendered[recalled.end :], tenant=tenant)]
    text = recalled.text + rendered[recalled.end :]
    miss = first_difference(recalled.changed, ids, info.pieces) if recalled.changed else None
    if not ids:
        raise BadRequest("the chat template rendered the messages to an empty prompt", param="messages")
    if len(ids) >= info.context_tokens:
        raise ContextTooLong(
            f"the prompt has {len(ids)} tokens, but the model's context holds {info.context_tokens} tokens, "
            "of which at least one must be left for the reply",
            param="messages",
        )
    return Prompt(rendered, text, ids, tools, written.result_style, model.family.starts_in_reasoning(rendered), miss)
