"""Calls a tool's function: whatever it raises, and however long it takes, the caller goes on."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections.abc import AsyncIterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from daneel.harness.raised import ToolFailure, described, is_interrupt

if TYPE_CHECKING:
    from daneel.harness.tools.registry import Tool


class ToolTimeout(Exception):
    """Raised by a tool that keeps its own time and has run out of it; the model is told as of any other tool."""

    def __init__(self, timeout_s: float) -> None:
        super().__init__(f"not done within {timeout_s:g} s")
        self.timeout_s = timeout_s


class ForeignFailure(Exception):
    """Raised by a tool that failed in words which are not its author's, such as a server's. They are treated as a result is."""


@dataclass(frozen=True, slots=True)
class Done:
    """How a call ended: `value`; or `error`, one line; `timeout_s` when it was left behind after that time.

    `own_words`: the error is the tool's own sentence for the model, not what some code happened to raise.
    """

    value: Any = None
    error: str | None = None
    timeout_s: float | None = None
    own_words: bool = False


def call(tool: Tool, kwargs: dict[str, Any], *, timeout_s: float | None = None) -> Done:
    """Call the tool's function. Raises nothing of the function's; Ctrl-C passes through.

    With `timeout_s`, a call that takes longer is left behind: its thread goes on, as no thread can be stopped, but nobody
    waits for it, and it does not keep the program from ending.
    """
    if timeout_s is None:
        return _call(tool, kwargs)
    done: list[Done] = []
    context = contextvars.copy_context()
    thread = threading.Thread(
        target=lambda: done.append(context.run(_call, tool, kwargs)), name=f"tool {tool.name}", daemon=True
    )
    thread.start()
    thread.join(timeout_s)
    return done[0] if done else Done(error=f"not done within {timeout_s:g} s, left behind", timeout_s=timeout_s)


def _call(tool: Tool, kwargs: dict[str, Any]) -> Done:
    try:
        return Done(value_of(tool, kwargs))
    except ToolTimeout as error:
        return Done(error=str(error), timeout_s=error.timeout_s)
    except ForeignFailure as error:
        return Done(error=str(error) or "no reason was given")
    except BaseException as error:  # a tool is anybody's code
        if is_interrupt(error):
            raise
        return Done(error=described(error), own_words=isinstance(error, ToolFailure))


def value_of(tool: Tool, kwargs: dict[str, Any]) -> Any:
    """What the function returns; awaited when it is a coroutine, all that it yields when it is an async generator."""
    result = tool.function(**kwargs)
    if inspect.iscoroutine(result):
        return asyncio.run(result)
    if inspect.isasyncgen(result):  # as with a generator, the result is all that it yields
        return asyncio.run(_all_of(result))
    return result


async def _all_of(items: AsyncIterable[Any]) -> list[Any]:
    return [item async for item in items]
