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

__all__ = ["HistoryError", "check", "for_template", "tool_prompt"]


def for_template(
    messages: Sequence[Message],
    *,
    family: Family,
    tools: Sequence[Tool],
    style: Literal["native", "plain"],
    template_knows_tools: bool,
) -> list[Message]:
    """Messages for the template, from checked ones. `tools` go into the system message if the template knows none."""
    results = [dict(message) for message in messages]
    if style == "plain":
        results = _plain(results, family)
    rendered = _Rendered(family, as_text=not template_knows_tools)
    for message in results:
        rendered.add(message)
    rendered.end_results()
    if tools and not template_knows_tools:
        _add_system(rendered.messages, tool_prompt(tools, family), family.default_system)
    return rendered.messages


def tool_prompt(tools: Sequence[Tool], family: Family) -> str:
    """What a model is told of its tools when its template has no words for it."""
    return family.tool_prompt.format(tools="\n".join(_describe(tool) for tool in tools))


def _describe(tool: Tool) -> str:
    """`- name(argument: type, optional?: type): description`, then a line for each argument that is described."""
    schema = tool.parameters if isinstance(tool.parameters, dict) else {}
    properties = schema.get("properties")
    required = schema.get("required")
    arguments: list[str] = []
    lines: list[str] = []
    for name, given in properties.items() if isinstance(properties, dict) else ():
        declared = given if isinstance(given, dict) else {}
        optional = "" if isinstance(required, list) and name in required else "?"
        arguments.append(f"{name}{optional}: {_type_name(declared)}")
        if declared.get("description"):
            lines.append(f"  {name}: {declared['description']}")
    first = f"- {tool.name}({', '.join(arguments)})" + (f": {tool.description}" if tool.description else "")
    return "\n".join([first, *lines])


def _type_name(schema: Message) -> str:
    choices = schema.get("enum")
    if isinstance(choices, list):
        return " or ".join(_dumps(choice) for choice in choices)
    kind = schema.get("type", "any")
    return " or ".join(str(item) for item in kind) if isinstance(kind, list) else str(kind)


def _add_system(messages: list[Message], text: str, default: str) -> None:
    if not messages or messages[0]["role"] != "system":
        messages.insert(0, {"role": "system", "content": default})
    given = messages[0]["content"]
    messages[0] = {**messages[0], "content": f"{given}\n\n{text}" if given else text}


class _Rendered:
    """Messages as the template must see them, made one after the other."""

    def __init__(self, family: Family, *, as_text: bool) -> None:
        self.messages: list[Message] = []
        self._family = family
        self._as_text = as_text
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
            self.messages.append(message)

    def end_results(self) -> None:
        """Templates look for results right behind the calls, so what is told otherwise comes behind all of them."""
        if self._told:
            self.messages.append({"role": "user", "content": "\n".join(self._told)})
            self._told = []

    def _result(self, message: Message) -> None:
        family = self._family
        if not self._as_text and (family.failed_result_role == "tool" or message["tool_call_id"] in self._call_ids):
            self.messages.append(message)
        else:
            self._told.append(family.result_text.format(name=message["name"], value=message["content"]))

    def _assistant(self, message: Message) -> None:
        family = self._family
        calls, failed = message.pop("tool_calls", []), message.pop("failed_tool_calls", [])
        if message.get("reasoning"):
            message["reasoning_content"] = message["reasoning"]
        if self._as_text or (failed and family.failed_result_role == "tool"):
            message["content"] = _append(message["content"], _written(calls, failed, family, as_text=self._as_text), family)
            calls = []
        elif failed:
            message["content"] = _append(message["content"], [call["raw"] for call in failed], family)
        if not calls:
            self.messages.append(message)
            return
        self._call_ids.update(call["id"] for call in calls)
        if not family.content_before_calls and message["content"].strip():
            self._split(message, calls)
            return
        separator = family.call.separator
        if separator and message["content"].endswith(separator):
            message["content"] = message["content"][: -len(separator)]
        self.messages.append({**message, "tool_calls": calls})

    def _split(self, message: Message, calls: list[Message]) -> None:
        """Content and calls as two messages: the template would write the content behind the results."""
        second: Message = {"role": "assistant", "content": "", "tool_calls": calls}
        if self._family.split_role != "assistant":
            for key in ("reasoning", "reasoning_content"):
                if key in message:
                    second[key] = message.pop(key)
        self.messages += [{**message, "role": self._family.split_role}, second]


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


def _plain(messages: list[Message], family: Family) -> list[Message]:
    """All results since a person's message as one user message behind it, with the question again."""
    rendered: list[Message] = []
    segment: list[Message] = []
    for message in messages:
        if message["role"] in ("user", "system"):
            rendered.extend(_plain_segment(segment, family))
            segment = []
        segment.append(message)
    return rendered + _plain_segment(segment, family)


def _plain_segment(segment: list[Message], family: Family) -> list[Message]:
    last = max((place for place, message in enumerate(segment) if message["role"] == "tool"), default=-1)
    if last < 0:
        return segment
    plain = family.plain
    question = next((message["content"] for message in segment if message["role"] == "user"), "")
    lines = [
        plain.line.format(name=message["name"], value=message["content"]) for message in segment if message["role"] == "tool"
    ]
    text = plain.text.format(results="\n".join(lines), question=question).strip()
    dropped = ("tool", "user", "assistant") if plain.merged else ("tool",)
    before: list[Message] = []
    for message in segment[: last + 1]:
        told = _as_text(message, family)
        if message["role"] == "assistant" == (before[-1]["role"] if before else "") and not plain.merged:
            # no results stand between them any more, and many templates want roles to alternate
            before[-1] = {**before[-1], "content": "\n".join(filter(None, (before[-1]["content"], told["content"])))}
        elif message["role"] not in dropped:
            before.append(told)
    return [*before, {"role": "user", "content": text}, *segment[last + 1 :]]


def _as_text(message: Message, family: Family) -> Message:
    """The message, its calls as text."""
    calls, failed = message.get("tool_calls", []), message.get("failed_tool_calls", [])
    if not calls and not failed:
        return message
    kept = {key: value for key, value in message.items() if key not in ("tool_calls", "failed_tool_calls")}
    kept["content"] = _append(message["content"], _written(calls, failed, family, as_text=True), family)
    return kept


def _dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
