"""First in, first out, never more than fit, and a cancel takes effect before the next step."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daneel.server.engines.base import EngineInfo, Generate, Sampling, StepOutput
from daneel.server.scheduler import Scheduler


class CountingEngine:
    """Generates `max_tokens` tokens for each request, one a step, and notes what it was told."""

    def __init__(self, max_sequences: int) -> None:
        self.max_sequences = max_sequences
        self.left: dict[int, int] = {}
        self.admitted: list[int] = []
        self.info = EngineInfo("counting", "1", "counting", 100, [], [], [], "", "", False, None)

    def tokenize(self, text: str) -> list[int]:
        return list(text.encode())

    def check(self, request: Generate) -> None:
        if not request.prompt_ids:
            raise ValueError("the prompt is empty")

    def admit(self, request: Generate) -> None:
        assert len(self.left) < self.max_sequences
        self.admitted.append(request.request_id)
        self.left[request.request_id] = request.max_tokens

    def cancel(self, request_id: int) -> None:
        self.left.pop(request_id)

    def step(self) -> list[StepOutput]:
        outputs = []
        for request_id in list(self.left):
            self.left[request_id] -= 1
            finish = None if self.left[request_id] else "length"
            if finish:
                del self.left[request_id]
            outputs.append(StepOutput(request_id, [7], 0, 1, 1, finish=finish))
        return outputs

    def close(self) -> None:
        self.left.clear()


def request(request_id: int, num_tokens: int = 2) -> Generate:
    return Generate(request_id, [1], num_tokens, Sampling())


def test_first_in_first_out_and_one_frame_a_step() -> None:
    frames: list[list[StepOutput]] = []
    engine = CountingEngine(max_sequences=2)
    scheduler = Scheduler(engine, frames.append)
    for request_id in (1, 2, 3):
        scheduler.submit(request(request_id))
    assert [[output.token_ids for output in frame] for frame in frames] == [[[]], [[]], [[]]]  # accepted, at once
    frames.clear()
    for _ in range(4):
        scheduler.step()
    assert [[(output.request_id, output.finish) for output in frame] for frame in frames] == [
        [(1, None), (2, None)],
        [(1, "length"), (2, "length")],
        [(3, None)],
        [(3, "length")],
    ]
    assert engine.admitted == [1, 2, 3]
    assert frames[3][0].queue_ms >= 0.0
    assert (scheduler.num_queued, scheduler.num_running) == (0, 0)


def test_what_can_never_run_is_refused_at_once_and_queues_nothing() -> None:
    scheduler = Scheduler(CountingEngine(1), lambda outputs: None)
    with pytest.raises(ValueError, match="the prompt is empty"):
        scheduler.submit(Generate(1, [], 1, Sampling()))
    assert scheduler.num_queued == 0


def test_a_cancel_while_queued_never_reaches_the_engine() -> None:
    engine = CountingEngine(1)
    scheduler = Scheduler(engine, lambda outputs: None)
    scheduler.submit(request(1))
    scheduler.submit(request(2))
    scheduler.cancel(2)
    for _ in range(3):
        scheduler.step()
    assert engine.admitted == [1]


def test_a_cancel_while_running_makes_room_before_the_next_step() -> None:
    frames: list[list[StepOutput]] = []
    scheduler = Scheduler(CountingEngine(1), frames.append)
    scheduler.submit(request(1, num_tokens=1000))
    scheduler.submit(request(2))
    scheduler.step()
    scheduler.cancel(1)
    frames.clear()
    scheduler.step()
    assert [output.request_id for output in frames[0]] == [2]
    scheduler.cancel(1)
    scheduler.cancel(99)  # unknown: nothing happens
    scheduler.step()


@given(
    operations=st.lists(
        st.one_of(
            st.tuples(st.just("submit"), st.integers(1, 5)),
            st.tuples(st.just("cancel"), st.integers(1, 12)),
            st.tuples(st.just("step"), st.just(0)),
        ),
        max_size=60,
    ),
    max_sequences=st.integers(1, 3),
)
def test_every_request_ends_once_or_was_cancelled(operations: list[tuple[str, int]], max_sequences: int) -> None:
    outputs: list[StepOutput] = []
    engine = CountingEngine(max_sequences)
    scheduler = Scheduler(engine, outputs.extend)
    submitted: dict[int, int] = {}
    cancelled = set()
    for name, value in operations:
        if name == "submit":
            submitted[len(submitted) + 1] = value
            scheduler.submit(request(len(submitted), value))
        elif name == "cancel":
            finished = {output.request_id for output in outputs if output.finish}
            if value in submitted and value not in finished:
                cancelled.add(value)
            scheduler.cancel(value)
        else:
            scheduler.step()
            assert scheduler.num_running == len(engine.left) <= max_sequences
    while scheduler.num_queued or scheduler.num_running:
        scheduler.step()
    ends = [output.request_id for output in outputs if output.finish]
    assert sorted(ends) == sorted(set(submitted) - cancelled)
    assert engine.admitted == sorted(engine.admitted)
    for request_id in ends:
        assert sum(len(output.token_ids) for output in outputs if output.request_id == request_id) == submitted[request_id]


def test_run_waits_for_work_and_ends_when_closed() -> None:
    finished = threading.Event()

    def emit(outputs: list[StepOutput]) -> None:
        if any(output.finish for output in outputs):
            finished.set()

    scheduler = Scheduler(CountingEngine(1), emit)
    thread = threading.Thread(target=scheduler.run)
    thread.start()
    scheduler.submit(request(1))
    assert finished.wait(10)
    scheduler.close()
    thread.join(10)
    assert not thread.is_alive()


def test_actions_are_called_by_the_thread_that_steps_also_when_nothing_else_is_to_do() -> None:
    called: list[int] = []
    done = threading.Event()
    scheduler = Scheduler(CountingEngine(max_sequences=2), lambda outputs: None)
    thread = threading.Thread(target=scheduler.run)
    thread.start()
    scheduler.between_steps(lambda: called.append(threading.get_ident()))
    scheduler.between_steps(done.set)
    assert done.wait(60)
    assert called == [thread.ident]
    scheduler.close()
    thread.join()
