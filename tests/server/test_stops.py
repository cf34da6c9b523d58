"""Stop strings: found whatever the cuts, and never shown."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daneel.server.stops import StopMatcher

ABC = st.text(alphabet="abc", max_size=25)
STOPS = st.lists(st.text(alphabet="abc", min_size=1, max_size=4), max_size=3)


def run(pieces: list[str], stops: list[str]) -> tuple[str, str | None]:
    matcher = StopMatcher(stops)
    shown = "".join(map(matcher.feed, pieces)) + matcher.finish()
    return shown, matcher.matched


@given(ABC, STOPS, st.data())
def test_the_cuts_do_not_matter(text: str, stops: list[str], data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)))))
    edges = [0, *cuts, len(text)]
    pieces = [text[start:end] for start, end in itertools.pairwise(edges)]
    assert run(pieces, stops) == run(list(text), stops)


@given(ABC, STOPS)
def test_what_is_shown_is_the_text_before_the_first_complete_stop_string(text: str, stops: list[str]) -> None:
    shown, matched = run([text], stops)
    if matched is None:
        assert shown == text
        assert not any(stop in text for stop in stops)
    else:
        assert text.startswith(shown + matched)
        assert not any(stop in (shown + matched)[:-1] for stop in stops)


@pytest.mark.parametrize(
    ("pieces", "stops", "shown"),
    [
        (["one END two"], ["END"], "one "),
        (["one E", "N", "D two"], ["END"], "one "),
        (["one E", "N", "x"], ["END"], "one ENx"),
        (["aab"], ["ab"], "a"),
        (["abcd"], ["abcd", "bc"], "a"),
        (["xyz"], ["yz", "xyz"], ""),
        (["END"], [], "END"),
    ],
)
def test_examples(pieces: list[str], stops: list[str], shown: str) -> None:
    assert run(pieces, stops)[0] == shown


def test_text_that_cannot_be_a_stop_string_is_not_held_back() -> None:
    matcher = StopMatcher(["\n\n"])
    assert matcher.feed("line") == "line"
    assert matcher.feed("\n") == ""
    assert matcher.feed("next") == "\nnext"
    assert matcher.feed("\n\nmore") == ""
    assert matcher.feed("more") == ""
    assert matcher.matched == "\n\n"
