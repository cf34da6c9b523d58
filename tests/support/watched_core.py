"""A scheduler over a tiny engine whose cells are watched one by one."""

from __future__ import annotations

from daneel.server.engines.base import StepOutput
from daneel.server.engines.llama_cpp import LlamaCppEngine
from daneel.server.scheduler import Scheduler
from tests.support.shadow_cells import ShadowCells


class Core:
    """`outputs` by request. `saved`: what every state that was ever saved holds; it may outlive the engine."""

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
