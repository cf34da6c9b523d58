"""How near two tools are in meaning, by their words: deterministic, no model.

Each tool is the set of the words of its name, its description and its parameters' names, without filler words, cut to their
stems, with words that mean the same in tools' names (get, fetch, retrieve, …) as one. The measure is the cosine of the two
sets, each word weighing log(1 + number of tools / tools that have it): a word that all tools share says little.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

NEAR = 0.8
"""From this cosine on, two tools are near in meaning."""
MIN_SHARED = 2
"""So many words at least must be shared."""

_FILLER_WORDS = """
a an and any are as at be by can for from given has have if in into is it its of on one or our that the their them then there
these this to tool use used uses using when where which will with you your return returns please function
"""
_FILLER = frozenset(_FILLER_WORDS.split())
_SAME = (
    "get fetch retrieve obtain",
    "read show display print view",
    "find search look lookup locate grep query seek",
    "create make new add",
    "delete remove erase drop",
    "change edit modify update",
    "current now cur",
    "dir directory folder",
    "text string content",
    "run execute launch start",
    "list enumerate",
    "code source",
    "calc calculate compute",
)
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_ENDINGS = ("ations", "ation", "ings", "ing", "ies", "ers", "ed", "es", "er", "s", "e")


def split_words(text: str) -> list[str]:
    """The words of a name or a sentence, in lower case; `getTime` and `get_time` have two."""
    return [word.lower() for word in _WORD.findall(text)]


def stem(word: str) -> str:
    """A word without its ending, where at least three letters stay."""
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word.removesuffix(ending)
    return word


_CLASS = {stem(word): group.split()[0] for group in _SAME for word in group.split()}


def meaning_words(declaration: dict[str, Any]) -> set[str]:
    """The set of words that stands for a tool."""
    function = declaration.get("function", {})
    parameters = function.get("parameters")
    properties = parameters.get("properties") if isinstance(parameters, dict) else None
    texts = [str(function.get("name") or ""), str(function.get("description") or "")]
    texts += list(properties) if isinstance(properties, dict) else []
    stems = (stem(word) for text in texts for word in split_words(text) if word not in _FILLER)
    return {_CLASS.get(each, each) for each in stems}


def nearness(declarations: Sequence[dict[str, Any]]) -> list[tuple[int, int, float, list[str]]]:
    """For each pair of tools that shares words: their places, the cosine, and the words they share."""
    sets = [meaning_words(declaration) for declaration in declarations]
    having = Counter(word for words in sets for word in words)
    weight = {word: math.log(1 + len(sets) / count) for word, count in having.items()}
    lengths = [math.sqrt(sum(weight[word] ** 2 for word in words)) for words in sets]
    found = []
    for first in range(len(sets)):
        for second in range(first + 1, len(sets)):
            shared = sets[first] & sets[second]
            if shared:
                cosine = sum(weight[word] ** 2 for word in shared) / (lengths[first] * lengths[second])
                found.append((first, second, cosine, sorted(shared)))
    return found
