"""Thoughts in tags inside the content, at any cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daneel.harness.inline_thoughts import InlineThoughts, lone_closing_tags, thought_tags
from daneel.harness.reply import put_thoughts
from daneel.wire.accumulate import Accumulator, join
from daneel.wire.messages import Delta, Message

CASES = [
    ("<think>hm</think>yes", "hm", "yes", "<think>"),
    ("<think>\nhm\n</think>\n\nyes", "\nhm\n", "\n\nyes", "<think>"),
    ("\n <think>hm</think>yes", "hm", "yes", "<think>"),
    ("hm</think>yes", "hm", "yes", "</think>"),
    ("hm\n</think>", "hm\n", None, "</think>"),
    ("<think></think>yes", None, "yes", "<think>"),
    ("<think>hm", "hm", None, "<think>"),
    ("<think>hm</thin", "hm</thin", None, "<think>"),
    ("<think>a < b</think>c < d", "a < b", "c < d", "<think>"),
    ("<think>a</think>b</think>c", "a", "b</think>c", "<think>"),
    ("<think>a</think>b<think>c</think>", "a", "b<think>c</think>", "<think>"),
    ("[THINK]hm[/THINK]yes", "hm", "yes", "[THINK]"),
    ("<seed:think>hm</seed:think>yes", "hm", "yes", "<seed:think>"),
    ("<|channel>thought\nhm<channel|>yes", "\nhm", "yes", "<|channel>thought"),
    ("◁think▷hm◁/think▷yes", "hm", "yes", "◁think▷"),
    ("yes", None, "yes", None),
    ("", None, None, None),
    ("  ", None, "  ", None),
    ("<thin", None, "<thin", None),
    ("<", None, "<", None),
    ("<table>", None, "<table>", None),
    ("say <think> and </think>", None, "say <think> and </think>", None),
    ("the tag `</think>` ends it", None, "the tag `</think>` ends it", None),
    ('"</think>"', None, '"</think>"', None),
    ("`</think>` is quoted, then</think>yes", "`</think>` is quoted, then", "yes", "</think>"),
    ("Here is my thought process: none", None, "Here is my thought process: none", None),
]


def read(*pieces: str, field: str = "content") -> tuple[Accumulator, list[Delta]]:
    read = Accumulator(split=InlineThoughts())
    deltas = [read.add({"choices": [{"index": 0, "delta": {field: piece}}]}) for piece in pieces]
    return read, [*(delta for delta in deltas if delta is not None), read.final_delta()]


@pytest.mark.parametrize(("content", "thoughts", "rest", "tag"), CASES)
def test_every_cut_gives_the_same_message(content: str, thoughts: str | None, rest: str | None, tag: str | None) -> None:
    expected = Message(role="assistant", content=rest, reasoning=thoughts)
    cuts = [(content[:cut], content[cut:]) for cut in range(len(content) + 1)]
    for pieces in [*cuts, tuple(content)]:
        made, deltas = read(*pieces)
        assert (made.message(), made.reasoning_field) == (expected, tag), pieces
        if tag not in lone_closing_tags():
            assert join(deltas) == expected, pieces


@pytest.mark.parametrize(("content", "thoughts", "rest", "tag"), CASES)
def test_a_message_goes_back_as_the_server_wrote_it(
    content: str, thoughts: str | None, rest: str | None, tag: str | None
) -> None:
    sent = {"role": "assistant", "content": rest or ""}
    if thoughts:
        put_thoughts(sent, thoughts, tag)
        closed = content.lstrip() if tag != "<think>" or "</think>" in content else f"{content}</think>"
        assert sent == {"role": "assistant", "content": closed}


@given(st.lists(st.sampled_from(["<think>", "</think>", "[THINK]", "[/THINK]", "<", "think", ">", "`", "a", "\n"]), max_size=8))
def test_no_text_is_lost_or_made_up(parts: list[str]) -> None:
    content = "".join(parts)
    made, _ = read(*content)
    message = made.message()
    whole, _ = read(content)
    assert (whole.message(), whole.reasoning_field) == (message, made.reasoning_field)
    sent = {"content": message.content}
    put_thoughts(sent, message.reasoning or "", made.reasoning_field or "reasoning")
    closing = thought_tags().get(made.reasoning_field or "", "")
    assert (sent["content"] or "").strip() in (content.strip(), content.lstrip() + closing)


def test_text_that_may_be_a_tag_is_in_the_message_at_once() -> None:
    made = Accumulator(split=InlineThoughts())
    made.add({"choices": [{"delta": {"content": "yes</thi"}}]})
    assert made.message().content == "yes</thi"
    made = Accumulator(split=InlineThoughts())
    made.add({"choices": [{"delta": {"content": "<think>hm</thi"}}]})
    assert made.message() == Message(role="assistant", content=None, reasoning="hm</thi")


def test_a_server_that_takes_the_thoughts_out_itself_leaves_none_in_the_content() -> None:
    made = Accumulator(split=InlineThoughts())
    for delta in ({"reasoning_content": "hm"}, {"content": "<think>is a tag</think>"}):
        made.add({"choices": [{"delta": delta}]})
    made.final_delta()
    assert made.message() == Message(role="assistant", content="<think>is a tag</think>", reasoning="hm")
    assert made.reasoning_field == "reasoning_content"


def test_the_tags_of_every_family_that_has_any() -> None:
    assert thought_tags()["<think>"] == "</think>"
    assert len(thought_tags()) >= 10
    assert all(not tag[0].isalnum() for tag in thought_tags())
