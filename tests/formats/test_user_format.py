"""A user's format behind daneel's parser: whatever it does, nothing is lost and nothing is raised."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.formats.joined import Joined, join

from daneel.formats import registry
from daneel.formats.base import Event, Tool
from daneel.formats.user_format import WINDOW_CHARS, Call, Content, Control, Failed, Piece, Reasoning, UserFamily, UserFormat


class Lines(UserFormat):
    """Line by line: `@name {…}` a call, `# …` a thought, `---` nothing, `! …` a call that failed."""

    def read(self, text: str, final: bool) -> Piece | None:
        line, newline, _ = text.partition("\n")
        if not newline and not final:
            return None
        length = len(line + newline)
        if line.startswith("@"):
            name, _, arguments = line[1:].partition(" ")
            return Call(length, name, arguments or "{}")
        if line == "---":
            return Control(length)
        if line.startswith("!"):
            return Failed(length, "it says so", offset=1, name="f")
        return Reasoning(length) if line.startswith("# ") else Content(length)


def family(user_format: type[UserFormat], problems: list[str] | None = None) -> UserFamily:
    return UserFamily.of(registry.get("hermes"), user_format, "mine", (problems if problems is not None else []).append)


def parse(user_format: type[UserFormat], text: str, cuts: Sequence[int] = (), problems: list[str] | None = None) -> Joined:
    parser = family(user_format, problems).parser()
    events: list[Event] = []
    for start, end in pairwise([0, *sorted(cuts), len(text)]):
        events += parser.feed(text[start:end])
    return join([*events, *parser.finish(truncated=False)], text)


def test_pieces_become_events() -> None:
    found = parse(Lines, '# hm\nHello\n@ping\n---\n@write {"a": "é"}\n!x\nbye')
    assert (found.reasoning, found.content) == ("# hm\n", "Hello\nbye")
    assert [(call.name, json.loads(call.arguments)) for call in found.calls] == [("ping", {}), ("write", {"a": "é"})]
    [failed] = found.failed
    assert (failed.name, failed.message, failed.offset, failed.raw, failed.error_type) == (
        "f",
        "it says so",
        1,
        "!x\n",
        "malformed",
    )
    assert [event.span.kind for event in found.events] == [  # type: ignore[union-attr]
        "reasoning", "content", "tool", "control", "tool", "failed", "content",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("line", "message", "offset"),
    [
        ('@f {"a"', "not JSON", 7),
        ("@f {a: 1}", "not JSON", 4),
        ("@f [1]", "must be an object", 3),
        ("@f NaN", "not JSON", 3),
        ("@ {}", "no name", 0),
        ("@f " + "[" * 100_000, "not JSON", 3),
    ],
)
def test_a_call_that_cannot_be_read_is_a_failed_call(line: str, message: str, offset: int) -> None:
    found = parse(Lines, line + "\n@ok")
    assert [call.name for call in found.calls] == ["ok"]
    [failed] = found.failed
    assert message in failed.message
    assert failed.offset == offset


def test_what_the_end_cuts_off_is_truncated() -> None:
    [failed] = parse(Lines, '@f {"a": ').failed
    assert (failed.name, failed.error_type, failed.offset) == ("f", "truncated", 9)


@given(st.text(alphabet=["@", "f", " ", "{", "}", '"', "a", ":", "1", "#", "\n", "-", "!", "é"]), st.data())
def test_cuts_change_nothing_and_nothing_is_lost(text: str, data: st.DataObject) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(text))))
    assert parse(Lines, text, cuts).events == parse(Lines, text).events


def test_an_object_of_arguments_and_an_id() -> None:
    class One(UserFormat):
        def read(self, text: str, final: bool) -> Piece | None:
            return Call(len(text), "f", {"a": [1, None]}, id="c1") if final else None

    [call] = parse(One, "anything").calls
    assert (json.loads(call.arguments), call.call_id) == ({"a": [1, None]}, "c1")


def test_the_format_knows_prompt_and_tools() -> None:
    seen: list[Any] = []

    class Curious(UserFormat):
        def read(self, text: str, final: bool) -> Piece | None:
            seen.append((self.prompt, [tool.name for tool in self.tools]))
            return Content(len(text))

    family(Curious).parser([Tool("f")], prompt="<think>").feed("x")
    assert seen == [("<think>", ["f"])]


def _raises(_text: str) -> Any:
    raise KeyError("nothing here")


@pytest.mark.parametrize(
    ("gives", "words"),
    [
        (_raises, "KeyError"),
        (lambda _: "content", "must give Content"),
        (lambda _: Content(0), "length"),
        (lambda text: Content(len(text) + 1), "length"),
        (lambda _: Content(True), "length"),
        (lambda _: Content("1"), "length"),  # type: ignore[arg-type]
        (lambda text: Call(len(text), 5, {}), "name"),  # type: ignore[arg-type]
        (lambda text: Call(len(text), "f", [1]), "object"),  # type: ignore[arg-type]
        (lambda text: Call(len(text), "f", {"a": object()}), "JSON"),
        (lambda text: Call(len(text), "f", {"a": float("nan")}), "JSON"),
        (lambda text: Failed(len(text), None), "message"),  # type: ignore[arg-type]
        (lambda text: Failed(len(text), "x", -1), "offset"),
    ],
)
def test_a_format_that_fails_leaves_text_and_a_word_about_it(gives: Any, words: str) -> None:
    class Broken(UserFormat):
        def read(self, text: str, final: bool) -> Piece | None:
            return Content(2) if text.startswith("ok") else gives(text)

    problems: list[str] = []
    found = parse(Broken, "ok, and then this", [5], problems)
    assert found.content == "ok, and then this"
    [problem] = problems
    assert words in problem


def test_a_format_that_cannot_be_made() -> None:
    class Stubborn(UserFormat):
        def __init__(self) -> None:
            super().__init__()

        def read(self, text: str, final: bool) -> Piece | None:
            return None

    problems: list[str] = []
    assert parse(Stubborn, "hello", problems=problems).content == "hello"
    assert "TypeError" in problems[0]


def test_what_is_never_read_is_content() -> None:
    class Silent(UserFormat):
        def read(self, text: str, final: bool) -> Piece | None:
            return None

    assert parse(Silent, "a" * 10_000, range(1, 10_000)).content == "a" * 10_000


def test_a_long_call_in_small_pieces_is_looked_at_a_bounded_number_of_times() -> None:
    shown: list[int] = []

    class Counting(Lines):
        def read(self, text: str, final: bool) -> Piece | None:
            shown.append(len(text))
            return super().read(text, final)

    text = '@f {"a": "' + "x" * 100_000 + '"}\n' + "short\n" * 1000
    parser = family(Counting).parser()
    events = [event for start in range(0, len(text), 4) for event in parser.feed(text[start : start + 4])]
    events += parser.finish(truncated=False)
    assert len(join(events, text).calls) == 1
    assert sum(shown) < 40 * len(text)
    shown.clear()
    parser = family(Counting).parser()
    assert join([*parser.feed(text), *parser.finish(truncated=False)], text).calls
    assert sum(shown) < (WINDOW_CHARS + 4) * 1001 + 4 * len(text)


def test_everything_but_the_reading_is_the_rows() -> None:
    mine, row = family(Lines), registry.get("hermes")
    assert (mine.name, mine.variant) == ("mine", "")
    assert (mine.call, mine.reasoning, mine.stop_markers) == (row.call, row.reasoning, row.stop_markers)
    assert mine.write_call("f", "{}") == row.write_call("f", "{}")
    with pytest.raises(ValueError, match="mine comes from a file and has no decoding grammar"):
        mine.call_grammar([Tool("f")], choice="required", parallel=True, marker=str)
