"""The history as the model's template must see it.

`check()` makes a normal form of what people send; `for_template()` then decides, by the family's description, how calls and
results are told: natively, in plain words, or as text when the template knows no tools.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import groupby
from typing import Any, Literal

from daneel.formats.base import Tool
from daneel.formats.family import Family
from daneel.formats.history_check import HistoryError, Message, check
from daneel.formats.telling import tell_results, tell_tools, tool_prompt, without_system
from daneel.formats.template_traits import TemplateTraits

__all__ = ["HistoryError", "check", "for_template", "tool_prompt"]


def for_template(
    messages: Sequence[Message],
    *,
    family: Family,
    tools: Sequence[Tool],
    style: Literal["native", "plain"],
    traits: TemplateTraits,
) -> list[Message]:
    """Messages for the template, from checked ones. `tools` are told in words if the template knows none."""
    given = [dict(message) for message in messages]
    if style == "plain":
        given = tell_results(given, family)
    if tools and not traits.knows_tools:
        given = tell_tools(given, tools, family, system=traits.system)
    elif traits.system == "dropped":
        given = without_system(given)
    if traits.call_ids == "nine":
        given = _with_short_ids(given)
    rendered = _Rendered(family, traits, as_text=style == "plain" or not traits.knows_tools)
    for message in given:
        rendered.add(message)
    rendered.end_results()
    return rendered.messages


class _Rendered:
    """Messages as the template must see them, made one after the other."""

    def __init__(self, family: Family, traits: TemplateTraits, *, as_text: bool) -> None:
        self.messages: list[Message] = []
        self._family = family
        self._traits = traits
        self._tells_results = as_text or not traits.results
        self._as_text = as_text or traits.calls == "none"
        self._call_ids: set[str] = set()
        self._told: list[str] = []  # results that no `tool` message can carry

    def add(self, message: Message) -> None:
        if message["role"] == "tool":
            self._result(message)
            return
        self.end_results()
        if message["role"] == "assistant":
            self._assistant(message)
        else:
            self.messages.append({key: value for key, value in message.items() if key != "_results"})

    def end_results(self) -> None:
        """Templates look for results right behind the calls, so what is told otherwise comes behind all of them."""
        if self._told:
            self.messages.append({"role": "user", "content": "\n".join(self._told)})
            self._told = []

    def _result(self, message: Message) -> None:
        follows = message["tool_call_id"] in self._call_ids
        if not self._tells_results and (follows or self._traits.orphan_results):
            place = len(self.messages)
            if follows and not self._traits.several_calls:
                place = self._behind_call(message["tool_call_id"])
            self.messages.insert(place, message)
        else:
            self._told.append(self._family.result_text.format(name=message["name"], value=message["content"]))

    def _behind_call(self, call_id: str) -> int:
        """Where the result of a call that has a message of its own belongs."""
        for place in range(len(self.messages), 0, -1):
            if any(call["id"] == call_id for call in self.messages[place - 1].get("tool_calls", ())):
                return place
        return len(self.messages)

    def _assistant(self, message: Message) -> None:
        family, traits = self._family, self._traits
        calls, failed = message.pop("tool_calls", []), message.pop("failed_tool_calls", [])
        # a client that does not know the field sends the text back in the content, where the server put it for it
        failed = [call for call in failed if call["raw"] not in message["content"]]
        thought = message.pop("reasoning", None)
        if thought and traits.reasoning_field:
            message[traits.reasoning_field] = thought
        beside = bool(message["content"].strip())
        if self._as_text or (failed and traits.orphan_results) or (beside and traits.content_with_calls == "text"):
            message["content"] = _append(message["content"], _written(calls, failed, family, as_text=self._as_text), family)
            calls = []
        elif failed:
            message["content"] = _append(message["content"], [call["raw"] for call in failed], family)
        if not calls:
            self.messages.append(message)
            return
        self._call_ids.update(call["id"] for call in calls)
        if traits.calls == "string":
            calls = [_with_text_arguments(call) for call in calls]
        beside = bool(message["content"].strip())
        if beside and (traits.content_with_calls != "before" or (thought and not traits.reasoning_with_content)):
            self._split(message, calls)
            return
        separator = family.call.separator
        if separator and message["content"].endswith(separator):
            message["content"] = message["content"][: -len(separator)]
        self._calls(message, calls)

    def _calls(self, message: Message, calls: list[Message]) -> None:
        """A message with calls; where the template would write only the first, one for each, with its result behind it."""
        if self._traits.several_calls:
            self.messages.append({**message, "tool_calls": calls})
            return
        for number, call in enumerate(calls):
            fields = message if number == 0 else {"role": message["role"], "content": ""}
            self.messages.append({**fields, "tool_calls": [call]})

    def _split(self, message: Message, calls: list[Message]) -> None:
        """Content and calls as two messages: in one, the template would lose or misplace the content."""
        second: Message = {"role": "assistant", "content": ""}
        field = self._traits.reasoning_field
        together = self._family.split_role == "assistant" and self._traits.reasoning_with_content
        if field in message and not together:
            second[field] = message.pop(field)
        self.messages.append({**message, "role": self._family.split_role})
        self._calls(second, calls)


def _with_short_ids(messages: list[Message]) -> list[Message]:
    """Ids of nine letters and digits in place of others, numbered in order: what is told stays as it was on later turns."""
    short: dict[str, str] = {}

    def shorten(call_id: str) -> str:
        if len(call_id) == 9 and call_id.isascii() and call_id.isalnum():
            return call_id
        return short.setdefault(call_id, f"call{len(short) + 1:05d}")

    told: list[Message] = []
    for message in messages:
        changed = dict(message)
        if message.get("tool_calls"):
            changed["tool_calls"] = [{**call, "id": shorten(call["id"])} for call in message["tool_calls"]]
        if message["role"] == "tool":
            changed["tool_call_id"] = shorten(message["tool_call_id"])
        told.append(changed)
    return told


def _with_text_arguments(call: Message) -> Message:
    function = call["function"]
    return {**call, "function": {**function, "arguments": _dumps(function["arguments"])}}


def _written(calls: list[Message], failed: list[Message], family: Family, *, as_text: bool) -> list[str]:
    """Calls as text, the failed ones at their positions; neighbouring good ones together."""
    pieces: list[tuple[str, str] | str] = [(call["function"]["name"], _dumps(call["function"]["arguments"])) for call in calls]
    for call in sorted(failed, key=lambda item: int(item["position"])):
        pieces.insert(call["position"], call["raw"])
    texts: list[str] = []
    for is_raw, group in groupby(pieces, key=lambda piece: isinstance(piece, str)):
        if is_raw:
            texts += [str(piece) for piece in group]
            continue
        together = [piece for piece in group if isinstance(piece, tuple)]
        texts += [family.write_text_calls(together)] if as_text else [family.write_call(*piece) for piece in together]
    return texts


def _append(content: str, texts: list[str], family: Family) -> str:
    separator = family.call.separator
    text = separator.join(texts)
    if not content or not text or not separator or content.endswith(separator):
        return content + text
    return content + separator + text


def _dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
