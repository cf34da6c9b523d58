"""What a model proposes is hostile until checked: bounded, one line, a valid name that is free; else dropped, and noted."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.tune_world import BAD_STARTS, BEST, World

from daneel.bench.store import TrialStore
from daneel.bench.tune.edits import Describe, Rename, edited
from daneel.bench.tune.ledger import LedgerStore
from daneel.bench.tune.proposer import MAX_LINES, MAX_NOTES, Proposer, lines_of
from daneel.bench.tune.wording import (
    MAX_DESCRIPTION_CHARS,
    MAX_NAME_CHARS,
    checked,
    descriptions_for,
    names_for,
    why_no_description,
    why_no_name,
)
from daneel.harness.client import ServerUnreachable
from daneel.harness.files import load
from daneel.harness.reply import Reply
from daneel.wire.messages import Message

START = BAD_STARTS["undescribed"]


@dataclass
class Saying:
    """A model that says this, or fails."""

    said: str | Exception | None
    asked: list = field(default_factory=list)

    def chat(self, messages, *, params=None, timeout_s=None) -> Reply:
        self.asked.append((messages, params))
        if isinstance(self.said, Exception):
            raise self.said
        return Reply(Message(role="assistant", content=self.said), "stop")


@pytest.fixture
def world(tmp_path):
    path = tmp_path / "t.db"
    with TrialStore(path) as store, LedgerStore(path) as ledgers:
        yield World(store=store, ledgers=ledgers)


def proposer(world, said) -> Proposer:
    return Proposer(Saying(said), world.tuning(START), world.ledgers.save)


def test_lines_lose_the_marks_of_a_list(world):
    said = '1. `Look up a word`\n\n- "Find a word"\n* Explain a word\n(4) **Say what a word means**'
    found = proposer(world, said)(START, "look_up", "description")
    assert [each.text for each in found] == ["Look up a word", "Find a word", "Explain a word", "Say what a word means"]
    assert {each.source for each in found} == {"model"}


def test_the_same_is_asked_once_and_kept(world):
    asking = proposer(world, "Find a word")
    first = asking(START, "look_up", "description")
    assert asking(START, "look_up", "description") == first
    assert len(asking._client.asked) == 1
    again = Proposer(Saying(RuntimeError("never asked")), world.ledgers.load("t_1"), world.ledgers.save)
    assert again(START, "look_up", "description") == first


def test_no_code_is_shown_to_it(world):
    asking = proposer(world, "x")
    asking(START, "look_up", "name")
    ((messages, params),) = asking._client.asked
    assert "look_up" in messages[0]["content"]
    assert "return" not in messages[0]["content"]
    assert params["max_tokens"] <= 200


def test_what_is_no_name_is_dropped_and_noted(world):
    said = "add_note\nno good\n\x1b[31mred\n" + "x" * 100 + "\nword_of"
    asking = proposer(world, said)
    assert [each.text for each in asking(START, "look_up", "name")] == ["word_of"]
    notes = asking._tuning.notes
    assert len(notes) == 4
    assert any("another tool has that name" in note for note in notes)
    assert all(len(note) < 200 for note in notes)


@pytest.mark.parametrize("said", ["TODO", "look_up", "<|im_end|>", "[INST] hi", "x" * 1000, "\ud800", "a\x00b", "…", ""])
def test_what_is_no_description_is_dropped(world, said):
    assert proposer(world, said)(START, "look_up", "description") == []


def test_a_proposer_that_fails_is_asked_no_more(world):
    asking = proposer(world, ServerUnreachable("nobody there"))
    assert asking(START, "look_up", "description") == ()
    assert asking(START, "add_note", "description") == ()
    assert len(asking._client.asked) == 1
    assert "nobody there" in asking._tuning.notes[0]


def test_no_words_at_all(world):
    assert proposer(world, None)(START, "look_up", "name") == []


def test_notes_are_bounded(world):
    asking = proposer(world, "")
    for number in range(MAX_NOTES + 20):
        asking._client.said = f"no good {number}"
        asking(edited(START, [Describe(tool="add_note", text=f"note {number}")]), "look_up", "name")
    assert len(asking._tuning.notes) == MAX_NOTES


@given(st.text(max_size=5000) | st.text(alphabet='ab_-`*"1. \n', max_size=400))
def test_whatever_is_said_only_usable_wordings_are_left(text):
    lines = lines_of(text)
    assert len(lines) <= MAX_LINES
    refused: list[str] = []
    for what in ("name", "description"):
        for wording in checked(lines, START, "look_up", what, "model", lambda line, why: refused.append(line)):
            edit = Rename(tool="look_up", name=wording.text) if what == "name" else Describe(tool="look_up", text=wording.text)
            edited(START, [edit])
            assert len(wording.text) <= (MAX_NAME_CHARS if what == "name" else MAX_DESCRIPTION_CHARS)
    assert all(len(line) <= MAX_NAME_CHARS for line in refused)


def test_a_hostile_proposer_changes_nothing_of_the_end(world):
    world.propose = Proposer(
        Saying("rm -rf\nadd_note\n{__import__}\n" + "\u202e" * 50), world.tuning(BAD_STARTS["failing"]), lambda tuning: None
    )
    start = BAD_STARTS["failing"]
    tuning = world.tune(world.tuning(start), start)
    assert edited(start, tuning.kept).fingerprint() == BEST.fingerprint()


def test_rules_name_and_describe_as_the_tools_beside_it(tmp_path):
    file = tmp_path / "clock.py"
    file.write_text(
        "from daneel import Harness, tool\n\n"
        "@tool\ndef cur_time() -> str:\n    '''Get current time'''\n    return ''\n\n"
        "def today() -> str:\n    return ''\n\n"
        "H = Harness(tools=[cur_time, tool(name='my_date', description='TODO')(today)])\n"
    )
    harness = load(file).harness()
    assert [each.text for each in names_for(harness, "my_date")] == ["cur_date", "today", "date"]
    assert descriptions_for(harness, "my_date")[0].text == "Get current date"
    assert names_for(harness, "nobody") == descriptions_for(harness, "nobody") == []


def test_rules_take_the_docstring_first():
    assert descriptions_for(START, "look_up")[0].text == "Look up a word in the glossary"
    assert all(why_no_description(each.text) is None for each in descriptions_for(START, "look_up"))
    assert all(why_no_name(each.text, START) is None for each in names_for(START, "look_up"))
