"""How a run ends: one exception, raised wherever the reason is found and caught once, in `loop.run`."""

from __future__ import annotations

from daneel.harness.run_record import StopReason


class Stop(Exception):
    """The run ends here. `answer` only when `answered`; `detail` is one sentence where the reason alone says too little."""

    def __init__(self, reason: StopReason, detail: str | None = None, *, answer: str | None = None) -> None:
        super().__init__(reason if detail is None else f"{reason}: {detail}")
        self.reason: StopReason = reason
        self.detail = detail
        self.answer = answer
