"""Encoding in pieces: the same ids as the whole text, and nothing encoded twice."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from daneel.server.encoder import MAX_CHARS, Encoder

END = "<|im_end|>"


class Tokenizer:
    """One id for the marker and one for each character; `swallows`: as a marker that takes the white space behind it."""

    def __init__(self, *, swallows: bool = False) -> None:
        self.asked: list[str] = []
        self.swallows = swallows

    async def __call__(self, text: str) -> list[int]:
        self.asked.append(text)
        if self.swallows:
            text = text.replace(f"{END} ", END).replace(f"{END}\n", END)
        return [ord(char) for char in text.replace(END, "\ue000")]


def start(tokenizer: Tokenizer) -> Encoder:
    encoder = asyncio.run(Encoder.start(tokenizer, [END]))
    tokenizer.asked.clear()
    return encoder


@given(st.lists(st.sampled_from([END, "a", "b\n", " ", "<|im_"])).map("".join))
def test_the_pieces_are_the_whole(text: str) -> None:
    tokenizer = Tokenizer()
    encoder = start(tokenizer)
    whole = asyncio.run(Tokenizer()(text))
    assert asyncio.run(encoder.encode(text)) == whole
    assert asyncio.run(encoder.encode(text)) == whole


def test_what_is_known_is_not_encoded_again() -> None:
    tokenizer = Tokenizer()
    encoder = start(tokenizer)
    asyncio.run(encoder.encode(f"one{END}two{END}thr"))
    asyncio.run(encoder.encode(f"one{END}two{END}three{END}four"))
    assert tokenizer.asked == [f"one{END}", f"two{END}", "thr", f"three{END}", "four"]


def test_a_marker_that_swallows_what_follows_is_not_cut_at() -> None:
    tokenizer = Tokenizer(swallows=True)
    encoder = start(tokenizer)
    text = f"one{END} two"
    assert asyncio.run(encoder.encode(text)) == asyncio.run(Tokenizer(swallows=True)(text))
    assert tokenizer.asked == [text]


def test_what_is_kept_is_bounded() -> None:
    tokenizer = Tokenizer()
    encoder = start(tokenizer)
    first = "first" + END
    for text in (first, "x" * MAX_CHARS, first):
        asyncio.run(encoder.encode(text))
    assert tokenizer.asked.count(first) == 2


def test_what_one_tenant_sent_is_not_known_of_another() -> None:
    tokenizer = Tokenizer()
    encoder = start(tokenizer)
    for tenant in ("a", "b", "a"):
        asyncio.run(encoder.encode("one", tenant=tenant))
    assert tokenizer.asked == ["one", "one"]
    encoder.forget("a")
    for tenant in ("b", "a"):
        asyncio.run(encoder.encode("one", tenant=tenant))
    assert tokenizer.asked == ["one", "one", "one"]


def test_a_flood_of_texts_leaves_another_its_own() -> None:
    tokenizer = Tokenizer()
    encoder = start(tokenizer)
    asyncio.run(encoder.encode("mine", tenant="a"))
    for number in range(6):
        asyncio.run(encoder.encode(f"{number}" + "x" * (MAX_CHARS // 4), tenant="b"))
    tokenizer.asked.clear()
    asyncio.run(encoder.encode("mine", tenant="a"))
    assert tokenizer.asked == []
