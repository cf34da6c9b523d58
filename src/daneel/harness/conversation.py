"""The messages of a run, in the form the server at the other end can take.

To daneel's server a failed call goes back as it came (`failed_tool_calls`, answered by a `tool` message), because that server
renders the model's own text where it stood. Any other server gets that text as content and the answer as a user message:
arguments that are not JSON, replayed in `tool_calls`, make many servers answer 400 or 500 for ever after.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from daneel.formats import history
from daneel.formats.family import Family
from daneel.formats.telling import NOTICE_NAME
from daneel.formats.template_traits import TemplateTraits
from daneel.harness.recovery import Attempt
from daneel.harness.reply import put_thoughts
from daneel.wire.messages import Message

JsonObject = dict[str, Any]


RELEASED: JsonObject = {"role": "released"}
"""In place of a message that a very long run has let go of."""

MAX_KNOWN_IDS = 4096
"""Ids of calls that are told from one another: far more than one request holds."""


class Conversation:
    """Append-only history, and what is sent of it.

    `is_daneel`: the server knows daneel's additions; `on_message` is told of every message added.

    Every message goes through `redact` before it is kept, so that no secret is ever sent.
    """

    def __init__(
        self,
        *,
        is_daneel: bool,
        on_message: Callable[[JsonObject], None],
        redact: Callable[[JsonObject], JsonObject] | None = None,
    ) -> None:
        self.is_daneel = is_daneel
        self._redact = redact
        self.messages: list[JsonObject] = []
        self.sent: list[JsonObject] = []
        """The messages as they are sent: the same, but for what compaction has put in their place."""
        self.heard_at: list[int] = []
        """Where, among the messages, a person speaks: the question, and what came in later."""
        self.question = ""
        self._on_message = on_message
        self._to_say: list[str] = []
        self._heard = False
        self._notices: list[JsonObject] = []
        self._ids: dict[str, None] = {}
        self._issued = 0

    def start(self, system: str | None, prompt: str) -> None:
        if system:
            self._add({"role": "system", "content": system})
        self.heard_at.append(len(self.messages))
        self._add({"role": "user", "content": prompt})
        self.question = prompt

    def _add(self, message: JsonObject) -> JsonObject:
        if self._redact is not None:
            message = self._redact(message)
        self.messages.append(message)
        self.sent.append(message)
        self._on_message(message)
        return message

    def rewrite(self, sent: list[JsonObject], *, notices: Sequence[JsonObject] = ()) -> None:
        """Send these messages from now on, and behind them what is added. The record stays as it is.

        `notices`: those of them in which the harness speaks, not a person.
        """
        self.sent = sent
        self._notices.extend(notices)

    def release(self, place: int) -> bool:
        """Let go of a message that will not be sent again. What a person said, and what comes before it, stays."""
        if place in self.heard_at or place < self.heard_at[0]:
            return False
        self.messages[place] = RELEASED
        return True

    @property
    def kept(self) -> list[JsonObject]:
        """The messages on record, but for those that were let go of."""
        return [message for message in self.messages if message is not RELEASED]

    def next_id(self) -> str:
        """An id for a call that came without one: nine letters and digits, the strictest form a server asks for."""
        self._issued += 1
        return f"call{self._issued:05d}"

    def make_ids_unique(self, attempts: Sequence[Attempt]) -> None:
        """An id that this run has seen before is replaced: a result must answer one call."""
        for attempt in attempts:
            if attempt.id in self._ids:
                attempt.id = self.next_id()
            self._ids[attempt.id] = None
        while len(self._ids) > MAX_KNOWN_IDS:
            del self._ids[next(iter(self._ids))]

    def say(self, text: str) -> None:
        """Something to tell the model. All of it goes in one user message: many templates want roles to alternate."""
        self._to_say.append(text)

    def hear(self, text: str) -> None:
        """Something the user has said: part of the next user message, and now the question."""
        self._to_say.append(text)
        self._heard = True
        self.question = text

    @property
    def to_say(self) -> Sequence[str]:
        """What the next request will say in a user message."""
        return self._to_say

    @property
    def has_to_say(self) -> bool:
        """Whether the next request will begin with a user message."""
        return bool(self._to_say)

    def ready(self, *, plain: Family | None) -> list[JsonObject]:
        """The messages to send, what was to be said included.

        `plain`: results as plain user messages, in this family's words. daneel's server does that itself, for any other it is
        done here.
        """
        if self._to_say:
            message: JsonObject = {"role": "user", "content": "\n\n".join(self._to_say)}
            if not self._heard:
                # so that a notice is not taken for the question when results are told plainly
                if self.is_daneel:
                    message["name"] = NOTICE_NAME
                self._notices.append(self._add(message))
            else:
                self.heard_at.append(len(self.messages))
                self._add(message)
            self._to_say.clear()
            self._heard = False
        if plain is None or self.is_daneel:
            return self.sent
        notices = {id(message) for message in self._notices}
        named = [{**message, "name": NOTICE_NAME} if id(message) in notices else message for message in self.sent]
        told = history.for_template(history.check(named), family=plain, tools=(), style="plain", traits=TemplateTraits())
        return [{key: value for key, value in message.items() if key != "name"} for message in told]

    def add_reply(self, message: Message, attempts: Sequence[Attempt], *, reasoning_field: str | None) -> None:
        """The model's reply as history has it: calls as they were made, failed ones in the server's terms."""
        content = message.content or ""
        reply: JsonObject = {"role": "assistant", "content": content}
        calls = [attempt for attempt in attempts if attempt.arguments is not None]
        unreadable = [attempt for attempt in attempts if attempt.arguments is None]
        if calls:
            reply["tool_calls"] = [_as_call(attempt) for attempt in calls]
        if unreadable and self.is_daneel:
            reply["failed_tool_calls"] = [_as_failed(attempt, attempts.index(attempt)) for attempt in unreadable]
        elif unreadable:
            parts = [content, *(attempt.raw for attempt in unreadable if attempt.raw not in content)]
            reply["content"] = "\n".join(part for part in parts if part)
        reasoning = message.reasoning or message.reasoning_content
        if reasoning:
            put_thoughts(reply, reasoning, reasoning_field)
        self._add(reply)

    def add_text(self, text: str) -> None:
        """A reply that is only text."""
        self._add({"role": "assistant", "content": text})

    def add_results(self, attempts: Sequence[Attempt], texts: Sequence[str]) -> None:
        """One text for every call of the last reply, in the order the model wrote them."""
        for attempt, text in zip(attempts, texts, strict=True):
            if attempt.arguments is not None or self.is_daneel:
                self._add({"role": "tool", "tool_call_id": attempt.id, "content": text})
            else:
                self.say(text)

    def settle(self, results: Mapping[str, str], *, interrupted_call: str, interrupted_reply: str) -> None:
        """Complete what was interrupted: a result for every call (from `results` if known), a reply to everything."""
        at = max((i for i, message in enumerate(self.messages) if message["role"] == "assistant"), default=None)
        if at is not None:
            reply, answered = self.messages[at], {message.get("tool_call_id") for message in self.messages[at + 1 :]}
            for call in [*reply.get("tool_calls", ()), *reply.get("failed_tool_calls", ())]:
                if call["id"] not in answered:
                    content = results.get(call["id"], interrupted_call)
                    self._add({"role": "tool", "tool_call_id": call["id"], "content": content})
        if self.messages[-1]["role"] != "assistant":
            self._add({"role": "assistant", "content": interrupted_reply})


def _as_call(attempt: Attempt) -> JsonObject:
    return {"id": attempt.id, "type": "function", "function": {"name": attempt.name, "arguments": attempt.arguments}}


def _as_failed(attempt: Attempt, position: int) -> JsonObject:
    """A failed call as daneel's server sent it, or, for one it took for good, in the same shape."""
    failed = attempt.failed
    error = {"type": "malformed", "message": attempt.problem.error if attempt.problem else "", "offset": 0}
    if failed is not None:
        error = {"type": failed.error.type, "message": failed.error.message, "offset": failed.error.offset}
    return {
        "id": attempt.id,
        "position": position,
        "name": attempt.name,
        "raw": attempt.raw,
        "error": error,
        "format": failed.format if failed else "json",
    }
