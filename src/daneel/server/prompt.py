"""From a request's messages to the prompt's token ids: check, arrange for the family, render, encode."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from msgspec import UNSET

from daneel.formats import history
from daneel.formats.validate import ToolSet
from daneel.server.declared_tools import NO_PARAMETERS, tool_set
from daneel.server.served_model import ServedModel
from daneel.server.turn_memory import first_difference
from daneel.wire.errors import BadRequest, ContextTooLong
from daneel.wire.requests import ChatRequest, ToolDeclaration

_TURN_FLAGS = ("add_generation_prompt", "continue_final_message")


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


async def build_prompt(request: ChatRequest, model: ServedModel) -> Prompt:
    """Raises `BadRequest` naming the field; `ContextTooLong` with both numbers."""
    declared = [] if request.tool_choice == "none" else request.tools
    tools = tool_set(declared)
    style = model.family.result_style if request.tool_result_style == "auto" else request.tool_result_style
    try:
        messages = history.for_template(
            history.check(request.messages),
            family=model.family,
            tools=tools.tools,
            style=style,
            traits=model.traits,
        )
    except history.HistoryError as error:
        raise BadRequest(str(error), param=f"messages[{error.index}].{error.field}") from error
    variables, add_generation_prompt, continue_final_message = template_options(request, model.template_variables)
    rendered = await model.renderer.render(
        messages,
        tools=[_for_template(declaration) for declaration in declared] if model.traits.knows_tools else (),
        variables=variables,
        add_generation_prompt=add_generation_prompt,
        continue_final_message=continue_final_message,
    )
    info = model.info
    if info.add_bos and info.bos_text and not rendered.startswith(info.bos_text):
        rendered = info.bos_text + rendered
    recalled = model.turns.recall(rendered, tools)
    ids = [*recalled.ids, *await model.encoder.encode(rendered[recalled.end :])]
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
    return Prompt(rendered, text, ids, tools, style, model.family.starts_in_reasoning(rendered), miss)


def template_options(request: ChatRequest, defaults: Mapping[str, Any]) -> tuple[dict[str, Any], bool, bool]:
    """Template variables, `add_generation_prompt` and `continue_final_message`.

    The request wins over the server's `defaults`, and either flag, once given, decides the other. Raises `BadRequest` when
    both come out true, which only a default can cause here.
    """
    opens, continues = request.add_generation_prompt, request.continue_final_message
    if opens is UNSET and continues is UNSET:
        opens = defaults.get("add_generation_prompt", UNSET)
        continues = defaults.get("continue_final_message", UNSET)
    continue_final_message = continues is True
    add_generation_prompt = not continue_final_message if opens is UNSET else bool(opens)
    if add_generation_prompt and continue_final_message:
        raise BadRequest(
            "add_generation_prompt and continue_final_message are both true: a turn is either opened or continued",
            param="continue_final_message",
        )
    variables = {**defaults, **request.chat_template_kwargs}
    for name in _TURN_FLAGS:
        variables.pop(name, None)
    return variables, add_generation_prompt, continue_final_message


def _for_template(declaration: ToolDeclaration) -> dict[str, Any]:
    """The declaration as templates expect it: keys in the usual order, none of them null."""
    given = declaration.function
    parameters = given.parameters or NO_PARAMETERS
    function = {"name": given.name, "description": given.description or "", "parameters": parameters}
    return {"type": declaration.type, "function": function}
