"""From what a tool returns to what the model reads: rendered as a sentence where the tool says how, and never too long."""

from __future__ import annotations

import functools
import inspect
import string
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic_core import to_json

from daneel.errors import UserError
from daneel.harness.policy import Recovery
from daneel.harness.raised import described, is_interrupt
from daneel.harness.tools.running import Done

if TYPE_CHECKING:
    from daneel.harness.tools.registry import Tool

Render = Callable[..., Any]
MAX_RESULT_CHARS = 16_000
"""What a model reads of one result, unless its tool says otherwise: some four thousand tokens."""
MIN_RESULT_CHARS = 100
LINE_SEARCH_CHARS = 400
"""A cut is moved back to a line's end that is this near."""


class RenderFailed(Exception):
    """A tool's `render` raised; the message says what."""


@dataclass(frozen=True, slots=True)
class Rendered:
    """`text` is for the model, made of `plain`, which is what the tool itself gave; `notes` say what was done to it."""

    text: str
    plain: str
    error: str | None = None
    notes: tuple[str, ...] = ()
    own_words: bool = False
    """The text is nobody's result, but a sentence for the model that the tool's author, or this harness, has written."""


def result_text(result: Any) -> str:
    """A tool's result as text: strings as they are, everything else as JSON."""
    if isinstance(result, str):
        return result.encode("utf-8", "replace").decode()  # a lone surrogate, as in odd file names, cannot be sent
    return to_json(result, fallback=str, inf_nan_mode="strings", bytes_mode="base64").decode()


@dataclass(frozen=True)
class Sentence:
    """A render: a sentence with `{result}` and names of arguments in it; those that were not given are None."""

    sentence: str
    names: tuple[str, ...]

    def __call__(self, result: Any, arguments: dict[str, Any]) -> str:
        return self.sentence.format(**{**dict.fromkeys(self.names), **arguments, "result": result})


def renderer(given: str | Render | None, parameters: set[str], label: str) -> Render | None:
    """A function `(result, arguments)` of what `@tool(render=…)` was given. Raises UserError.

    That is a function of the result, or of the result and the arguments by name; or a sentence with `{result}` and the
    arguments' names in braces.
    """
    if given is None:
        return None
    if isinstance(given, str):
        return _template(given, parameters, label)
    if not callable(given):
        raise UserError(f"{label}: render must be a function or a sentence with {{result}}, not {given!r}")
    try:
        signature = inspect.signature(given)
        num_taken = len([p for p in signature.parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)])
        takes_all = any(p.kind is p.VAR_POSITIONAL for p in signature.parameters.values())
    except (TypeError, ValueError):  # a builtin without a signature, such as str
        num_taken, takes_all = 1, False
    if num_taken >= 2 or takes_all:
        return given
    if num_taken == 0:
        raise UserError(f"{label}: render must take the result")
    # wrapped, so that its own source is in the harness's hash
    return functools.update_wrapper(lambda result, arguments: given(result), given)


def _template(sentence: str, parameters: set[str], label: str) -> Render:
    try:
        names = {name.split(".")[0].split("[")[0] for _, name, _, _ in string.Formatter().parse(sentence) if name is not None}
    except ValueError as error:
        raise UserError(f"{label}: render: {error}; write braces that are no field as {{{{ and }}}}") from error
    if unknown := names - parameters - {"result"}:
        raise UserError(f"{label}: render has {{{min(unknown)}}}, which is neither {{result}} nor an argument")
    return Sentence(sentence, tuple(sorted(names)))


def render(tool: Tool, value: Any, kwargs: dict[str, Any]) -> str:
    """The text of a result, uncut. Raises RenderFailed."""
    try:
        return result_text(value if tool.render is None else tool.render(value, kwargs))
    except BaseException as error:  # a render is anybody's code, and so is a value's own JSON form
        if is_interrupt(error):
            raise
        raise RenderFailed(described(error)) from error


def told(tool: Tool, done: Done, kwargs: dict[str, Any], policy: Recovery) -> Rendered:
    """What the model reads of a call that was made, however it ended.

    A render that fails costs the sentence, not the result.
    """
    if done.timeout_s is not None:
        text = policy.tool_timeout.format(name=tool.name, seconds=f"{done.timeout_s:g}")
        return Rendered(text, text, done.error, own_words=True)
    failure = done.error
    notes: list[str] = []
    plain = ""
    if failure is None:
        try:
            plain = result_text(done.value)
        except BaseException as error:  # a value's own JSON form is anybody's code too
            if is_interrupt(error):
                raise
            failure = f"the result cannot be told: {described(error)}"
    text = plain = plain if failure is None else f"Error: {failure}"
    if failure is None and tool.render is not None:
        try:
            text = render(tool, done.value, kwargs)
        except RenderFailed as error:
            notes.append(f"render raised {error}")
    kept = bounded(tool, text, policy)
    if kept != text:
        notes.append(f"cut from {len(text)} to {len(kept)} characters")
    return Rendered(kept, plain, failure, tuple(notes), done.own_words)


def bounded(tool: Tool, text: str, policy: Recovery) -> str:
    """`text`, or the beginning of it with a sentence that says what was cut and how to get the rest."""
    limit = tool.max_result_chars
    if limit is None or len(text) <= limit:
        return text
    has_arguments = bool(tool.parameters.get("properties"))
    rest = tool.rest_hint or (policy.rest_of_result.format(name=tool.name) if has_arguments else policy.no_rest_of_result)

    def cut_note(num_shown: int) -> str:
        return policy.cut_result.format(shown=num_shown, total=len(text), rest=rest)

    num_shown = max(0, limit - len(cut_note(limit)) - 1)
    line_end = text.rfind("\n", max(0, num_shown - LINE_SEARCH_CHARS), num_shown)
    if line_end > 0:
        num_shown = line_end
    return f"{text[:num_shown]}\n{cut_note(num_shown)}"
