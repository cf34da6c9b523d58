"""Replays: the replies on record, the tools of today; what comes out otherwise is said, and nothing is changed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.harness.test_resume import ALLOWED, Script, answer, call
from tests.support.twelve_steps import Model, harness, play

from daneel import Harness, tool
from daneel.harness.loop import run
from daneel.harness.replay import Replayed, replay
from daneel.harness.transcript import TranscriptStore


class Desk:
    """Two tools whose behaviour can change: one looks, one writes."""

    def __init__(self) -> None:
        self.weather = "sunny"
        self.written: list[str] = []

        @tool(effects="read")
        def look() -> str:
            """Look out of the window."""
            return self.weather

        @tool(effects="write")
        def write(text: str) -> str:
            """Write a line."""
            self.written.append(text)
            return f"{len(self.written)} lines"

        self.harness = Harness(tools=[look, write], safety=ALLOWED)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[TranscriptStore]:
    with TranscriptStore(tmp_path / "t.db") as store:
        yield store


def recorded(store: TranscriptStore, desk: Desk, *replies: Any) -> str:
    return run(desk.harness, "Go.", client=Script(*replies), transcript=store).id


def replayed(store: TranscriptStore, run_id: str, held: Harness, **more: Any) -> Replayed:
    return replay(store.find(run_id), store.events(run_id), held, **more)


REPLIES = (call("look"), call("write", text="A"), answer("Done."))


def test_the_same_harness_does_the_same(store: TranscriptStore) -> None:
    desk = Desk()
    run_id = recorded(store, desk, *REPLIES)
    before = store.events(run_id)
    again = replayed(store, run_id, desk.harness)
    assert again.differences == []
    assert (again.run.stop_reason, again.run.answer, again.run.turns) == ("answered", "Done.", 3)
    assert desk.written == ["A"]
    assert store.events(run_id) == before
    assert len(store.runs()) == 1


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_long_run_comes_out_the_same(tmp_path: Path, seed: int) -> None:
    job = {"store": tmp_path / "t.db", "ledger": tmp_path / "ledger", "seed": seed}
    play(job)
    with TranscriptStore(tmp_path / "t.db") as store:
        found = replayed(store, store.find("last").id, harness(tmp_path / "ledger")).differences
    # the ledger is longer now than it was when it was looked at
    assert {difference.what for difference in found} <= {"result"}
    assert (tmp_path / "ledger").read_text().split() == Model(seed).expected


def test_another_result_is_told_once(store: TranscriptStore) -> None:
    desk = Desk()
    run_id = recorded(store, desk, *REPLIES)
    desk.weather = "rainy"
    (found,) = replayed(store, run_id, desk.harness).differences
    assert (found.turn, found.what, found.recorded["name"]) == (1, "result", "look")
    assert "sunny" in found.recorded["result"]
    assert "rainy" in found.now["result"]


def test_another_prompt_and_other_requests(store: TranscriptStore) -> None:
    desk = Desk()
    run_id = recorded(store, desk, *REPLIES)
    found = replayed(store, run_id, desk.harness.with_changes(system="Hurry.", temperature=0.5)).differences
    kinds = [(difference.turn, difference.what) for difference in found]
    assert (0, "message") in kinds
    assert [kind for kind in kinds if kind[1] == "request"] == [(1, "request"), (2, "request"), (3, "request")]


def test_a_harness_that_ends_sooner(store: TranscriptStore) -> None:
    desk = Desk()
    run_id = recorded(store, desk, *REPLIES)
    again = replayed(store, run_id, desk.harness.with_changes(max_turns=1))
    assert again.run.stop_reason == "turn_limit"
    missing = {(found.what, found.now) for found in again.differences if found.now is None}
    assert ("call", None) in missing
    assert any(found.what == "stop" and found.recorded["reason"] == "answered" for found in again.differences)


def test_what_changes_something_is_only_done_when_asked_for(store: TranscriptStore) -> None:
    desk = Desk()
    run_id = recorded(store, desk, *REPLIES)
    (found,) = replayed(store, run_id, desk.harness, all_tools=True).differences
    assert found.what == "result"
    assert "2 lines" in found.now["result"]
    assert desk.written == ["A", "A"]


def test_a_new_call_that_changes_something_is_not_made(store: TranscriptStore) -> None:
    desk = Desk()
    only_look = desk.harness.with_changes(tools=desk.harness.tools[:1])
    run_id = run(only_look, "Go.", client=Script(*REPLIES), transcript=store).id
    assert desk.written == []
    found = replayed(store, run_id, desk.harness).differences
    assert ("call", None) in [(difference.what, difference.recorded) for difference in found]
    assert desk.written == []


def test_a_run_that_was_cut_short_is_replayed_as_far_as_it_came(store: TranscriptStore) -> None:
    desk = Desk()
    run_id = recorded(store, desk, *REPLIES[:2], KeyboardInterrupt())
    again = replayed(store, run_id, desk.harness)
    assert (again.differences, again.run.turns) == ([], 2)
