"""Names of tools: near to each other, or longer than needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from daneel.bench.lint.meaning import MIN_SHARED, NEAR, nearness, split_words
from daneel.bench.lint.tokens import TokenCounter, num_common

MIN_PREFIX_TOKENS = 2
MIN_PREFIX_SHARE = 0.6
"""Of the shorter name's tokens, the share that the common prefix has, for the two to be easily taken for each other."""
MIN_PREFIX_CHARS = 5
MAX_NAME_WORDS = 4
MAX_NAME_CHARS = 30
_FILLER_WORDS = "the a an of from for to in on with and by using tool function helper util method call"
_FILLER = frozenset(_FILLER_WORDS.split())


@dataclass(frozen=True)
class Near:
    """Tools that are easily taken for one another, and why."""

    tools: tuple[str, ...]
    why: str
    data: dict[str, Any]


def common_prefixes(names: Sequence[str], counter: TokenCounter) -> Iterator[Near]:
    """Groups of names that begin with the same tokens, and differ late."""
    pieces = {name: counter.pieces(name) for name in names}
    groups: dict[tuple[str, int], set[str]] = {}
    for a, b in combinations(names, 2):
        shared = num_common(pieces[a], pieces[b])
        prefix = "".join(pieces[a][:shared])
        shorter = min(len(pieces[a]), len(pieces[b]))
        if shared >= MIN_PREFIX_TOKENS and shared >= MIN_PREFIX_SHARE * shorter and len(prefix) >= MIN_PREFIX_CHARS:
            groups.setdefault((prefix, shared), set()).update((a, b))
    for (prefix, shared), members in groups.items():
        ordered = tuple(name for name in names if name in members)
        unit = "tokens" if counter.exact else "pieces, estimated from the characters"
        why = f"their names begin with the same {shared} {unit}: {prefix!r}"
        yield Near(ordered, why, {"way": "prefix", "prefix": prefix, "prefix_tokens": shared, "exact": counter.exact})


def near_in_meaning(declarations: Sequence[dict[str, Any]], names: Sequence[str]) -> Iterator[Near]:
    """Pairs of tools whose words are nearly the same."""
    for first, second, cosine, shared in nearness(declarations):
        if cosine >= NEAR and len(shared) >= MIN_SHARED:
            why = f"they say nearly the same: {', '.join(shared)} (cosine {cosine:.2f} of their words)"
            yield Near((names[first], names[second]), why, {"way": "meaning", "cosine": round(cosine, 4), "shared": shared})


def shorter_name(name: str, others: Sequence[str]) -> str | None:
    """A shorter name that no other tool has, for one that is longer than needed; None where it is not."""
    words = split_words(name)
    if len(words) <= MAX_NAME_WORDS and len(name) <= MAX_NAME_CHARS:
        return None
    telling = list(dict.fromkeys(word for word in words if word not in _FILLER)) or words
    taken = {other for other in others if other != name}
    common = set.intersection(*(set(split_words(other)) for other in taken)) if taken else set()
    rest = [word for word in telling if word not in common] or telling
    candidates = ["_".join(part) for part in (rest[:3], [*rest[:2], rest[-1]], rest, telling)]
    return next((each for each in candidates if each not in taken and len(each) < len(name)), None)
