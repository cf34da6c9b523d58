"""Known calls, and whether they come back: a template writes them into a history, the format reads them out again.

Pure: `server/self_test.py` renders. What fails here will fail in use: either the format is not the model's, or its template
loses something of what the model wrote.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from daneel.formats.base import CallEvent, Event, FailedCallEvent, TextEvent, Tool
from daneel.formats.family import Family
from daneel.formats.validate import ToolSet

QUESTION = "What does the file of Paris say?"
"""The user's message: where it ends in a prompt, what the model writes begins soon after."""

ANSWER = "It says that all is well."
"""A plain answer: what a template writes behind it ends a turn."""

THOUGHT = "I should look that up."

_TEXT = {"type": "string"}
TOOLS = (
    Tool("get_weather", "Get the weather", {"type": "object", "properties": {"city": _TEXT}, "required": ["city"]}),
    Tool("ping", "Say that you are there"),
    Tool("write_file", "Write a file", {"type": "object", "properties": {"path": _TEXT, "text": _TEXT}}),
    Tool(
        "set_status",
        "Set the status",
        {
            "type": "object",
            "properties": {
                "count": {"type": "integer"},
                "ratio": {"type": "number"},
                "active": {"type": "boolean"},
                "hidden": {"type": "boolean"},
                "note": {"type": "string", "nullable": True},
            },
        },
    ),
    Tool(
        "search",
        "Search",
        {
            "type": "object",
            "properties": {
                "filters": {
                    "type": "object",
                    "properties": {
                        "tags": {"type": "array", "items": _TEXT},
                        "range": {"type": "object", "properties": {"min": {"type": "integer"}, "max": {"type": "number"}}},
                    },
                },
                "flags": {"type": "array", "items": {"type": "boolean"}},
            },
        },
    ),
)
"""The tools that the known calls are made to."""

RESULT = "result-of-the-self-test"

_MAX_SHOWN = 60
_MAX_FAILURES_TOLD = 4


@dataclass(frozen=True, slots=True)
class KnownCase:
    """One assistant turn. `name` says in words what is tried."""

    name: str
    calls: tuple[tuple[str, dict[str, Any]], ...]
    content: str = ""
    reasoning: str = ""

    def message(self) -> dict[str, Any]:
        """As a history holds it."""
        calls = [
            {"id": f"call_{number:024x}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
            for number, (name, arguments) in enumerate(self.calls)
        ]
        message: dict[str, Any] = {"role": "assistant", "content": self.content or None, "tool_calls": calls}
        return {**message, "reasoning": self.reasoning} if self.reasoning else message

    def results(self) -> list[dict[str, Any]]:
        """Results for the calls, for templates that refuse calls without."""
        return [
            {"role": "tool", "tool_call_id": f"call_{number:024x}", "content": RESULT} for number, _ in enumerate(self.calls)
        ]


@dataclass(frozen=True, slots=True)
class Failure:
    """A case that did not come back. `cause`: the template did not write it, or the format did not read what it wrote."""

    case: str
    cause: Literal["rendering", "reading"]
    reason: str


@dataclass(frozen=True, slots=True)
class SelfTest:
    """Which known calls came back. `works`: the plainest of them all did."""

    passed: tuple[str, ...] = ()
    failed: tuple[Failure, ...] = ()

    @property
    def works(self) -> bool:
        return PLAIN in self.passed

    def summary(self, format_name: str) -> str:
        """One sentence for the log."""
        total = len(self.passed) + len(self.failed)
        told = f"self-test of the format {format_name}: {len(self.passed)} of {total} known calls come back"
        if not self.failed or not self.works:
            return told
        shown = [f"{failure.case} ({failure.reason})" for failure in self.failed[:_MAX_FAILURES_TOLD]]
        more = len(self.failed) - len(shown)
        return f"{told}; not: {'; '.join(shown)}{f'; and {more} more' if more else ''}"

    def warning(self) -> str | None:
        """What to expect of a model whose calls do not come back; `None` if they do."""
        if self.works or not self.failed:
            return None
        failure = next((failure for failure in self.failed if failure.case == PLAIN), self.failed[0])
        if failure.cause == "rendering":
            expect = "the model will not see its own calls in the history; expect it to repeat them, or requests to be refused"
        else:
            expect = (
                "expect its calls as text or failed calls, unless a format that fits is chosen with --format or --format-file"
            )
        return f"calls do not come back from this model's template ({failure.reason}): {expect}"


PLAIN = "a call"


def known_cases(family: Family) -> tuple[KnownCase, ...]:
    """What is tried, the plainest first."""
    call = family.call
    own = dict.fromkeys((*call.opens[:1], *call.body_opens[:1], *call.closes[:1]))
    markers = " and ".join(own or family.markers[:3])
    return (
        KnownCase(PLAIN, (("get_weather", {"city": "Paris"}),)),
        KnownCase("a call without arguments", (("ping", {}),)),
        KnownCase("two calls", (("get_weather", {"city": "Paris"}), ("get_weather", {"city": "Oslo"}))),
        KnownCase("text before a call", (("get_weather", {"city": "Paris"}),), content="Let me look."),
        KnownCase("a thought before a call", (("get_weather", {"city": "Paris"}),), reasoning=THOUGHT),
        KnownCase(
            "numbers, booleans and null",
            (("set_status", {"count": -42, "ratio": 2.5, "active": True, "hidden": False, "note": None}),),
        ),
        KnownCase(
            "nested objects and arrays",
            (("search", {"filters": {"tags": ["a b", ""], "range": {"min": 1, "max": 2.5}}, "flags": [True, False]}),),
        ),
        KnownCase("quotes and backslashes", (("write_file", {"path": "C:\\tmp\\a.txt", "text": 'say "it\'s"'}),)),
        KnownCase("line breaks and indentation", (("write_file", {"path": "a", "text": "def f():\n\tif x:\n    y()"}),)),
        KnownCase("white space at both ends", (("write_file", {"path": " a ", "text": "\n x = 1\n\n"}),)),
        KnownCase("unicode", (("write_file", {"path": "é", "text": "你好 🎉 Zoë \u2028 end"}),)),
        KnownCase("strings that look like JSON", (("write_file", {"path": "007", "text": '{"a": [true, null]}'}),)),
        KnownCase("the format's own markers in a string", (("write_file", {"path": "a", "text": f"a {markers} b"}),)),
    )


@dataclass(frozen=True, slots=True)
class Turn:
    """A rendered history as what the model was given (`prompt`) and what it wrote (`text`).

    `joints`: what ends a turn, and what begins the next: a template may put them between parts that were one turn.
    """

    prompt: str
    text: str
    joints: tuple[str, ...] = ()


def split(prompt: str, rendered: str, answered: str, markers: Sequence[str]) -> Turn | None:
    """The turn behind the question in `rendered`; `None` if the question is not in it.

    `prompt` is the history without the turn, rendered with a generation prompt; `answered` the one with `ANSWER`, or "". What
    `prompt` and `rendered` have in common behind the question is prompt: a template may open in the prompt what it does not
    write into a history. A marker is on one side only. The turn's end is no text of the model.
    """
    asked, found = prompt.find(QUESTION), rendered.find(QUESTION)
    if asked < 0 or found < 0:
        return None
    before, behind = prompt[asked:], rendered[found:]
    common = next((at for at, pair in enumerate(zip(before, behind, strict=False)) if pair[0] != pair[1]), len(before))
    common = min(common, len(behind))
    for marker in markers:
        at = behind.find(marker, max(0, common - len(marker) + 1))
        if 0 <= at < common:
            common = at
    end = answered.partition(ANSWER)[2]
    text = behind[common:].removesuffix(end) if end.strip() else behind[common:]
    joints = (behind[len(QUESTION) : common], end)
    return Turn(rendered[: found + common], text, tuple(joint for joint in joints if joint.strip()))


def judge(case: KnownCase, family: Family, turn: Turn, *, whole: bool = True) -> Failure | None:
    """Whether the turn is read as the case. Not `whole`: something follows that is not the case's."""
    missing = next((name for name, _ in case.calls if name not in turn.text), None)
    if missing is not None:
        return Failure(case.name, "rendering", f"the template does not write the call to {missing}")
    joined = turn.text
    for joint in turn.joints:
        joined = joined.replace(joint, "")
    reasons = [_wrong(case, family, turn.prompt, text, whole) for text in dict.fromkeys((turn.text, joined))]
    reason = next((reason for reason in reasons if reason), None)
    return Failure(case.name, "reading", reason) if reason and all(reasons) else None


def _wrong(case: KnownCase, family: Family, prompt: str, text: str, whole: bool) -> str | None:
    parser = family.parser(ToolSet(TOOLS), prompt=prompt)
    events = [*parser.feed(text), *parser.finish(truncated=False)]
    return _wrong_calls(case, events) or (_wrong_text(case, events) if whole else None)


def _wrong_calls(case: KnownCase, events: Sequence[Event]) -> str | None:
    for event in events:
        if isinstance(event, FailedCallEvent):
            return f"cannot be read: {event.message}, at {_shown(event.raw[max(0, event.offset - 10) :])}"
    calls = [event for event in events if isinstance(event, CallEvent)]
    if len(calls) != len(case.calls):
        written = "".join(event.text for event in events if isinstance(event, TextEvent))
        return f"{len(calls)} of {len(case.calls)} calls are read, and as text {_shown(written)}"
    for call, (name, arguments) in zip(calls, case.calls, strict=True):
        if call.name != name:
            return f"{name} is read as {_shown(call.name)}"
        difference = _difference(arguments, json.loads(call.arguments), "")
        if difference:
            return difference
    return None


def _wrong_text(case: KnownCase, events: Sequence[Event]) -> str | None:
    content = "".join(event.text for event in events if isinstance(event, TextEvent) and event.kind == "content").strip()
    if content != case.content:
        return f"the content {_shown(case.content)} is read as {_shown(content)}"
    thought = "".join(event.text for event in events if isinstance(event, TextEvent) and event.kind == "reasoning").strip()
    # a template may well leave thoughts out of a history
    return f"the thought is read as {_shown(thought)}" if thought not in ("", case.reasoning) else None


def _difference(wanted: Any, got: Any, path: str) -> str | None:
    """The first place where two JSON values differ, in words."""
    if isinstance(wanted, dict) and isinstance(got, dict):
        for key in dict.fromkeys((*wanted, *got)):
            if key not in got or key not in wanted:
                return f"{path}/{key} is {'lost' if key in wanted else 'added'}"
            if found := _difference(wanted[key], got[key], f"{path}/{key}"):
                return found
        return None
    if isinstance(wanted, list) and isinstance(got, list) and len(wanted) == len(got):
        pairs = enumerate(zip(wanted, got, strict=True))
        differences = (_difference(*pair, f"{path}/{index}") for index, pair in pairs)
        return next((difference for difference in differences if difference), None)
    same = wanted == got and isinstance(wanted, bool) is isinstance(got, bool)
    return None if same else f"{path} is {_shown(wanted)} and is read as {_shown(got)}"


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MAX_SHOWN else text[: _MAX_SHOWN - 1] + "…"
