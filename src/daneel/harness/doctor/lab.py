"""What probes work with: a server, a place for findings, and chat requests read both as they came and as they are meant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from daneel.harness.doctor.exchange import Exchange, Sender
from daneel.harness.run_record import JsonObject
from daneel.wire.accumulate import Accumulator
from daneel.wire.error_body import PeerError
from daneel.wire.messages import Message

MAX_TOKENS = 192
"""Per request: enough for a short thought and a call."""


@dataclass(frozen=True)
class Finding:
    """One thing found out. `value` is for programs (None: it could not be found out), `words` for people."""

    topic: str
    name: str
    value: Any
    words: str


class Answer:
    """The reply to a chat request: `payloads` as they came, `message` as it is meant."""

    def __init__(self, exchange: Exchange) -> None:
        self.exchange = exchange
        self.payloads = exchange.payloads()
        read = Accumulator()
        for payload in self.payloads:
            read.add(payload)
        read.final_delta()
        self.message: Message = read.message()
        self.finish_reason = read.finish_reason
        self.cached_tokens = read.cached_tokens
        self.prompt_tokens = read.usage.prompt_tokens if read.usage else None
        self.completion_tokens = read.usage.completion_tokens if read.usage else None
        self.reasoning_field = read.reasoning_field
        self.warnings = read.warnings
        self.system_fingerprint = read.system_fingerprint

    @property
    def error(self) -> PeerError | None:
        return self.exchange.error()

    @property
    def ok(self) -> bool:
        """A whole reply came: the dialect's success, and no error in it."""
        return self.exchange.ok and self.error is None and self.finish_reason is not None

    @property
    def content(self) -> str:
        return self.message.content or ""

    @property
    def call_names(self) -> list[str]:
        return [call.function.name for call in self.message.tool_calls]

    def parts(self) -> list[JsonObject]:
        """Every `message` or `delta`, as it came."""
        found = []
        for payload in self.payloads:
            choices = payload.get("choices") if isinstance(payload, dict) else None
            for choice in choices if isinstance(choices, list) else []:
                if isinstance(choice, dict):
                    part = choice.get("message") or choice.get("delta")
                    if isinstance(part, dict):
                        found.append(part)
        return found

    def call_pieces(self) -> list[list[JsonObject]]:
        """The `tool_calls` of every part, as they came: a list for each part that has any."""
        listed = [part["tool_calls"] for part in self.parts() if isinstance(part.get("tool_calls"), list)]
        return [[piece for piece in pieces if isinstance(piece, dict)] for pieces in listed if pieces]


@dataclass
class Lab:
    """One examination of one server."""

    sender: Sender
    model: str | None
    findings: list[Finding] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    """Every chat reply so far: what holds for all of them is found at the end."""

    def found(self, topic: str, name: str, value: Any, words: str) -> None:
        self.findings.append(Finding(topic, name, value, words))

    def unknown(self, topic: str, name: str, why: str | Answer | Exchange) -> None:
        """It could not be found out, and why."""
        if isinstance(why, Answer):
            why = why.exchange
        self.found(topic, name, None, f"not found out: {why.said() if isinstance(why, Exchange) else why}")

    def value(self, topic: str, name: str) -> Any:
        """What was found, or None."""
        return next((found.value for found in self.findings if (found.topic, found.name) == (topic, name)), None)

    def chat(
        self,
        messages: str | Sequence[JsonObject],
        *,
        tools: Sequence[JsonObject] = (),
        stream: bool = False,
        max_tokens: int = MAX_TOKENS,
        leave_after: bytes | None = None,
        headers: dict[str, str] | None = None,
        **params: Any,
    ) -> Answer:
        """One chat request; a text is a user's message. `params` are further fields; one that is None is left out."""
        listed = [{"role": "user", "content": messages}] if isinstance(messages, str) else list(messages)
        body: JsonObject = {"messages": listed, "max_tokens": max_tokens, "temperature": 0, "stream": stream}
        body |= {"model": self.model} if self.model is not None else {}
        body |= {"tools": list(tools)} if tools else {}
        body |= {"stream_options": {"include_usage": True}} if stream else {}
        body = {name: value for name, value in {**body, **params}.items() if value is not None}
        answer = Answer(self.sender.send("POST", "/chat/completions", body, leave_after=leave_after, headers=headers))
        self.answers.append(answer)
        return answer


def function(name: str, description: str, **properties: JsonObject) -> JsonObject:
    """A tool's declaration; all properties are required."""
    parameters = {"type": "object", "properties": properties, "required": list(properties)}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


CUR_TIME = function("cur_time", "Get the current time")
CUR_DATE = function("cur_date", "Get the current date")
ADD = function("add", "Add two numbers", a={"type": "integer"}, b={"type": "integer"})
SAVE = function("save_text", "Save a text", text={"type": "string", "description": "The whole text"})
