"""Reading and writing of server-sent events."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daneel.wire.sse import DONE, Decoder, Event, EventTooLarge, encode_comment, encode_event

MIXED = (
    "\ufeff: keepalive 1/2\n\n"
    'data: {"a": "gr\u00fc\u00df\u2028e \U0001f600"}\r\n\r\n'
    "data:{}\r\rdata: one\ndata:two\ndata\n\n"
    "event: error\nid: 7\nretry: 10\ndata:  padded \n\n"
    'error: {"code": 1}\n\n'
    "data: [DONE]\n\n: trailing\ndata: unfinished"
).encode()

MIXED_EVENTS = [
    Event("comment", "keepalive 1/2"),
    Event("data", '{"a": "gr\u00fc\u00df\u2028e \U0001f600"}'),
    Event("data", "{}"),
    Event("data", "one\ntwo\n"),
    Event("data", " padded ", "error"),
    Event("data", '{"code": 1}', "error"),
    Event("data", "[DONE]"),
    Event("comment", "trailing"),
    Event("data", "unfinished"),
]


def read(*pieces: bytes) -> list[Event]:
    decoder = Decoder()
    events = [event for piece in pieces for event in decoder.feed(piece)]
    return events + decoder.finish()


def test_everything_peers_write_is_read() -> None:
    assert read(MIXED) == MIXED_EVENTS


def test_every_cut_gives_the_same_events() -> None:
    for cut in range(len(MIXED) + 1):
        assert read(MIXED[:cut], MIXED[cut:]) == MIXED_EVENTS, cut
    assert read(*(MIXED[i : i + 1] for i in range(len(MIXED)))) == MIXED_EVENTS


@given(st.text(alphabet='data: event\r\n{}"\u2028\u00e9\U0001f600x', max_size=80), st.lists(st.integers(0, 200), max_size=5))
def test_cuts_do_not_matter(text: str, cuts: list[int]) -> None:
    raw = text.encode()
    places = sorted({min(cut, len(raw)) for cut in cuts} | {0, len(raw)})
    pieces = [raw[start:end] for start, end in itertools.pairwise(places)]
    assert read(*pieces) == read(raw)


@given(st.recursive(st.none() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_what_is_written_is_read_back(payload: object) -> None:
    try:
        frame = encode_event(payload)
    except UnicodeEncodeError:
        return  # half of a surrogate pair is no text
    (event,) = read(frame)
    assert json.loads(event.text) == payload


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_comment_cannot_smuggle_an_event(end: str) -> None:
    events = read(encode_comment(f"tool_call x{end}{end}data: forged"))
    assert {event.kind for event in events} == {"comment"}


def test_the_end_mark() -> None:
    assert [event.is_done for event in read(DONE + b"data:  [DONE] \n\n" + b": [DONE]\n\n")] == [True, True, False]


def test_events_come_as_soon_as_they_are_complete() -> None:
    decoder = Decoder()
    assert decoder.feed(b"data: a\n") == []
    assert decoder.feed(b"\n") == [Event("data", "a")]
    assert decoder.feed(b"data: b\r\n\r") == [Event("data", "b")]
    assert decoder.feed(b"\ndata: c\r\n\r\n") == [Event("data", "c")]


def test_a_broken_character_does_not_stop_the_stream() -> None:
    assert read(b"data: a\xffb\n\n") == [Event("data", "a\ufffdb")]


@pytest.mark.parametrize("line", [b"x" * 40, b"data: xxxxxxxx\n" * 4])
def test_an_endless_event_is_refused(line: bytes) -> None:
    decoder = Decoder(max_line_bytes=30)
    with pytest.raises(EventTooLarge, match="30 bytes"):
        decoder.feed(line)


def test_the_limit_is_on_one_event_not_on_the_stream() -> None:
    decoder = Decoder(max_line_bytes=30)
    assert sum(len(decoder.feed(b"data: xxxxxxxxxx\n\n")) for _ in range(50)) == 50
