"""The queue in front of an engine and the loop that steps it; lives in the engine's process.

As many requests at a time as the engine takes are admitted, fairly between tenants (`fair_queue.py`). `submit` and `cancel` may
be called from any thread; one thread runs `run` (or `step`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import msgspec

from daneel.server.engines.base import Engine, Generate, StepOutput
from daneel.server.fair_queue import FairQueue


class Scheduler:
    """Feeds `engine` and hands the outputs of each step, all sequences together, to `emit`."""

    def __init__(self, engine: Engine, emit: Callable[[list[StepOutput]], None]) -> None:
        self._engine = engine
        self._emit = emit
        self._changed = threading.Condition()
        self._queue = FairQueue(time.monotonic)
        self._running: dict[int, float] = {}
        """Admitted request ids and how long each was queued, in milliseconds."""
        self._cancelled: list[int] = []
        self._actions: list[Callable[[], None]] = []
        self._closed = False

    def submit(self, request: Generate) -> None:
        """Queue a request, and emit an empty output that says it is accepted. Raises `ValueError` when it can never run."""
        self._engine.check(request)
        self._emit([StepOutput(request.request_id, [], 0, 0, len(request.prompt_ids))])
        with self._changed:
            self._queue.put(request)
            self._changed.notify()

    def cancel(self, request_id: int) -> None:
        """Drop a request, queued or running, before the next step. Unknown ids are ignored."""
        with self._changed:
            if not self._queue.remove(request_id):
                self._cancelled.append(request_id)
                self._changed.notify()

    def between_steps(self, action: Callable[[], None]) -> None:
        """Have `action` called before the next step by the thread that steps, which alone may touch the engine's cache."""
        with self._changed:
            self._actions.append(action)
            self._changed.notify()

    @property
    def num_queued(self) -> int:
        with self._changed:
            return len(self._queue)

    @property
    def num_running(self) -> int:
        with self._changed:
            return len(self._running)

    def close(self) -> None:
        """Make `run` return after the step it is in."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def run(self) -> None:
        """Step while there is work, wait while there is none, until `close`."""
        while True:
            with self._changed:
                while not (self._closed or self._queue or self._running or self._cancelled or self._actions):
                    self._changed.wait()
                if self._closed:
                    return
            self.step()

    def step(self) -> None:
        """Apply cancels and actions, admit what fits, and step the engine once."""
        with self._changed:
            actions, self._actions = self._actions, []
        for action in actions:
            action()
        with self._changed:
            for request_id in self._cancelled:
                if self._running.pop(request_id, None) is not None:
                    self._engine.cancel(request_id)
            self._cancelled.clear()
            while self._queue and len(self._running) < self._engine.max_sequences:
                queued = self._queue.take()
                self._running[queued.request.request_id] = (time.monotonic() - queued.queued_at) * 1000
                self._engine.admit(queued.request)
            if not self._running:
                return
        outputs = [self._with_queue_time(output) for output in self._engine.step()]
        self._emit(outputs)

    def _with_queue_time(self, output: StepOutput) -> StepOutput:
        if output.finish is None:
            return output
        with self._changed:
            queue_ms = self._running.pop(output.request_id, 0.0)
        return msgspec.structs.replace(output, queue_ms=queue_ms)
