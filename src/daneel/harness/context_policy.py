"""`ContextPolicy`: how a harness keeps a conversation within the server's context."""

from __future__ import annotations

from dataclasses import dataclass, fields

from daneel.errors import UserError


@dataclass(frozen=True, kw_only=True)
class ContextPolicy:
    """When the conversation is made shorter, how far, and by what. Raises UserError for values that cannot be.

    What is left out stays in the record of the run; only what is sent changes. The system message, the question and the
    last turns are left as they are; only a result that by itself is more than there is room for is cut.
    """

    context_tokens: int | None = None
    """The context to reckon with; None: what the server says, and where it says nothing, what its errors tell."""
    reply_tokens: int | None = None
    """Room kept for the reply; None: `max_tokens`, but at most a quarter of the context."""
    compact_at: float = 0.85
    """The share of what is left for the prompt at which the conversation is made shorter."""
    compact_to: float = 0.5
    """How short it is made: far below, so that it is done seldom, and the server's cache holds what is sent until then."""
    keep_turns: int = 3
    """The last turns, which are left as they are. Where that is too much, all but the very last may go."""
    shorten_results: bool = True
    """First tier: results and thoughts of old turns are left out, oldest first; a sentence says what was there."""
    fold_turns: bool = True
    """Second tier: old turns become a list, one line for each call."""
    summarise: bool = True
    """Third tier: when that list has become long, the model writes a summary of it. Off, or failed: its oldest lines go."""
    list_share: float = 0.2
    """The share of what is left for the prompt from which the list counts as long."""
    summary_tokens: int = 512
    """The room that a summary may take, and the request for it asks for."""
    check_usage: bool = True
    """End a run as `invalid` when the server's own count shows that it has cut the prompt and not said so."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(field.default, bool):
                if not isinstance(value, bool):
                    raise UserError(f"context: {field.name} must be True or False, not {value!r}")
            elif isinstance(field.default, float):
                if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1:
                    raise UserError(f"context: {field.name} must be a share between 0 and 1, not {value!r}")
            elif value is None and field.default is None:
                continue
            elif isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise UserError(f"context: {field.name} must be a whole number of at least 1, not {value!r}")
        if self.compact_to >= self.compact_at:
            raise UserError(f"context: compact_to ({self.compact_to}) must be less than compact_at ({self.compact_at})")

    def reserve(self, context_tokens: int, max_tokens: int | None) -> int:
        """Tokens of a context that are kept for the reply."""
        if self.reply_tokens is not None:
            return min(self.reply_tokens, context_tokens * 3 // 4)
        return min(max_tokens or context_tokens, context_tokens // 4)
