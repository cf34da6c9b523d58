"""The scheduler, the engine and its cells under any order of events: what is reserved is used, and given back at the end."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support import tiny_models
from tests.support.shadow_cells import ShadowCells
from tests.support.tiny_engine import assert_same, cold, load, request, words

from daneel.server.engines.base import StepOutput
from daneel.server.engines.llama_cpp import LlamaCppEngine
from daneel.server.scheduler import Scheduler

WRITERS = {"llama": tiny_models.write_llama, "falcon_h1": tiny_models.write_falcon_h1}


@pytest.fixture(scope="module", params=list(WRITERS))
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return WRITERS[request.param](tmp_path_factory.mktemp("tiny") / "model.gguf")


@pytest.fixture(scope="module")
def judge(path: Path) -> Iterator[LlamaCppEngine]:
    """Says what requests say alone and cold."""
    engine = load(path)
    yield engine
    engine.close()


class Core:
    """A scheduler over a tiny engine whose cells are watched; outputs by request."""

    def __init__(self, engine: LlamaCppEngine, saved: dict[bytes, list[int]] | None = None) -> None:
        self.engine = engine
        self.cells = ShadowCells(engine, saved)
        self.outputs: dict[int, list[StepOutput]] = {}
        self.scheduler = Scheduler(engine, self._keep)

    def _keep(self, outputs: list[StepOutput]) -> None:
        for output in outputs:
            of_request = self.outputs.setdefault(output.request_id, [])
            assert not of_request or of_request[-1].finish is None, "an output after the last"
            of_request.append(output)

    def step(self) -> None:
        self.scheduler.step()
        self.cells.check()

    def moment(self, number: int) -> str:
        """Where a request is: "queued", "waiting" for cells, in "prefill", in "decode", or "over"."""
        outputs = self.outputs[number]
        if outputs[-1].finish is not None:
            return "over"
        sequence = next((each for each in self.engine._sequences if each.request.request_id == number), None)
        if sequence is None:
            return "queued"
        if sequence.generated:
            return "decode"
        return "prefill" if sequence.holder is not None else "waiting"

    def drain(self) -> None:
        """Until nothing is left to do; fails when that takes longer than it can."""
        for _ in range(5000):
            if not (self.scheduler.num_queued or self.scheduler.num_running):
                return
            self.step()
        raise AssertionError("requests do not come to an end")


def test_two_hundred_cancels_at_any_moment_leave_no_cell_and_no_sequence(path: Path) -> None:
    engine = load(path, context_tokens=256, kv_tokens=320, num_sequences=3)
    core, chance = Core(engine), random.Random(5)
    system = words(chance, 40)
    seen: dict[str, int] = {}
    for _ in range(200):
        requests = [
            request([*system[: chance.choice((0, 40))], *words(chance, chance.randint(1, 90))], max_tokens=30)
            for _ in range(chance.randint(1, 6))
        ]
        for each in requests:
            core.scheduler.submit(each)
        for _ in range(chance.randint(0, 12)):
            core.step()
        for each in chance.sample(requests, len(requests)):
            moment = core.moment(each.request_id)
            seen[moment] = seen.get(moment, 0) + 1
            core.scheduler.cancel(each.request_id)
            if chance.random() < 0.3:
                core.step()
        core.step()
        assert (core.scheduler.num_queued, core.scheduler.num_running, engine._sequences) == (0, 0, [])
        engine.cache.clear()
        core.cells.check_empty()
    assert all(seen[moment] >= 20 for moment in ("queued", "prefill", "decode")), seen
    engine.close()


def test_three_times_what_the_pool_holds_and_every_request_ends_properly(path: Path, judge: LlamaCppEngine) -> None:
    engine = load(path, context_tokens=200, kv_tokens=256, num_sequences=6)
    core, chance = Core(engine), random.Random(6)
    system = words(chance, 30)
    requests = [
        request([*system[: chance.choice((0, 30))], *words(chance, chance.randint(10, 90))], max_tokens=chance.randint(10, 80),
                tenant=chance.choice("ab"))
        for _ in range(14)
    ]  # fmt: skip
    first = sum(len(each.prompt_ids) + each.max_tokens for each in requests[:6])
    everything = sum(len(each.prompt_ids) + each.max_tokens for each in requests)
    assert first > 256
    assert everything > 3 * 256
    for each in requests:
        core.scheduler.submit(each)
    core.drain()
    for each in requests:
        outputs = core.outputs[each.request_id]
        assert outputs[-1].finish in ("stop", "length")
        assert_same(outputs, cold(judge, each.prompt_ids, max_tokens=each.max_tokens))
    engine.cache.clear()
    core.cells.check_empty()
    engine.close()
