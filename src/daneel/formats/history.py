"""The history as the model's template must see it.

`check()` makes a normal form of what people send; `for_template()` then decides, by the family's description, how calls and
results are told: natively, in plain words, or as text when the template knows no tools.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
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
    as_text = not template_knows_tools
    rendered: list[Message] = []
    for message in results:
        if message["role"] == "assistant":
            rendered.extend(_assistant(message, family, as_text=as_text))
        elif message["role"] == "tool":
            _append_result(rendered, message, family, as_text=as_text)
        else:
            rendered.append(message)
    for message in rendered:
        message.pop("_results", None)
    if tools and as_text:
        _add_system(rendered, tool_prompt(tools, family))
    return rendered


def tool_prompt(tools: Sequence[Tool], family: Family) -> str:
    """What a model is told of its tools when its template has no words for it."""
    lines = [_describe(tool) for tool in tools]
    call = family.call
    example = f'{call.open}{call.open_pad}{{"name": NAME, "arguments": {{ARGUMENT: VALUE}}}}{call.close_pad}{call.close}'
    return family.tool_prompt.format(tools="\n".join(lines), example=example)


def _describe(tool: Tool) -> str:
    properties = tool.parameters.get("properties") if isinstance(tool.parameters, dict) else None
    described = {"name": tool.name, "description": tool.description}
    return json.dumps({**described, "parameters": properties or {}}, ensure_ascii=False)


def _add_system(messages: list[Message], text: str) -> None:
    if messages and messages[0]["role"] == "system":
        first = messages[0]
        messages[0] = {**first, "content": f"{first['content']}\n\n{text}" if first["content"] else text}
    else:
        messages.insert(0, {"role": "system", "content": text})


def _assistant(message: Message, family: Family, *, as_text: bool) -> list[Message]:
    calls, failed = message.pop("tool_calls", []), message.pop("failed_tool_calls", [])
    reasoning = message.get("reasoning")
    if reasoning:
        message["reasoning_content"] = reasoning
    if not calls and not failed:
        return [message]
    if as_text or (failed and family.failed_result_role == "tool"):
        written = [family.write_call(call["function"]["name"], _dumps(call["function"]["arguments"])) for call in calls]
        for call in sorted(failed, key=lambda item: int(item["position"])):
            written.insert(call["position"], call["raw"])
        message["content"] = _with_calls(message["content"], written, family)
        return [message]
    message["content"] = _with_calls(message["content"], [call["raw"] for call in failed], family)
    if not calls:
        return [message]
    if not family.content_before_calls and message["content"].strip():
        # the family's template would write the content behind the results
        return [message, {"role": "assistant", "content": "", "tool_calls": calls}]
    separator = family.call.separator
    if separator and message["content"].endswith(separator):
        message["content"] = message["content"][: -len(separator)]
    return [{**message, "tool_calls": calls}]


def _with_calls(content: str, written: list[str], family: Family) -> str:
    separator = family.call.separator
    text = separator.join(written)
    if not content or not text:
        return content + text
    return content + text if not separator or content.endswith(separator) else content + separator + text


def _append_result(rendered: list[Message], message: Message, family: Family, *, as_text: bool) -> None:
    """A result: the template's own `tool` message where it has one, else part of a user message."""
    answers_failed = not any(
        call["id"] == message["tool_call_id"] for earlier in rendered for call in earlier.get("tool_calls", ())
    )
    if not as_text and (family.failed_result_role == "tool" or not answers_failed):
        rendered.append(message)
        return
    text = family.result_text.format(name=message["name"], value=message["content"])
    if rendered and rendered[-1].get("_results"):
        rendered[-1]["content"] += "\n" + text
    else:
        rendered.append({"role": "user", "content": text, "_results": True})


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
    rendered: list[Message] = []
    for message in segment[: last + 1]:
        if message["role"] == "assistant":
            told = _told(message, plain.call_text)
            if told is not None:
                rendered.append(told)
        elif message["role"] != "tool":
            rendered.append(message)
    lines = [
        plain.line.format(name=message["name"], value=message["content"]) for message in segment if message["role"] == "tool"
    ]
    text = "\n".join([plain.intro, *lines, plain.outro.format(question=question)])
    return [*rendered, {"role": "user", "content": text.strip()}, *segment[last + 1 :]]


def _told(message: Message, call_text: str | None) -> Message | None:
    """An assistant message that made calls, in plain words; `None` when nothing is left of it."""
    kept: Message = {key: value for key, value in message.items() if key not in ("tool_calls", "failed_tool_calls")}
    if len(kept) == len(message):
        return kept
    parts = [part for part in (message["content"].strip(), call_text) if part]
    kept["content"] = "\n".join(parts)
    return kept if parts else None


def _dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
