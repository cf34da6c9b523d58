"""The buffer: places in the generation, and putting back without copying what is still there."""

from __future__ import annotations

from daneel.formats.buffer import Buffer


def test_places_in_the_generation() -> None:
    buffer = Buffer()
    buffer.add("abc")
    assert (buffer.take(2), buffer.offset) == ("ab", 2)
    buffer.add("de")
    assert (buffer.text[buffer.pos :], buffer.offset) == ("cde", 2)
    assert (buffer.take(3), buffer.offset) == ("cde", 5)


def test_what_is_still_there_is_put_back_without_a_copy() -> None:
    buffer = Buffer()
    buffer.add("abcdef")
    whole = buffer.text
    buffer.unread(buffer.take(4)[2:])
    assert buffer.text is whole
    assert (buffer.pos, buffer.offset) == (2, 2)


def test_what_was_dropped_is_put_back_in_front() -> None:
    buffer = Buffer()
    buffer.add("ab")
    taken = buffer.take(2)
    buffer.add("cd")
    taken += buffer.take(1)
    buffer.unread(taken)
    assert (buffer.text[buffer.pos :], buffer.offset) == ("abcd", 0)
