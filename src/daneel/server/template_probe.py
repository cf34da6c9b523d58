"""Finding out what a chat template does, by rendering small conversations and looking for what was in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from daneel.formats.template_traits import TemplateTraits
from daneel.server.template import TemplateRenderer
from daneel.wire.errors import BadRequest

_NAME, _KEY, _VALUE = "daneel_probe_tool", "probe_key", "probe_value"
_ASKED, _SAID, _THOUGHT, _RESULT, _SYSTEM = "probe asked", "probe said", "probe thought", "probe result", "probe system"
_ID = "probeid00"  # nine letters and digits, the strictest form
_LONG_ID = "call_probe-00000"
_REASONING_FIELDS = ("reasoning_content", "reasoning", "thinking")

_PARAMETERS = {"type": "object", "properties": {_KEY: {"type": "string", "description": "A key."}}, "required": [_KEY]}
TOOLS = [{"type": "function", "function": {"name": _NAME, "description": "A probe.", "parameters": _PARAMETERS}}]

Message = dict[str, Any]
_USER: Message = {"role": "user", "content": _ASKED}
_ANSWER: Message = {"role": "tool", "tool_call_id": _ID, "name": _NAME, "content": _RESULT}
_LATER: list[Message] = [{"role": "assistant", "content": "probe answered"}, {"role": "user", "content": "probe went on"}]


async def probe(
    renderer: TemplateRenderer, variables: Mapping[str, Any] | None = None, *, split_role: str = "assistant"
) -> TemplateTraits:
    """The traits of the template behind `renderer`. A probe that the template refuses counts as text that it does not write.

    `variables` are the server's defaults; `split_role` is what the family calls a message of content beside calls.
    """
    look = _Probe(renderer, variables or {})
    calls = await look.calls()
    arguments = look.arguments(calls)
    reasoning_field, with_content = await look.reasoning(arguments)
    return TemplateTraits(
        knows_tools=await renderer.knows_tools(),
        calls=calls,
        several_calls=calls == "none" or await look.several(arguments),
        results=await look.writes(_RESULT, [_USER, _call(arguments), _ANSWER]),
        orphan_results=await look.writes(_RESULT, [_USER, {"role": "assistant", "content": _SAID}, _ANSWER, *_LATER]),
        content_with_calls=await look.content(arguments, split_role),
        reasoning_field=reasoning_field,
        reasoning_with_content=with_content,
        system=await look.system(),
        call_ids="any" if calls == "none" or await look.long_ids(arguments) else "nine",
    )


class _Probe:
    def __init__(self, renderer: TemplateRenderer, variables: Mapping[str, Any]) -> None:
        self._renderer = renderer
        self._variables = variables

    async def _render(self, messages: Sequence[Message], **variables: Any) -> str | None:
        """`None` when the template refuses or fails."""
        try:
            return await self._renderer.render(messages, tools=TOOLS, variables={**self._variables, **variables})
        except BadRequest:
            return None

    async def writes(self, text: str, messages: Sequence[Message], **variables: Any) -> bool:
        return text in (await self._render(messages, **variables) or "")

    def arguments(self, calls: str) -> Any:
        return f'{{"{_KEY}": "{_VALUE}"}}' if calls == "string" else {_KEY: _VALUE}

    async def calls(self) -> Literal["object", "string", "none"]:
        for kind in ("object", "string"):
            for more in ([_ANSWER], []):
                text = await self._render([_USER, _call(self.arguments(kind)), *more]) or ""
                if _NAME in text.rpartition(_ASKED)[2] and _VALUE in text:
                    return "object" if kind == "object" else "string"
        return "none"

    async def content(self, arguments: Any, split_role: str) -> Literal["before", "apart", "text"]:
        if await self._keeps_order([_USER, _call(arguments, content=_SAID), _ANSWER]):
            return "before"
        said = {"role": split_role, "content": _SAID}
        return "apart" if await self._keeps_order([_USER, said, _call(arguments), _ANSWER]) else "text"

    async def _keeps_order(self, messages: Sequence[Message]) -> bool:
        """Also when the conversation has gone on: some templates drop what was said before an answer."""
        return _in_order(await self._render(messages)) and _in_order(await self._render([*messages, *_LATER]))

    async def several(self, arguments: Any) -> bool:
        first, other = _call(arguments), "probeid01"
        second = {**first["tool_calls"][0], "id": other}
        both = {**first, "tool_calls": [first["tool_calls"][0], second]}
        text = await self._render([_USER, both, _ANSWER, {**_ANSWER, "tool_call_id": other}]) or ""
        return text.rpartition(_ASKED)[2].count(_VALUE) == 2

    async def reasoning(self, arguments: Any) -> tuple[str | None, bool]:
        for field in _REASONING_FIELDS:
            thought = {field: _THOUGHT}
            if await self.writes(_THOUGHT, [_USER, _call(arguments, **thought), _ANSWER], enable_thinking=True):
                both = [_USER, _call(arguments, content=_SAID, **thought), _ANSWER]
                return field, await self.writes(_THOUGHT, both, enable_thinking=True)
        return None, True

    async def long_ids(self, arguments: Any) -> bool:
        called = _call(arguments)
        called["tool_calls"][0]["id"] = _LONG_ID
        return await self._render([_USER, called, {**_ANSWER, "tool_call_id": _LONG_ID}]) is not None

    async def system(self) -> Literal["written", "dropped", "refused"]:
        text = await self._render([{"role": "system", "content": _SYSTEM}, _USER])
        if text is None:
            return "refused" if await self._render([_USER]) is not None else "written"
        return "written" if _SYSTEM in text else "dropped"


def _call(arguments: Any, content: str = "", **fields: str) -> Message:
    call = {"id": _ID, "type": "function", "function": {"name": _NAME, "arguments": arguments}}
    return {"role": "assistant", "content": content, **fields, "tool_calls": [call]}


def _in_order(text: str | None) -> bool:
    """Whether content, call and result were written in this order."""
    if text is None:
        return False
    said, called, result = text.find(_SAID), text.rfind(_VALUE), text.rfind(_RESULT)
    return 0 <= said < called < result
