"""The tokens of recent turns, kept so that a conversation that comes back begins with exactly the tokens it had.

A reply is parsed into a message, and the template writes that message again when it comes back: white space and tokenisation
differ from what the model generated, and from there on nothing could be read from the KV cache. So the server keeps the ids of
recent turns and puts them in the place of the template's text for them, if that text says the same. It cannot where the
template says something else, because it drops old thoughts for one: then it is told which token is the first to differ.
"""

from __future__ import annotations

import json
import re
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from daneel.formats.base import CallEvent, Event, FailedCallEvent, TextEvent
from daneel.formats.family import Family
from daneel.formats.validate import ToolSet

MAX_TURNS = 64
MAX_CHARS = 16_000_000
"""Kept per tenant: so many turns, and so many characters of prompts."""

MAX_ENDS = 16
"""Places that are tried as the end of a rendered turn: a marker in its text may look like one."""

Said = tuple[str, str, tuple[tuple[str, str], ...], tuple[str, ...]]
"""What a turn says: reasoning, content, calls with canonical arguments, failed calls."""


@dataclass(frozen=True, slots=True)
class PastTurn:
    """One turn: its prompt as the template rendered it and as the model was given it, and what was generated from that.

    `generated_ids` without the token that ended the turn; `text` is their text. `choice`: which reply to its request it is.
    """

    rendered: str
    prompt_text: str
    prompt_ids: Sequence[int]
    generated_ids: Sequence[int]
    text: str
    choice: int = 0

    @property
    def num_chars(self) -> int:
        return len(self.rendered) + len(self.prompt_text) + len(self.text)


@dataclass(frozen=True, slots=True)
class Recalled:
    """The tokens of a rendered prompt's beginning, which ends at character `end`, and their text.

    `changed`: the latest turn whose prompt this one begins with, but whose text the template writes otherwise; `None` if
    nothing is lost.
    """

    ids: Sequence[int] = ()
    text: str = ""
    end: int = 0
    changed: PastTurn | None = None


class TurnMemory:
    """Recent turns by tenant. Nothing of one tenant is ever looked at for another."""

    def __init__(self, family: Family, end_texts: Sequence[str]) -> None:
        """`end_texts`: the texts of the tokens that end a turn."""
        self._family = family
        self._ends = re.compile("|".join(re.escape(text) for text in sorted(end_texts, key=len, reverse=True)) or "(?!)")
        self._opening = _opening_pattern(family)
        self._turns: dict[str, OrderedDict[tuple[str, int], PastTurn]] = {}

    def remember(self, turn: PastTurn, *, tenant: str = "") -> None:
        """Keep a turn that ended as the model wanted; one with the same prompt is replaced, reply by reply."""
        turns = self._turns.setdefault(tenant, OrderedDict())
        turns.pop((turn.rendered, turn.choice), None)
        turns[turn.rendered, turn.choice] = turn
        while len(turns) > MAX_TURNS or (len(turns) > 1 and sum(kept.num_chars for kept in turns.values()) > MAX_CHARS):
            turns.popitem(last=False)

    def forget(self, tenant: str) -> None:
        """Drop one tenant's turns."""
        self._turns.pop(tenant, None)

    def recall(self, rendered: str, tools: ToolSet, *, tenant: str = "") -> Recalled:
        """What of a rendered prompt is the prompt and the reply of a kept turn; the longest there is."""
        best, changed = Recalled(), None
        for turn in reversed(self._turns.get(tenant, {}).values()):
            begin = self._begin(turn, rendered)
            if begin is None or begin < best.end:
                continue
            end = self._end(turn, rendered, begin, tools)
            if end is not None:
                best = Recalled([*turn.prompt_ids, *turn.generated_ids], turn.prompt_text + turn.text, end)
            elif changed is None:
                changed = turn
        if changed is not None and len(changed.prompt_ids) >= len(best.ids):
            return replace(best, changed=changed)
        return best

    def _begin(self, turn: PastTurn, rendered: str) -> int | None:
        """Where the turn's reply begins in the prompt; `None` if the prompt is not the same up to there.

        What the turn's prompt opened or closed of a thought at its end need not be there: it is compared with the reply.
        """
        if rendered.startswith(turn.rendered):
            return len(turn.rendered)
        match = self._opening.search(turn.rendered)
        if match is not None and rendered.startswith(turn.rendered[: match.start()]):
            return match.start()
        return None

    def _end(self, turn: PastTurn, rendered: str, begin: int, tools: ToolSet) -> int | None:
        """Where the turn's reply ends in the prompt; `None` if the template wrote something else."""
        written = turn.rendered[begin:] + turn.text
        said = None
        for number, end in enumerate(self._ends.finditer(rendered, begin)):
            text = rendered[begin : end.start()]
            if text == written:
                return end.start()
            said = said or self._said(written, turn.rendered[:begin], tools)
            if self._said(text, turn.rendered[:begin], tools) == said:
                return end.start()
            if number == MAX_ENDS:
                break
        return None

    def _said(self, text: str, prompt: str, tools: ToolSet) -> Said:
        parser = self._family.parser(tools, prompt=prompt)
        return _said([*parser.feed(text), *parser.finish(truncated=False)])


def first_difference(changed: PastTurn, ids: Sequence[int], pieces: Sequence[bytes]) -> str | None:
    """Where a prompt's ids leave those of a turn it goes on from, for people. `pieces` are the vocabulary's."""
    before = [*changed.prompt_ids, *changed.generated_ids]
    for place, (was, now) in enumerate(zip(before, ids, strict=False)):
        if was != now:
            texts = (repr(pieces[token_id].decode(errors="replace")) for token_id in (was, now))
            return "token {} differs: {} was generated, the template writes {}".format(place, *texts)
    return None


def _said(events: Sequence[Event]) -> Said:
    texts = {"reasoning": "", "content": ""}
    for event in events:
        if isinstance(event, TextEvent):
            texts[event.kind] += event.text
    calls = tuple((event.name, _canonical(event.arguments)) for event in events if isinstance(event, CallEvent))
    failed = tuple(event.raw for event in events if isinstance(event, FailedCallEvent))
    return texts["reasoning"].strip(), texts["content"].strip(), calls, failed


def _canonical(arguments: str) -> str:
    # numbers as they are written: Python refuses to read integers of thousands of digits
    return json.dumps(json.loads(arguments, parse_int=_number, parse_float=_number), sort_keys=True)


def _number(text: str) -> list[str]:
    return ["number", text]


def _opening_pattern(family: Family) -> re.Pattern[str]:
    """The reasoning markers at the end of a prompt, with the white space around them."""
    reasoning = family.reasoning
    if reasoning is None:
        return re.compile("(?!)")
    marks = [text for text in (reasoning.open, reasoning.close, *reasoning.labels) if text.strip()]
    either = "|".join(re.escape(mark) for mark in sorted(marks, key=len, reverse=True))
    return re.compile(rf"(?:(?:{either})\s*)+\Z")
