"""The fields of the next request, and what recovery changes in them for one turn: a tool choice, more room, no thoughts."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from daneel.harness.run_record import JsonObject
from daneel.harness.server_profile import profile_of

if TYPE_CHECKING:
    from daneel.harness.session import Session

NO_THOUGHTS = {"enable_thinking": False, "thinking": False}
"""Template variables that families read: Qwen3, GLM and others the first, DeepSeek and Granite the second."""

TEMPLATE_VARIABLES = "chat_template_kwargs"


@dataclass(frozen=True, slots=True)
class Changes:
    """Each field is a change of its own, which a server may refuse; the default is no change.

    `continues`: a text of the model that was cut off. The server is asked to go on with it, and no turn is opened.
    """

    tool_choice: str | None = None
    budget_factor: int = 1
    thinking_off: bool = False
    continues: str | None = None

    def made(self) -> list[str]:
        """Names of the fields that change something."""
        return [field.name for field in fields(self) if getattr(self, field.name) != field.default]


def request_params(session: Session, *, first: bool) -> JsonObject:
    """The request's fields beside messages and tools. `first`: this is the run's first turn."""
    harness, changes, is_daneel = session.gates.shown, session.changes, session.conversation.is_daneel
    max_tokens = harness.max_tokens * changes.budget_factor if harness.max_tokens is not None else None
    max_tokens = session.context.capped(max_tokens)
    params: JsonObject = dict(harness.sampling)
    for name, value in (("temperature", harness.temperature), ("max_tokens", max_tokens), ("seed", session.seed)):
        if value is not None:
            params[name] = value
    choice = session.gates.choice(changes.tool_choice or (harness.first_tool_choice if first else None) or harness.tool_choice)
    if harness.tools and choice != "auto":
        params["tool_choice"] = _as_sent(choice)
    if is_daneel and harness.tool_result_style != "auto":
        params["tool_result_style"] = harness.tool_result_style
    known = is_daneel or TEMPLATE_VARIABLES in params or profile_of(session.client).template_variables
    if changes.thinking_off and known:
        # a server that is not ours may refuse the field, or worse
        params[TEMPLATE_VARIABLES] = {**(params.get(TEMPLATE_VARIABLES) or {}), **NO_THOUGHTS}
    if changes.continues is not None:
        # the raw text shows the white space at the seam, which a reply's content leaves out
        include = dict.fromkeys([*(params.get("include") or []), "raw_text"])
        params |= {"continue_final_message": True, "add_generation_prompt": False, "include": list(include)}
    return params


def _as_sent(choice: str) -> Any:
    return choice if choice in ("none", "required") else {"type": "function", "function": {"name": choice}}
