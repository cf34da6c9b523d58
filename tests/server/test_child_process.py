"""What a child says goes nowhere but into the reason of its end."""

from __future__ import annotations

import asyncio

import pytest

from daneel.server.child_process import ChildProcess
from daneel.server.engine_messages import FromChild, Load, Loaded, Tokenize
from daneel.server.engines.base import EngineSpec


def test_the_reason_of_an_end_holds_the_last_line_written(capfd: pytest.CaptureFixture[str]) -> None:
    async def run() -> str:
        child = await ChildProcess.spawn("daneel.server.engine_main", FromChild)
        await child.frames.send(Tokenize(1, "too early"))
        with pytest.raises(EOFError):
            await child.frames.recv()
        reason = await child.exit_reason(grace_s=20)  # what was written is waited for here
        assert len(child.last_lines()) > 1  # the traceback
        return reason

    assert asyncio.run(run()) == "exit code 1: TypeError: expected a Load frame first, got Tokenize"
    assert capfd.readouterr() == ("", "")


def test_a_closed_socket_ends_the_child_without_a_kill() -> None:
    async def run() -> str:
        child = await ChildProcess.spawn("daneel.server.engine_main", FromChild)
        await child.frames.send(Load(EngineSpec("scripted")))
        while not isinstance(await child.frames.recv(), Loaded):
            pass
        await child.end(grace_s=20)
        await child.end()  # safe to call twice
        return await child.exit_reason()

    assert asyncio.run(run()) == "exit code 0"


def test_a_child_that_does_not_end_is_killed() -> None:
    async def run() -> str:
        child = await ChildProcess.spawn("daneel.server.engine_main", FromChild)
        return await child.exit_reason(grace_s=0.0)  # it is still importing

    assert asyncio.run(run()).startswith("killed by SIGKILL")
