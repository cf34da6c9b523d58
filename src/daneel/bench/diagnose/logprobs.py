"""By how much one tool's name was likelier than another, from the log-probabilities that a server gave with a reply."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from daneel.bench.lint.tokens import num_common


def margins(reply: dict[str, Any], names: Sequence[str]) -> Iterator[tuple[str, str, float]]:
    """(name called, other name, margin in nats) for each call of a stored reply, and each other tool among the alternatives.

    Looked at is the first token that tells the two names apart: the margin is the log-probability of the token sampled there
    minus that of the likeliest alternative with which the other name goes on. Nothing where the reply has no `logprobs`.
    """
    tokens = _tokens(reply)
    if not tokens:
        return
    starts, text = [], ""
    for token in tokens:
        starts.append(len(text))
        text += token["token"]
    at = 0
    for called in _called(reply):
        place = text.find(called, at)
        if place < 0:
            continue
        at = place + len(called)
        for other in names:
            if other != called:
                found = _margin(tokens, starts, text, place, called, other)
                if found is not None:
                    yield called, other, found


def _margin(tokens: list[dict[str, Any]], starts: list[int], text: str, place: int, called: str, other: str) -> float | None:
    apart = place + num_common(called, other)
    index = max((number for number, start in enumerate(starts) if start <= apart), default=None)
    if index is None:
        return None
    begun = text[place : starts[index]]
    lead = text[starts[index] : place] if starts[index] < place else ""
    best: float | None = None
    for alternative in tokens[index].get("top_logprobs") or []:
        piece, logprob = alternative.get("token"), alternative.get("logprob")
        if not isinstance(piece, str) or not isinstance(logprob, int | float) or not piece.startswith(lead):
            continue
        spelled = begun + piece[len(lead) :]
        goes_on = other.startswith(spelled) or (spelled.startswith(other) and not spelled.startswith(called))
        if goes_on and len(spelled) > apart - place and (best is None or logprob > best):
            best = float(logprob)
    chosen = tokens[index].get("logprob")
    return float(chosen) - best if best is not None and isinstance(chosen, int | float) else None


def _tokens(reply: dict[str, Any]) -> list[dict[str, Any]]:
    held = reply.get("logprobs")
    content = held.get("content") if isinstance(held, dict) else None
    if not isinstance(content, list):
        return []
    return [token for token in content if isinstance(token, dict) and isinstance(token.get("token"), str)]


def _called(reply: dict[str, Any]) -> Iterator[str]:
    message = reply.get("message")
    calls = message.get("tool_calls") if isinstance(message, dict) else None
    for call in calls if isinstance(calls, list) else []:
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict) and isinstance(function.get("name"), str):
            yield function["name"]
