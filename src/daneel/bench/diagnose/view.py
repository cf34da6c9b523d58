"""One stored run as diagnosis looks at it: which tools were shown, what was called, what came back, and what was made of it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

MAX_TEXT_CHARS = 20_000
"""So much of a result is looked at."""
FAILED_WORDS = ("error", "traceback", "exception:", "failed:")
EMPTY_RESULTS = frozenset({"", "[]", "{}", "null", "none", '""', "()"})
"""Results that say that there is nothing; beside those that begin with "no …" or "nothing", see `CallView.is_empty`."""

_WORD = re.compile(r"\w+")
_FACT = re.compile(r"(?<![\w./:-])(?=[\w./:-]*\d)\w+(?:[./:-]\w+)*")
_NOTHING = re.compile(r"(?:there (?:is|are|was|were) )?(?:no|nothing|none|0)\b[^.\n]{0,60}\.?\s*\Z", re.IGNORECASE)
_CHANGING = frozenset({"write", "exec"})


def words(text: str) -> set[str]:
    """The words of a text, in lower case."""
    return set(_WORD.findall(text[:MAX_TEXT_CHARS].lower()))


def facts(text: str) -> set[str]:
    """Words with a figure in them, of at least four characters: dates, times, amounts, names of files with numbers."""
    return {word for word in _FACT.findall(text[:MAX_TEXT_CHARS].lower()) if len(word) >= 4}


@dataclass(slots=True)
class CallView:
    """One call, made or not. `problem` is why it was not made (`invalid_arguments`, `gated`, …)."""

    turn: int
    name: str
    arguments: dict[str, Any]
    effects: frozenset[str] = frozenset()
    result: str | None = None
    error: str | None = None
    problem: str | None = None
    _failed: bool | None = None
    """Asked for so often that it is kept, once there is a result."""

    @property
    def failed(self) -> bool:
        """The tool raised, or the call could not be made as it was written, or the result says that it failed."""
        if self._failed is None:
            if self.result is None:
                return True
            said = self.result[:40].lstrip().lower().startswith(FAILED_WORDS)
            self._failed = said or self.error is not None or self.problem is not None
        return self._failed

    @property
    def is_empty(self) -> bool:
        """It came back with nothing, or with a short sentence that says so."""
        if self.result is None:
            return False
        text = self.result.strip()
        return text.lower() in EMPTY_RESULTS or (len(text) <= 80 and _NOTHING.match(text) is not None)

    @property
    def changes(self) -> bool:
        return bool(self.effects & _CHANGING)


def telling_values(arguments: Any) -> Iterator[str]:
    """Values of at least three characters that are no mere yes or no, wherever in the arguments they stand."""
    if isinstance(arguments, dict):
        for value in arguments.values():
            yield from telling_values(value)
    elif isinstance(arguments, list):
        for value in arguments:
            yield from telling_values(value)
    elif isinstance(arguments, str):
        if len(text := arguments.strip()) >= 3:
            yield text
    elif isinstance(arguments, int | float) and not isinstance(arguments, bool) and len(str(arguments)) >= 3:
        yield str(arguments)


@dataclass
class RunView:
    """A run. `achieved` and `turns` are its trial's; `achieved` is None where it is no trial, or one that is not scored."""

    id: str
    harness: str
    harness_hash: str
    goal: str
    prompt: str
    declarations: list[dict[str, Any]]
    repeating: frozenset[str] = frozenset()
    shown: dict[str, int] = field(default_factory=dict)
    """In how many turns each tool was declared to the model."""
    calls: list[CallView] = field(default_factory=list)
    margins: list[tuple[int, str, str, float]] = field(default_factory=list)
    """(turn, name called, another tool's name, log-probability by which it was behind), where the server gave them."""
    answer: str | None = None
    stop_reason: str = ""
    achieved: bool | None = None
    turns: int = 0
    unreadable: int = 0
    """Events that could not be read."""
    held_out: bool = False
    """Whether its goal is held out: kept for the confirmation of what was found on others."""

    @property
    def scored(self) -> bool:
        return self.achieved is not None

    def value(self, saved_turns: int = 0) -> float:
        """achieved / max(1, turns - 1), were it `saved_turns` shorter."""
        return 1 / max(1, self.turns - saved_turns - 1) if self.achieved else 0.0

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The tools of the harness."""
        return tuple(declared_name(declaration) for declaration in self.declarations)

    @cached_property
    def made(self) -> list[CallView]:
        """The calls that were made."""
        return [call for call in self.calls if call.result is not None]

    @cached_property
    def used(self) -> frozenset[str]:
        """The tools that gave something."""
        return frozenset(call.name for call in self.made if not call.failed and not call.is_empty)

    @cached_property
    def prompt_words(self) -> set[str]:
        return words(self.prompt)

    @cached_property
    def result_words(self) -> list[set[str]]:
        """Of each call's result, its words."""
        return [words(call.result) if call.result else set() for call in self.calls]

    @cached_property
    def result_facts(self) -> list[set[str]]:
        """Of each call's result, its facts."""
        return [facts(call.result) if call.result else set() for call in self.calls]

    @cached_property
    def values(self) -> list[set[str]]:
        """Of each call, its argument values as text, the trivial ones left out."""
        return [set(telling_values(call.arguments)) for call in self.calls]

    @cached_property
    def last_use(self) -> dict[str, int]:
        """For each word of arguments and answer, the last turn whose reply has it; the answer's is after all others."""
        last: dict[str, int] = {}
        for call in self.calls:
            for value in _texts(call.arguments):
                last.update(dict.fromkeys(words(value), call.turn))
        if self.answer:
            last.update(dict.fromkeys(words(self.answer), 1 << 30))
        return last

    @cached_property
    def used_shares(self) -> list[float]:
        """Of each call's result, the share of its different words that a later argument or the answer has."""
        last = self.last_use
        return [
            sum(last.get(word, -1) > call.turn for word in found) / len(found) if found else 0.0
            for call, found in zip(self.calls, self.result_words, strict=True)
        ]

    @cached_property
    def was_useful(self) -> list[bool]:
        """Of each call: it worked, and changed something, or later arguments or the answer have a word from its result.

        A word that several results have was got from the last of them before its use; one of the prompt, from none.
        """
        last, source = self.last_use, dict[str, int]()
        for index, (call, found) in enumerate(zip(self.calls, self.result_words, strict=True)):
            source.update((word, index) for word in found if len(word) > 1 and last.get(word, -1) > call.turn)
        sources = {index for word, index in source.items() if word not in self.prompt_words}
        return [
            not call.failed and not call.is_empty and (call.changes or index in sources)
            for index, call in enumerate(self.calls)
        ]

    def turns_of(self, indexes: Collection[int]) -> int:
        """Turns that would not be there without the calls with these indexes: those that have no other call."""
        if not indexes:
            return 0
        without = {self.calls[index].turn for index in indexes}
        return len(without - {call.turn for index, call in enumerate(self.calls) if index not in indexes})


def declared_name(declaration: dict[str, Any]) -> str:
    """The name in a declaration as a request's `tools` has it."""
    return str(declaration.get("function", {}).get("name"))


def _texts(arguments: Any) -> Iterable[str]:
    if isinstance(arguments, dict):
        return [text for value in arguments.values() for text in _texts(value)]
    if isinstance(arguments, list):
        return [text for value in arguments for text in _texts(value)]
    return [] if arguments is None or isinstance(arguments, bool) else [str(arguments)]
