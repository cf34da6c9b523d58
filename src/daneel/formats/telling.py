"""How models are told of tools and results in words, where their template has none or does not get them to finish."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal

from daneel.formats.base import Tool
from daneel.formats.family import Family
from daneel.formats.syntax import MARKED_TOOL_PROMPT, TOOL_PROMPT, WorkedExample

Message = dict[str, Any]

NOTICE_NAME = "harness"
"""`name` of a user message in which the harness speaks, not the person: never the question that results answer."""


def is_question(message: Message) -> bool:
    """Whether the message is what a person asked."""
    return message["role"] == "user" and message.get("name") != NOTICE_NAME


def tool_prompt(tools: Sequence[Tool], family: Family) -> str:
    """What a model is told of its tools when its template has no words for it."""
    text = family.tool_prompt.text
    if text == TOOL_PROMPT and family.text_calls == "marked":
        text = MARKED_TOOL_PROMPT
    example = family.write_text_calls([("<tool name>", '{"<argument>": "<value>"}')])
    return text.format(tools="\n".join(_describe(tool) for tool in tools), example=example)


def tell_tools(
    messages: list[Message],
    tools: Sequence[Tool],
    family: Family,
    *,
    system: Literal["written", "dropped", "refused"] = "written",
) -> list[Message]:
    """The messages with the tools told in words: in the system message, or, for families that need worked examples, behind
    those in the questions. See `ToolPrompt`. `system`: what the template does with system messages."""
    told = _tell_tools(messages, tools, family)
    own = not (messages and messages[0]["role"] == "system")
    return without_system(told) if system == "dropped" or (system == "refused" and own) else told


def without_system(messages: list[Message]) -> list[Message]:
    """The system message's text at the start of the first question, for templates that write no system message."""
    if not messages or messages[0]["role"] != "system":
        return messages
    system, *rest = messages
    place = next((place for place, message in enumerate(rest) if message["role"] == "user"), None)
    if place is None:
        return [{**system, "role": "user"}, *rest]
    question = {**rest[place], "content": f"{system['content']}\n\n{rest[place]['content']}"}
    return [*rest[:place], question, *rest[place + 1 :]]


def _tell_tools(messages: list[Message], tools: Sequence[Tool], family: Family) -> list[Message]:
    text = tool_prompt(tools, family)
    examples = family.tool_prompt.examples
    places = _places(messages, family) if examples else []
    if not places:
        return _with_system(messages, family, text)
    system, *rest = _with_system(
        [_asked(message, text) if place in places else message for place, message in enumerate(messages)], family, ""
    )
    shown = [message for example in examples for message in _exchange(example, family)]
    return [*([system] if system["content"] else []), *shown, *rest]


def _asked(question: Message, text: str) -> Message:
    return {**question, "content": f"{question['content']}\n\n{text}"}


def _places(messages: Sequence[Message], family: Family) -> list[int]:
    """The questions that are told the tools."""
    if family.tool_prompt.examples_until_results:
        place = _open_question(messages)
        return [] if place is None else [place]
    return [place for place, message in enumerate(messages) if is_question(message) and not message.get("_results")]


def _open_question(messages: Sequence[Message]) -> int | None:
    """Index of the person's last message, if no tool has answered since."""
    for place in range(len(messages) - 1, -1, -1):
        if messages[place]["role"] == "tool" or messages[place].get("_results"):
            return None
        if is_question(messages[place]):
            return place
    return None


def _exchange(example: WorkedExample, family: Family) -> list[Message]:
    """A worked example, told as the real exchange is."""
    exchange: list[Message] = [{"role": "user", "content": example.question}]
    results = [{"role": "tool", "name": name, "content": result} for name, _, result in example.tools if result is not None]
    if results:
        calls = family.write_text_calls([(result["name"], "{}") for result in results])
        exchange.append({"role": "assistant", "content": calls})
    if example.answer is not None:
        exchange += [*results, {"role": "assistant", "content": example.answer}]
    question, *rest = tell_results(exchange, family)
    tools = [Tool(name, description) for name, description, _ in example.tools]
    return [_asked(question, tool_prompt(tools, family)), *rest]


def _with_system(messages: list[Message], family: Family, text: str) -> list[Message]:
    """`text` behind the request's own system message, or behind the one the template would have put there."""
    given, rest = family.tool_prompt.default_system, messages
    if messages and messages[0]["role"] == "system":
        given, rest = messages[0]["content"], messages[1:]
    return [{"role": "system", "content": "\n\n".join(part for part in (given, text) if part)}, *rest]


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
        return " or ".join(json.dumps(choice, ensure_ascii=False) for choice in choices)
    kind = schema.get("type", "any")
    return " or ".join(str(item) for item in kind) if isinstance(kind, list) else str(kind)


def tell_results(messages: Sequence[Message], family: Family) -> list[Message]:
    """The messages with every run of results as a plain user message that asks the question again.

    Append-only unless the family wants question and results as one message: what is told stays as it was on later turns, so
    that its tokens are still in the cache.
    """
    told = _Told(family)
    for message in messages:
        told.add(message)
    return told.messages


class _Told:
    """Messages in plain words, made one after the other."""

    def __init__(self, family: Family) -> None:
        self.messages: list[Message] = []
        self._plain = family.plain
        self._question = ""
        self._asked_at = 0  # where the question stands, for families that answer in its place
        self._lines: list[str] = []
        self._merges = family.plain.merged
        self._open = False  # whether the last message is a message of results

    def add(self, message: Message) -> None:
        if message["role"] == "tool":
            self._result(message)
        elif self._open and message["role"] == "user" and not is_question(message):
            # many templates want roles to alternate
            self.messages[-1]["content"] += f"\n\n{message['content']}"
        else:
            self._open = False
            if is_question(message):
                self._question, self._asked_at = message["content"], len(self.messages)
                self._lines, self._merges = [], self._plain.merged
            elif message.get("failed_tool_calls"):
                # what could not be read must stand where it stood, or the model cannot put it right
                self._lines, self._merges = [], False
            self.messages.append(message)

    def _result(self, message: Message) -> None:
        if not self._open and not self._merges:
            self._lines = []
        self._lines.append(self._plain.line.format(name=message["name"], value=message["content"]))
        if self._merges:
            del self.messages[self._asked_at :]
        elif self._open:
            self.messages.pop()
        text = self._plain.text.format(results="\n".join(self._lines), question=self._question).strip()
        self.messages.append({"role": "user", "content": text, "_results": True})
        self._open = True
