"""Silent truncation, found from the outside: the conversation has grown, and the server's count of the prompt has not.

Some servers cut a prompt that does not fit and say nothing. Their count then stays flat, or falls, while messages are only
added. It is told from the harmless cases with caution, because a false alarm would throw a good run away:

- Growth is reckoned low: results and what was said to the model, at more characters a token than any tokenizer reaches; what
  templates may leave out of history (thoughts, words beside calls) may have gone altogether.
- Only counts of the same server with the same tools are compared, and none over a compaction.
- A server may count only what was not in its cache. Its figures then follow what is new in each turn; a count that can be
  explained so is no evidence, unless the server has shown that it counts whole prompts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from daneel.harness.token_estimate import MAX_CHARS_PER_TOKEN, Size

MARGIN_TOKENS = 48
MARGIN_SHARE = 0.02
"""A count may be this much lower than reckoned: of the tokens, or of the prompt."""
IMPLAUSIBLE_CHARS_PER_TOKEN = 12.0
"""A first prompt with more characters a token than this was not counted whole, or not read whole."""
LEAST_CUT_TOKENS = 128
"""No context is so small that a prompt would be cut to less."""
NEAR_CONTEXT = 0.85
TURN_TOKENS = 24
"""What a template writes at the end of a prompt, at most: counted anew each time."""
PROOFS = 3
"""Counts higher than the new part can have been, after which a server is taken to count whole prompts."""


@dataclass(frozen=True, slots=True)
class Counted:
    """One request and the server's count of its prompt. `key`: counts of one server are compared only where it is the same."""

    size: Size
    prompt_tokens: int
    cached_tokens: int | None = None
    server: str = ""
    key: Any = None


class UsageCheck:
    """Counts of one run, in order. `counts_all`: whether they are of whole prompts, as far as can be told."""

    def __init__(self) -> None:
        self._server: str | None = None
        self._start()

    def _start(self) -> None:
        self.counts_all = True
        self._proofs = 0
        self.forget()

    def forget(self) -> None:
        """The next prompt does not go on from the last one."""
        self._anchor: Counted | None = None
        self._last: Counted | None = None
        self._doubts = self._new_bytes = 0

    def see(self, now: Counted, context_tokens: int | None = None) -> str | None:
        """What is wrong with this count, in one sentence; None: nothing that could be told."""
        if self._server != now.server:
            self._start()
        self._server = now.server
        if not self.counts_all or not now.prompt_tokens:
            return None
        cached = now.cached_tokens
        if cached is not None and cached > now.prompt_tokens:
            self.counts_all = False
            return None
        if cached:
            self._proofs = PROOFS
        if self._anchor is not None and self._last is not None and self._anchor.key == now.key == self._last.key:
            found = self._compare(self._anchor, self._last, now, context_tokens)
            self._new_bytes = now.size.num_bytes - self._last.size.num_bytes
        else:
            self.forget()
            self._anchor = now
            found = self._first(now, context_tokens)
        self._last = now
        return found

    def _first(self, now: Counted, context_tokens: int | None) -> str | None:
        if now.size.told_chars / now.prompt_tokens <= IMPLAUSIBLE_CHARS_PER_TOKEN:
            return None
        if _is_near(now.prompt_tokens, context_tokens) or self._proofs >= PROOFS:
            at_least = round(now.size.told_chars / MAX_CHARS_PER_TOKEN)
            return (
                f"the server has cut the prompt and not said so: it counted {now.prompt_tokens} prompt tokens, "
                f"where the messages come to at least {at_least}"
            )
        self.counts_all = False
        return None

    def _compare(self, anchor: Counted, last: Counted, now: Counted, context_tokens: int | None) -> str | None:
        grown = max(0, round((now.size.told_chars - anchor.size.told_chars) / MAX_CHARS_PER_TOKEN))
        expected = anchor.prompt_tokens + grown - anchor.size.optional_tokens
        missing = expected - now.prompt_tokens
        at_most_new = now.size.most_tokens - last.size.most_tokens + TURN_TOKENS
        if missing <= 0:
            self._anchor, self._doubts = now, 0
            if now.prompt_tokens > at_most_new:
                self._proofs += 1
            return None
        if missing <= max(MARGIN_TOKENS, MARGIN_SHARE * expected):
            return None
        if now.prompt_tokens < LEAST_CUT_TOKENS and now.size.told_chars / now.prompt_tokens > IMPLAUSIBLE_CHARS_PER_TOKEN:
            self.counts_all = False  # some put the same small number everywhere
            return None
        new = max(0, round((now.size.told_chars - last.size.told_chars) / MAX_CHARS_PER_TOKEN))
        is_low = now.prompt_tokens < anchor.prompt_tokens / 2
        self._doubts += 1
        if self._proofs < PROOFS and not _is_near(now.prompt_tokens, context_tokens):
            if new <= now.prompt_tokens <= at_most_new and not self._stays(last, now):
                # may well be what was not in the cache; seen twice, or after a fall, it is
                self.counts_all = self._doubts < 2 and not is_low
                return None
            if is_low and now.prompt_tokens >= new and self._doubts < 2 and not self._proofs:
                return None
        return (
            f"the server has cut the prompt and not said so: it counted {now.prompt_tokens} prompt tokens, after "
            f"{anchor.prompt_tokens} before, while the conversation grew by {grown} tokens at least"
        )

    def _stays(self, last: Counted, now: Counted) -> bool:
        """Whether the count stays the same though very different amounts were new: then it is not the new part's."""
        new_bytes = now.size.num_bytes - last.size.num_bytes
        is_flat = abs(now.prompt_tokens - last.prompt_tokens) <= MARGIN_SHARE * last.prompt_tokens
        is_alike = 0.7 * self._new_bytes <= new_bytes <= 1.4 * self._new_bytes
        is_possible = now.prompt_tokens >= LEAST_CUT_TOKENS
        return is_possible and is_flat and self._doubts > 1 and not is_alike


def _is_near(prompt_tokens: int, context_tokens: int | None) -> bool:
    return context_tokens is not None and NEAR_CONTEXT * context_tokens <= prompt_tokens
