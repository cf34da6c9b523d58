"""How long a prompt is, without a tokenizer: bytes, counted once per message, and a rate learned from the server's counts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from daneel.harness.inline_thoughts import thought_tags
from daneel.harness.run_record import JsonObject

MESSAGE_BYTES = 16
"""What a template writes around each message, about."""
FIRST_RATE = 0.3
"""Tokens a byte before any count is known: rather too many than too few."""
RATES = (0.08, 1.2)
"""Tokens a byte that can be; a count outside of this was not of the whole prompt."""
MAX_CHARS_PER_TOKEN = 7.0
"""No tokenizer does better over any length of text, runs of one character left out."""

LEAST_LETTERS_PER_TOKEN = 2.5
MESSAGE_TOKENS = 12
"""What a template writes around a message or a call, at most."""

_LETTERS = re.compile(r"[A-Za-z\s]+")
_RUN = re.compile(r"(.)\1{3,}", re.DOTALL)
_THOUGHT_FIELDS = ("reasoning", "reasoning_content", "thinking")


@dataclass(frozen=True, slots=True)
class Size:
    """The size of messages, and what is certain of their tokens.

    `told_chars`: of what every template writes in full, results and what users and system say, runs of one character counted
    short. `most_tokens`: no tokenizer makes more of them. `optional_tokens`: so many of those at most are in what templates may
    leave out of history, thoughts and words beside calls.
    """

    num_bytes: int = 0
    told_chars: int = 0
    most_tokens: int = 0
    optional_tokens: int = 0

    def __add__(self, other: Size) -> Size:
        return Size(
            self.num_bytes + other.num_bytes,
            self.told_chars + other.told_chars,
            self.most_tokens + other.most_tokens,
            self.optional_tokens + other.optional_tokens,
        )


def size_of(message: JsonObject) -> Size:
    """The size of one message."""
    content = message.get("content")
    text = content if isinstance(content, str) else "" if content is None else json.dumps(content, default=str)
    thoughts = [message[name] for name in _THOUGHT_FIELDS if isinstance(message.get(name), str)]
    calls = [_as_text(call) for call in (*(message.get("tool_calls") or ()), *(message.get("failed_tool_calls") or ()))]
    num_bytes = MESSAGE_BYTES * (1 + len(calls)) + sum(_num_bytes(part) for part in (text, *thoughts, *calls))
    most = MESSAGE_TOKENS * (1 + len(calls)) + sum(_most_tokens(part) for part in (text, *thoughts, *calls))
    if message.get("role") != "assistant":
        return Size(num_bytes, len(_RUN.sub(r"\1\1\1\1", text)), most, 0)
    optional = sum(_most_tokens(part) for part in thoughts)
    if calls or any(tag in text for pair in thought_tags().items() for tag in pair):
        optional += _most_tokens(text)
    return Size(num_bytes, 0, most, optional)


def sizes_of(messages: Iterable[JsonObject]) -> Size:
    """The size of messages together."""
    total = Size()
    for message in messages:
        total += size_of(message)
    return total


def declarations_bytes(declarations: Sequence[JsonObject]) -> int:
    """The size of a request's tools."""
    return _num_bytes(json.dumps(declarations, ensure_ascii=False)) if declarations else 0


class Rate:
    """Tokens a byte, from the server's own counts; and with the last of them, what a prompt that goes on from it comes to."""

    def __init__(self) -> None:
        self.tokens_per_byte = FIRST_RATE
        self._known: tuple[int, int] | None = None

    def tokens(self, num_bytes: int) -> int:
        """About how many tokens so many bytes of a prompt are."""
        if self._known is None or num_bytes < self._known[0]:
            return round(num_bytes * self.tokens_per_byte)
        known_bytes, known_tokens = self._known
        # what is new may be of another kind than what was counted: figures, another language
        return known_tokens + round((num_bytes - known_bytes) * max(self.tokens_per_byte, FIRST_RATE))

    def learn(self, num_bytes: int, prompt_tokens: int) -> None:
        """The server has counted a prompt of so many bytes."""
        if num_bytes and RATES[0] <= prompt_tokens / num_bytes <= RATES[1]:
            self.tokens_per_byte = prompt_tokens / num_bytes
            self._known = num_bytes, prompt_tokens

    def forget(self) -> None:
        """The prompt does not go on from the last one: the rate stays, the count does not."""
        self._known = None


def _as_text(call: JsonObject) -> str:
    """What of a call every template writes."""
    function = call.get("function")
    if isinstance(function, dict):
        return f"{function.get('name')} {function.get('arguments')}"
    return str(call.get("raw") or "")


def _most_tokens(text: str) -> int:
    """More tokens than any tokenizer makes of a text: figures and signs may be one each, letters come in pieces of words."""
    dense = _num_bytes(_LETTERS.sub("", text))
    return dense + round((_num_bytes(text) - dense) / LEAST_LETTERS_PER_TOKEN)


def _num_bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))
