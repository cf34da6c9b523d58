"""The parts of `bench/agents.py` that need no server: what is replayed, and what a perfect cache would know of it."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

BENCH = Path(__file__).parents[2] / "bench"


@pytest.fixture(scope="module")
def agents() -> Iterator[ModuleType]:
    """The script as a module; like Python itself it finds its neighbours in its own folder."""
    pytest.importorskip("llama_cpp")
    before = list(sys.path)
    sys.path.insert(0, str(BENCH))
    try:
        import agents

        yield agents
    finally:
        sys.path[:] = before
        for name in [
            name for name, module in sys.modules.items() if Path(getattr(module, "__file__", None) or "/").parent == BENCH
        ]:
            del sys.modules[name]


class FakeTexts:
    """Words without a vocabulary: every word is a token."""

    def __init__(self, forced: Any) -> None:
        self._forced = forced

    def text(self, num_tokens: int, chance: random.Random) -> str:
        return " ".join(f"w{chance.randrange(1000)}" for _ in range(num_tokens))

    def forced(self, num_tokens: int, chance: random.Random) -> Any:
        return self._forced("ok", 7, num_tokens)


def test_the_plan_has_the_shape_and_goes_on_from_itself(agents: ModuleType) -> None:
    shape = agents.Shape()
    sessions = agents.plan(FakeTexts(agents.Forced), shape)
    assert sessions == agents.plan(FakeTexts(agents.Forced), shape)
    assert [len(steps) for steps in sessions] == [8] * 12
    assert len({steps[0].messages[0]["content"] for steps in sessions}) == 3
    assert {step.reply.num_tokens for steps in sessions for step in steps} == {24, 96}
    for steps in sessions:
        assert steps[0].wait_s == 0
        for before, after in pairwise(steps):
            assert after.messages[: len(before.messages)] == before.messages
            assert after.messages[-2] == {"role": "assistant", "content": before.reply.text}
            assert len(after.messages[-1]["content"].split()) <= 256
            assert 0.2 <= after.wait_s <= 1.0


def test_the_oracle_knows_what_was_sent_before_and_replies_that_were_there(agents: ModuleType) -> None:
    def done(session: int, turn: int, sent_s: float, ended_s: float) -> Any:
        return agents.Done(session, turn, sent_s, ended_s, 0.0, 0, 0, None, None)

    prompts = {(0, 0): [1, 2, 3], (1, 0): [1, 2, 4], (0, 1): [1, 2, 3, 9, 9, 5], (2, 0): [1, 2, 3, 9, 9], (3, 0): [8, 8]}
    replies = {(0, 0): [9, 9], (1, 0): [], (0, 1): [], (2, 0): [], (3, 0): []}
    requests = [
        done(0, 1, 3.0, 4.0),  # its first turn ended: prompt and reply are known, one token is left
        done(0, 0, 0.0, 2.0),  # the first of all: nothing is known
        done(1, 0, 1.0, 9.0),  # two tokens of a request that still runs
        done(2, 0, 1.5, 9.0),  # all of its prompt, but nothing of the reply, which is not there yet
        done(3, 0, 5.0, 9.0),  # like nothing before it
    ]
    assert agents.oracle(requests, prompts, replies) == [0, 2, 3, 5, 0]


def test_kept_results_are_used_again_for_the_same_setup_only(agents: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "kept.jsonl"
    kept = agents.Kept
    assert kept(path, {"threads": 2}).get(("arm", 8), lambda: {"total_s": 1.0}) == {"total_s": 1.0}
    path.write_text(path.read_text() + '{"cut off')
    assert kept(path, {"threads": 2}).get(("arm", 8), lambda: pytest.fail("not again")) == {"total_s": 1.0}
    assert kept(path, {"threads": 1}).get(("arm", 8), lambda: {"total_s": 2.0}) == {"total_s": 2.0}
    assert kept(path, {"threads": 2}).get(("arm", 4), lambda: {"total_s": 3.0}) == {"total_s": 3.0}
    assert kept(path, {"threads": 1}).get(("arm", 8), lambda: pytest.fail("not again")) == {"total_s": 2.0}
