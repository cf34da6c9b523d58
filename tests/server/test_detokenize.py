"""Tokens to text and back: nothing is lost whatever the cuts, and every token has one kind."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daneel.formats.base import Span
from daneel.server.detokenize import Detokenizer, SpanLedger, token_span

PIECES = st.lists(st.one_of(st.binary(max_size=4), st.text(max_size=3).map(str.encode)), max_size=40)
KINDS = st.sampled_from(["reasoning", "content", "tool", "failed", "control"])


def run(pieces: list[bytes]) -> tuple[str, list[int]]:
    detokenizer = Detokenizer(pieces)
    text = "".join(detokenizer.feed(index) for index in range(len(pieces))) + detokenizer.finish()
    assert detokenizer.num_chars == len(text)
    return text, detokenizer.starts


@given(PIECES)
def test_any_bytes_give_the_text_they_hold(pieces: list[bytes]) -> None:
    text, starts = run(pieces)
    assert text == b"".join(pieces).decode("utf-8", "replace")
    assert len(starts) == len(pieces)
    assert starts == sorted(starts)


@given(st.text(max_size=30), st.data())
def test_cuts_do_not_matter_and_starts_are_true(text: str, data: st.DataObject) -> None:
    whole = text.encode()
    cuts = sorted(data.draw(st.sets(st.integers(0, len(whole)))))
    edges = [0, *cuts, len(whole)]
    pieces = [whole[start:end] for start, end in itertools.pairwise(edges)]
    decoded, starts = run(pieces)
    assert decoded == text
    for edge, start in zip(edges, starts, strict=False):
        # the character that holds this byte, or the next one when the byte begins it
        assert start == len(whole[:edge].decode("utf-8", "ignore"))


def test_a_character_comes_out_whole_with_its_last_token() -> None:
    detokenizer = Detokenizer([b"a\xf0\x9f", b"\x99", b"\x82!"])
    assert [detokenizer.feed(index) for index in range(3)] == ["a", "", "🙂!"]
    assert detokenizer.starts == [0, 1, 1]


def test_a_broken_character_is_shown_when_the_next_token_begins() -> None:
    detokenizer = Detokenizer([b"\xe2\x82", b"x", b"\xff", b"\xe2"])
    assert [detokenizer.feed(index) for index in range(4)] == ["", "\ufffdx", "\ufffd", ""]
    assert detokenizer.starts == [0, 1, 2, 3]
    assert detokenizer.finish() == "\ufffd"


@given(PIECES, st.data())
def test_each_token_belongs_to_the_span_of_its_first_character(pieces: list[bytes], data: st.DataObject) -> None:
    text, starts = run(pieces)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)))) | {0, len(text)})
    spans = [Span(data.draw(KINDS), start, end) for start, end in itertools.pairwise(cuts)]
    ledger = SpanLedger()
    for span in spans:
        ledger.add(span)
    assert ledger.end == len(text)
    kinds = ledger.kinds(starts)
    assert len(kinds) == len(pieces)
    for kind, start in zip(kinds, starts, strict=True):
        holding = [span.kind for span in spans if span.start <= start < span.end]
        assert kind == (holding[0] if holding else "control")


@given(PIECES, st.data())
def test_token_spans_of_a_partition_are_a_partition(pieces: list[bytes], data: st.DataObject) -> None:
    text, starts = run(pieces)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)))) | {0, len(text)})
    ranges = [token_span(starts, Span("failed", start, end)) for start, end in itertools.pairwise(cuts)]
    covered = [index for first, last in ranges for index in range(first, last)]
    assert covered == [index for index, start in enumerate(starts) if start < len(text)]


@pytest.mark.parametrize("span", [Span("content", 4, 6), Span("content", 2, 5), Span("content", 3, 2)])
def test_spans_that_leave_a_gap_or_overlap_are_refused(span: Span) -> None:
    ledger = SpanLedger()
    ledger.add(Span("content", 0, 3))
    with pytest.raises(ValueError, match="does not follow on character 3"):
        ledger.add(span)
