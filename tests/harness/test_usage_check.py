"""Silent truncation is found where it shows, and a server that merely counts otherwise is left in peace."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from daneel.harness.token_estimate import Size, size_of
from daneel.harness.usage_check import Counted, UsageCheck

WORDS = ["the", "river", "12", "count", "is", "higher", "than", "expected", "0.75", "northern", "of", "water", "level"]


def prose(num_chars: int, seed: int = 0) -> str:
    chosen = random.Random(seed)
    text = ""
    while len(text) < num_chars:
        text += chosen.choice(WORDS) + " "
    return text[:num_chars]


class Talk:
    """A conversation that grows, and what a server with 4 characters a token would count of it."""

    def __init__(self, question_chars: int) -> None:
        self.messages = [{"role": "user", "content": prose(question_chars)}]

    @property
    def size(self) -> Size:
        total = Size()
        for message in self.messages:
            total += size_of(message)
        return total

    @property
    def tokens(self) -> int:
        return sum(len(str(message["content"])) // 4 + 4 for message in self.messages)

    def add(self, result_chars: int) -> None:
        self.messages.append({"role": "assistant", "content": ""})
        self.messages.append({"role": "tool", "content": prose(result_chars, len(self.messages))})


def seen(check: UsageCheck, sizes: Iterable[tuple[Size, int]], **more: object) -> list[str]:
    found = [check.see(Counted(size, tokens, **more)) for size, tokens in sizes]  # type: ignore[arg-type]
    return [each for each in found if each is not None]


def counted(talk: Talk, added: Iterable[int], count: object) -> list[tuple[Size, int]]:
    sizes = [(talk.size, count(talk.tokens, talk.tokens))]  # type: ignore[operator]
    for chars in added:
        before = talk.tokens
        talk.add(chars)
        sizes.append((talk.size, count(talk.tokens, talk.tokens - before)))  # type: ignore[operator]
    return sizes


@pytest.mark.parametrize("limit", [600, 1000, 2048])
def test_a_count_that_stays_at_a_ceiling_is_found(limit: int) -> None:
    sizes = counted(Talk(1600), [300] * 30, lambda tokens, new: min(tokens, limit))
    found = seen(UsageCheck(), sizes)
    assert found
    assert "cut the prompt" in found[0]
    assert str(limit) in found[0]


def test_one_result_larger_than_the_context_is_found_in_that_turn() -> None:
    sizes = counted(Talk(1200), [40_000], lambda tokens, new: min(tokens, 2048))
    assert seen(UsageCheck(), sizes)


def test_a_count_that_falls_because_the_oldest_messages_went_is_found() -> None:
    sizes = counted(Talk(400), [600] * 12, lambda tokens, new: tokens)
    size, tokens = sizes[-1]
    assert not seen(check := UsageCheck(), sizes)
    assert check.see(Counted(size + Size(900, 800, 300), tokens - 500)) is not None


def test_slow_growth_at_the_ceiling_adds_up() -> None:
    sizes = counted(Talk(4000), [60] * 60, lambda tokens, new: min(tokens, 1100))
    assert seen(UsageCheck(), sizes)


@pytest.mark.parametrize("cached", [None, 0])
@pytest.mark.parametrize("added", [[300] * 20, [2000] * 20, [50, 4000, 80, 60, 4000, 50], [5000, 20, 20, 20]])
def test_a_server_that_counts_only_what_is_new_raises_no_alarm(added: list[int], cached: int | None) -> None:
    sizes = counted(Talk(2000), added, lambda tokens, new: new)
    assert not seen(UsageCheck(), sizes, cached_tokens=cached)


@pytest.mark.parametrize("misses", [{3}, {1}, {1, 2}, {2, 7, 8}])
def test_nor_when_its_cache_is_missed_now_and_then(misses: set[int]) -> None:
    talk = Talk(2000)
    check = UsageCheck()
    for turn in range(12):
        before = talk.tokens
        talk.add(400)
        tokens = talk.tokens if turn in misses or turn == 0 else talk.tokens - before
        assert check.see(Counted(talk.size, tokens)) is None


def test_nor_when_an_earlier_run_has_left_all_of_it_in_the_cache() -> None:
    assert not seen(UsageCheck(), counted(Talk(2000), [400] * 8, lambda tokens, new: 1))


def test_nor_when_cached_tokens_are_counted_beside_the_others() -> None:
    talk, check = Talk(2000), UsageCheck()
    for turn in range(8):
        before = talk.tokens
        talk.add(600)
        assert check.see(Counted(talk.size, talk.tokens - before, cached_tokens=before if turn else 0)) is None


def test_a_server_that_says_what_it_cached_is_taken_at_its_word() -> None:
    talk, check = Talk(2000), UsageCheck()
    talk.add(400)
    assert check.see(Counted(talk.size, talk.tokens, cached_tokens=0)) is None
    talk.add(400)
    assert check.see(Counted(talk.size, talk.tokens, cached_tokens=500)) is None
    talk.add(400)
    assert check.see(Counted(talk.size, 150, cached_tokens=100)) is not None


def test_no_usage_no_alarm() -> None:
    assert not seen(UsageCheck(), counted(Talk(2000), [400] * 8, lambda tokens, new: 0))


def test_thoughts_that_a_template_drops_are_no_truncation() -> None:
    talk, check = Talk(1000), UsageCheck()
    thoughts = 0
    for _ in range(6):
        assert check.see(Counted(talk.size, talk.tokens + thoughts // 4)) is None
        talk.messages.append({"role": "assistant", "content": "", "reasoning": prose(3000)})
        talk.messages.append({"role": "tool", "content": prose(200)})
        thoughts += 3000
    assert check.see(Counted(talk.size, talk.tokens)) is None


def test_words_beside_calls_that_a_template_drops_are_no_truncation() -> None:
    talk, check = Talk(1000), UsageCheck()
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    for _ in range(4):
        talk.messages.append({"role": "assistant", "content": prose(2000), "tool_calls": [call]})
        talk.messages.append({"role": "tool", "content": prose(200)})
        assert check.see(Counted(talk.size, talk.tokens)) is None
    assert check.see(Counted(talk.size, talk.tokens - 4 * 500)) is None


@pytest.mark.parametrize("text", ["=" * 30_000, " " * 30_000, "-\n" * 2 + "_" * 20_000, "\n" * 9000])
def test_text_that_takes_hardly_any_tokens_is_no_truncation(text: str) -> None:
    talk, check = Talk(1000), UsageCheck()
    assert check.see(Counted(talk.size, talk.tokens)) is None
    tokens = talk.tokens
    talk.messages.append({"role": "tool", "content": text})
    assert check.see(Counted(talk.size, tokens + 12)) is None


@pytest.mark.parametrize("change", [{"server": "another"}, {"key": "without tools"}])
def test_counts_of_different_things_are_not_compared(change: dict[str, str]) -> None:
    talk, check = Talk(6000), UsageCheck()
    talk.add(400)
    assert check.see(Counted(talk.size, talk.tokens + 3000)) is None
    talk.add(400)
    assert check.see(Counted(talk.size, talk.tokens, **change)) is None  # type: ignore[arg-type]


def test_after_a_compaction_it_begins_anew() -> None:
    talk, check = Talk(6000), UsageCheck()
    talk.add(4000)
    assert check.see(Counted(talk.size, talk.tokens)) is None
    check.forget()
    assert check.see(Counted(Talk(900).size, 240)) is None


def test_a_first_prompt_cut_to_the_known_context_is_found() -> None:
    size = Talk(60_000).size
    assert UsageCheck().see(Counted(size, 2040), context_tokens=2048) is not None
    assert UsageCheck().see(Counted(size, 2040), context_tokens=32768) is None
    assert UsageCheck().see(Counted(size, 2040)) is None


KINDS = {
    "prose": (lambda chars: prose(chars, chars), 4.3),
    "figures": (lambda chars: ("1934.07, 22;" * chars)[:chars], 1.1),
    "chinese": (lambda chars: ("今天天气很好我们去看河" * chars)[: chars // 2], 1.4),
    "code of letters": (lambda chars: ("xKqZpTwVbN" * chars)[:chars], 2.5),
    "a line": (lambda chars: "-" * chars, 30.0),
    "long words": (lambda chars: ("internationalization communications " * chars)[:chars], 6.5),
}
"""Texts, and about the characters that a tokenizer gets into one token of them."""

parts = st.tuples(st.sampled_from(sorted(KINDS)), st.integers(0, 6000))


class Real:
    """A conversation of texts of any kind, and what a server counts of it."""

    def __init__(self, overhead: int) -> None:
        self.size = Size()
        self.tokens = 0
        self._overhead = overhead

    def add(self, role: str, kind: str, chars: int, **more: object) -> None:
        make, chars_per_token = KINDS[kind]
        content = make(chars)
        self.size += size_of({"role": role, "content": content, **more})
        self.tokens += int(len(content) / chars_per_token) + self._overhead


@settings(max_examples=150, deadline=None)
@given(question=parts, added=st.lists(parts, min_size=1, max_size=20), overhead=st.integers(0, 10))
def test_no_honest_server_is_accused(question: tuple[str, int], added: list[tuple[str, int]], overhead: int) -> None:
    real, check = Real(overhead), UsageCheck()
    real.add("user", *question)
    assert check.see(Counted(real.size, real.tokens)) is None
    for part in added:
        real.add("assistant", "prose", 30)
        real.add("tool", *part)
        assert check.see(Counted(real.size, real.tokens)) is None


@settings(max_examples=150, deadline=None)
@given(
    question=parts,
    added=st.lists(parts, min_size=2, max_size=20),
    overhead=st.integers(0, 10),
    tail=st.integers(0, 20),
)
@example(("code of letters", 153), [("long words", 484), ("a line", 2250), ("a line", 0)], 0, 0)
def test_no_server_that_counts_only_new_tokens_is_accused(
    question: tuple[str, int], added: list[tuple[str, int]], overhead: int, tail: int
) -> None:
    real, check = Real(overhead), UsageCheck()
    before = 0
    real.add("user", *question)
    for part in added:
        assert check.see(Counted(real.size, real.tokens - before + tail)) is None
        before = real.tokens
        real.add("assistant", "prose", 30)
        real.add("tool", *part)


@pytest.mark.parametrize("counts", [[1000, 900, 800], [1000, 1000], [1000, 990, 1010], [3000, 2600]])
def test_a_count_that_falls_or_stays_while_the_conversation_grows_is_found(counts: list[int]) -> None:
    real, check = Real(5), UsageCheck()
    real.add("user", "prose", 4 * counts[0])
    found = []
    for count in counts:
        found.append(check.see(Counted(real.size, count)))
        real.add("assistant", "prose", 30)
        real.add("tool", "prose", 1800)
    assert found[0] is None
    assert found[1] is not None
    assert f"counted {counts[1]} prompt tokens, after {counts[0]} before" in found[1]
