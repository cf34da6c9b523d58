"""From a request's messages to the prompt's text: check, arrange for the family, render. No engine is needed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from msgspec import UNSET

from daneel.formats import history
from daneel.formats.family import Family
from daneel.formats.template_traits import TemplateTraits
from daneel.formats.validate import ToolSet
from daneel.server.declared_tools import NO_PARAMETERS, tool_set
from daneel.server.template import TemplateRenderer
from daneel.server.template_probe import probe
from daneel.wire.errors import BadRequest
from daneel.wire.request_checks import PROMPT_FLAGS
from daneel.wire.requests import ChatRequest, ToolDeclaration

PLAIN_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content or '' }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""ChatML, for a model whose file holds no template: what most such models were tuned on."""


@dataclass(frozen=True, slots=True)
class Written:
    """A prompt's text, the tools it tells of, and how it tells results."""

    text: str
    tools: ToolSet
    result_style: Literal["native", "plain"]


@dataclass(frozen=True, slots=True)
class PromptWriter:
    """A template in use. `variables` are the server's defaults; `bos_text`, if any, stands in front of every prompt."""

    renderer: TemplateRenderer
    family: Family
    traits: TemplateTraits
    variables: Mapping[str, Any]
    bos_text: str = ""

    async def write(self, request: ChatRequest) -> Written:
        """Raises `BadRequest` naming the field, also when the template refuses."""
        family, traits = self.family, self.traits
        declared = [] if request.tool_choice == "none" else request.tools
        tools = tool_set(declared)
        style = family.result_style if request.tool_result_style == "auto" else request.tool_result_style
        try:
            messages = history.for_template(
                history.check(request.messages), family=family, tools=tools.tools, style=style, traits=traits
            )
        except history.HistoryError as error:
            raise BadRequest(str(error), param=f"messages[{error.index}].{error.field}") from error
        variables, add_generation_prompt, continue_final_message = template_options(request, self.variables)
        text = await self.renderer.render(
            messages,
            tools=[_for_template(declaration) for declaration in declared] if traits.knows_tools else (),
            variables=variables,
            add_generation_prompt=add_generation_prompt,
            continue_final_message=continue_final_message,
        )
        if self.bos_text and not text.startswith(self.bos_text):
            text = self.bos_text + text
        return Written(text, tools, style)


async def find_traits(renderer: TemplateRenderer, family: Family, variables: Mapping[str, Any]) -> TemplateTraits:
    """What the template does with messages and tools; a family may prefer its own words to the template's."""
    traits = await probe(renderer, without_flags(variables), split_role=family.split_role)
    return replace(traits, knows_tools=False) if family.tool_prompt.preferred else traits


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
    variables = without_flags({**defaults, **request.chat_template_kwargs})
    return variables, add_generation_prompt, continue_final_message


def without_flags(variables: Mapping[str, Any]) -> dict[str, Any]:
    """Template variables without those that say how the prompt ends: the renderer takes these by themselves."""
    return {name: value for name, value in variables.items() if name not in PROMPT_FLAGS}


def _for_template(declaration: ToolDeclaration) -> dict[str, Any]:
    """The declaration as templates expect it: keys in the usual order, none of them null."""
    given = declaration.function
    parameters = given.parameters or NO_PARAMETERS
    function = {"name": given.name, "description": given.description or "", "parameters": parameters}
    return {"type": declaration.type, "function": function}
