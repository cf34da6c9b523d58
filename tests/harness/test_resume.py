"""Runs that were killed at any moment go on and reach the same end; nothing that changes something is done twice unasked."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.twelve_steps import Model, play

from daneel.harness.transcript import TranscriptStore

ROOT = Path(__file__).parents[2]


class KillStage:
    """Processes that do a job and are killed in it, forked from one that has imported everything."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.support.twelve_steps"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)

    def do(self, **job: Any) -> int:
        """The job's exit code; -9 when it was killed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(job, default=str) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def close(self) -> None:
        self._process.communicate()


@pytest.fixture(scope="module")
def stage() -> Iterator[KillStage]:
    stage = KillStage()
    yield stage
    stage.close()


def killed_and_resumed(stage: KillStage, folder: Path, seed: int, kills: list[int]) -> None:
    """A run that is killed at the first moment, its resumption at the second, and so on; then it is left alone."""
    folder.mkdir()
    job: dict[str, Any] = {"store": folder / "t.db", "ledger": folder / "ledger", "seed": seed}
    for number, kill_at in enumerate(kills):
        code = stage.do(**job, kill_at=kill_at, resume=number > 0)
        if code == 0:
            break
        assert code == -9
        with TranscriptStore(job["store"]) as store:
            if not store.runs():
                return  # before the first row: there is nothing to go on with, and nothing was done
            assert store.find("last").state == "interrupted"
    with TranscriptStore(job["store"]) as store:
        if store.find("last").state == "interrupted":
            play({**job, "resume": True})
        row = store.find("last")
        events = [event.event for event in store.events(row.id)]
    model = Model(seed)
    assert row.state == "answered"
    assert row.outcome["answer"] == f"Done: {', '.join(model.expected)}"
    assert sorted((folder / "ledger").read_text().split()) == sorted(model.expected)
    messages = [event.data["message"] for event in events if event.kind == "message"]
    answered = [message["tool_call_id"] for message in messages if message["role"] == "tool"]
    asked = [call["id"] for message in messages for call in message.get("tool_calls", ())]
    assert answered == asked
    assert len(set(asked)) == len(asked)


def num_moments(folder: Path, seed: int) -> int:
    """How many moments the task has when nobody kills it; and that it is done then."""
    folder.mkdir()
    finished, count = play({"store": folder / "t.db", "ledger": folder / "ledger", "seed": seed})
    assert finished.stop_reason == "answered"
    assert (folder / "ledger").read_text().split() == Model(seed).expected
    return count


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize(
    "step",
    [pytest.param(31, id="sampled"), pytest.param(1, id="whole", marks=[pytest.mark.exhaustive, pytest.mark.timeout(1800)])],
)
def test_a_run_killed_at_any_moment_reaches_the_same_end(stage: KillStage, tmp_path: Path, seed: int, step: int) -> None:
    for kill_at in range(1 + 7 * seed % step, num_moments(tmp_path / "whole", seed) + 1, step):
        killed_and_resumed(stage, tmp_path / str(kill_at), seed, [kill_at])


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize(
    "step", [pytest.param(97), pytest.param(11, marks=[pytest.mark.exhaustive, pytest.mark.timeout(1800)])]
)
def test_a_resumed_run_may_be_killed_again(stage: KillStage, tmp_path: Path, seed: int, step: int) -> None:
    for kill_at in range(5 + seed, num_moments(tmp_path / "whole", seed), step):
        killed_and_resumed(stage, tmp_path / str(kill_at), seed, [kill_at, 1 + kill_at % 13, 1 + kill_at % 7])
