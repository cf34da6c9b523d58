"""Requests, cancels, forks, evictions and restarts in any order, on the scheduler and a tiny real engine.

After every event what is counted as reserved is used, cell by cell, no cell is without a holder, and every holder is known. At
the end each request that was not cancelled has ended once, and has said what it says alone and cold.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from tests.support import tiny_models
from tests.support.tiny_engine import assert_same, cold, load, request, said, words
from tests.support.watched_core import Core

from daneel.server.engines.base import Generate, PromptCache

POOL, CONTEXT, SEQUENCES = 160, 120, 3
TEXT = words(random.Random(8), 60)
"""What prompts begin with, so that they have much in common."""


class CoreMachine(RuleBasedStateMachine):
    """See the module's docstring. Subclasses say which model it is."""

    write: Callable[[Path], Path]

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.model = type(self).write(self.folder / "model.gguf")
        self.saved: dict[bytes, list[int]] = {}
        self.asked: list[Generate] = []
        self.dropped: set[int] = set()

    @initialize(tiered=st.booleans())
    def start(self, tiered: bool) -> None:
        self.kept = PromptCache(folder=str(self.folder / "cache")) if tiered else PromptCache(max_entries=0)
        self.begin()

    def begin(self) -> None:
        engine = load(
            self.model,
            context_tokens=CONTEXT,
            kv_tokens=POOL,
            num_sequences=SEQUENCES,
            prefill_chunk_tokens=16,
            prompt_cache=self.kept,
        )
        self.core = Core(engine, self.saved)

    @rule(
        shared=st.integers(0, len(TEXT)),
        own=st.lists(st.integers(3, 258), min_size=1, max_size=20),
        max_tokens=st.integers(1, 60),
        tenant=st.sampled_from("aab"),
        use=st.sampled_from([True, True, True, False]),
        keep=st.booleans(),
    )
    def submit(self, shared: int, own: list[int], max_tokens: int, tenant: str, use: bool, keep: bool) -> None:
        self.ask([*TEXT[:shared], *own], max_tokens=max_tokens, tenant=tenant, use_cache=use, keep_cache=keep)

    @precondition(lambda self: self.asked)
    @rule(data=st.data(), own=st.lists(st.integers(3, 258), min_size=1, max_size=8), num=st.integers(1, 3))
    def fork(self, data: st.DataObject, own: list[int], num: int) -> None:
        """Requests that go on from where another is, or ended."""
        before = data.draw(st.sampled_from(self.asked))
        so_far = [token for output in self.core.outputs[before.request_id] for token in output.token_ids]
        for last in own[-1:] * num:
            ids = [*before.prompt_ids, *so_far, *own[:-1], last]
            if len(ids) < CONTEXT - 8:
                self.ask(ids, max_tokens=8, tenant=before.tenant)

    @rule(num_steps=st.integers(1, 12))
    def step(self, num_steps: int) -> None:
        for _ in range(num_steps):
            self.core.step()

    @precondition(lambda self: self.asked)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(self.asked)).request_id
        if self.core.moment(number) != "over":
            self.dropped.add(number)
        self.core.scheduler.cancel(number)
        self.core.step()
        assert all(each.request.request_id != number for each in self.core.engine._sequences)

    @rule(num_cells=st.integers(1, POOL), all_idle=st.booleans())
    def evict(self, num_cells: int, all_idle: bool) -> None:
        if all_idle:
            self.core.engine.cache.clear()
        else:
            self.core.engine.cache.room(num_cells)
        self.core.cells.check()

    @rule()
    def restart(self) -> None:
        """What runs is lost with the process; what is idle comes back where there is a disk."""
        self.judge()
        self.core.engine.close()
        self.begin()

    def ask(self, ids: list[int], **fields: object) -> None:
        made = request(ids, **fields)
        self.asked.append(made)
        self.core.scheduler.submit(made)
        self.core.cells.check()

    def judge(self) -> None:
        """Compare what has ended by now with cold runs."""
        alone = load(self.model)
        for made in self.asked:
            outputs = self.core.outputs[made.request_id]
            if outputs[-1].finish is not None:
                assert outputs[-1].finish in ("stop", "length")
                assert len(said(outputs)) <= made.max_tokens
                assert_same(outputs, cold(alone, made.prompt_ids, max_tokens=len(said(outputs))))
        alone.close()
        self.asked.clear()

    def teardown(self) -> None:
        if hasattr(self, "core"):
            self.core.drain()
            for made in self.asked:
                ended = self.core.outputs[made.request_id][-1].finish is not None
                assert ended == (made.request_id not in self.dropped)
            self.judge()
            self.core.engine.cache.clear()
            self.core.cells.check_empty()
            self.core.engine.close()
        shutil.rmtree(self.folder)


class LlamaMachine(CoreMachine):
    write = staticmethod(tiny_models.write_llama)


class FalconMachine(CoreMachine):
    write = staticmethod(tiny_models.write_falcon_h1)


# the profile's number of examples is meant for rules that take microseconds
_SETTINGS = settings(deadline=None, max_examples=max(12, settings.default.max_examples // 10), stateful_step_count=30)
TestLlama = LlamaMachine.TestCase
TestLlama.settings = _SETTINGS
TestFalcon = FalconMachine.TestCase
TestFalcon.settings = _SETTINGS
