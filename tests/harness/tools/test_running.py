"""Calling a tool's function: whatever it raises, and however long it takes, the caller goes on."""

from __future__ import annotations

import contextvars
import threading

import pytest
from tests.support.scripted_server import calls, text
from tests.support.stage import Stage

from daneel import Harness, tool
from daneel.harness.tools.running import Done, ToolTimeout, call

RELEASE = threading.Event()


@tool(timeout_s=0.05)
def hangs() -> str:
    """Hangs"""
    RELEASE.wait(60)
    return "late"


def test_a_hanging_tool_is_left_behind_and_the_model_is_told() -> None:
    with Stage() as stage:
        run, requests = stage.play([calls(("hangs", {})), text("It hangs.")], Harness(tools=[hangs]))
    RELEASE.set()
    assert run.stop_reason == "answered"
    assert "not done within 0.05 s" in str(run.calls[0].error)
    assert requests[1]["messages"][-1]["content"].startswith("Error: hangs was not done within 0.05 s")


def test_within_its_time_all_is_as_without() -> None:
    value = contextvars.ContextVar("value", default=0)
    value.set(7)

    @tool
    def read() -> int:
        """Read"""
        return value.get()

    assert call(read, {}, timeout_s=60) == call(read, {}) == Done(7)


@pytest.mark.parametrize("timeout_s", [None, 60.0])
@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt("a tool's own"), ValueError("x")])
def test_what_a_tool_raises_in_a_thread_is_its_failure(error: BaseException, timeout_s: float | None) -> None:
    @tool
    def raises() -> None:
        """Raises"""
        raise error

    if isinstance(error, KeyboardInterrupt) and timeout_s is None:
        with pytest.raises(KeyboardInterrupt):  # in the main thread nobody can tell it from Ctrl-C
            call(raises, {})
        return
    assert str(call(raises, {}, timeout_s=timeout_s).error).startswith(type(error).__name__)


def test_a_tool_may_keep_its_own_time() -> None:
    @tool
    def slow() -> None:
        """Slow"""
        raise ToolTimeout(5)

    assert call(slow, {}) == Done(error="not done within 5 s", timeout_s=5)
