"""daneel as an MCP server: each harness is a tool that takes a task in words and answers it with a run of its own.

Runs wait for each other, as the model server behind them is one. A client that cancels its call, or leaves, ends the run at the
next event. Whatever tools print goes to standard error: standard output belongs to the protocol.
"""

from __future__ import annotations

import functools
import importlib.util
import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from daneel.errors import UserError
from daneel.harness.definition import Harness
from daneel.harness.loop import run
from daneel.harness.mcp.foreign import tool_name
from daneel.harness.peer import ChatClient
from daneel.harness.recorder import TranscriptSink
from daneel.harness.run_record import Event, Run
from daneel.harness.stop import Stop

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext
    from mcp.server.lowlevel import Server
    from mcp.types import CallToolRequestParams, CallToolResult, ListToolsResult, PaginatedRequestParams

MAX_PROMPT_CHARS = 1_000_000
SHOWN_TOOLS = 20
PROMPT_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"prompt": {"type": "string", "description": "The whole task, in one message."}},
    "required": ["prompt"],
    "additionalProperties": False,
}


class RunWatcher:
    """Watches one run from another thread: how far it is, and whether it shall end."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.cancelled = threading.Event()
        self._was_raised = False

    def on_event(self, event: Event) -> None:
        if event.kind == "request":
            self.events.append(f"turn {event.turn}")
        elif event.kind == "call":
            self.events.append(f"turn {event.turn}: {event.data.get('name')}")
        self.on_delta(None)

    def on_delta(self, delta: Any) -> None:
        if self.cancelled.is_set() and not self._was_raised:
            self._was_raised = True  # once: the run tells its own end as an event, too
            raise Stop("cancelled", "the MCP client has cancelled the call")


@dataclass(frozen=True, kw_only=True)
class HarnessServer:
    """`harnesses` by the names that their tools get. Raises UserError without the extra `mcp`."""

    harnesses: Mapping[str, Harness]
    client: ChatClient
    transcript: TranscriptSink | None = None
    descriptions: Mapping[str, str] = field(default_factory=dict)
    progress_interval_s: float = 2.0

    def __post_init__(self) -> None:
        if importlib.util.find_spec("mcp") is None:
            raise UserError("daneel mcp needs an extra: pip install 'daneel[mcp]'")

    def serve_stdio(self) -> None:
        """Speak MCP on standard input and output until the client is gone. Ctrl-C passes through."""
        import anyio
        from mcp.server.stdio import stdio_server

        logging.getLogger("mcp").addHandler(logging.NullHandler())
        server = self.make()

        async def serve() -> None:
            async with stdio_server() as (reading, writing):
                await server.run(reading, writing, server.create_initialization_options())

        anyio.run(serve)

    def make(self) -> Server[Any]:
        """The MCP library's server, to be run over any transport."""
        import anyio
        from mcp.server.lowlevel import Server

        names: dict[str, str] = {}
        for name in self.harnesses:
            names[tool_name(name, names)] = name
        one_at_a_time = anyio.CapacityLimiter(1)

        async def list_tools(_: ServerRequestContext[Any], params: PaginatedRequestParams | None) -> ListToolsResult:
            return self._listed(names)

        async def call_tool(context: ServerRequestContext[Any], params: CallToolRequestParams) -> CallToolResult:
            name = names.get(params.name)
            if name is None:
                return _failure(f"there is no tool {params.name}; there are {', '.join(names)}")
            prompt = (params.arguments or {}).get("prompt")
            if not isinstance(prompt, str) or not prompt.strip() or len(prompt) > MAX_PROMPT_CHARS:
                return _failure(f"prompt must be text of 1 to {MAX_PROMPT_CHARS} characters")
            return await self._answer(context, name, prompt, one_at_a_time)

        return Server("daneel", version=version("daneel"), on_list_tools=list_tools, on_call_tool=call_tool)

    def _listed(self, names: Mapping[str, str]) -> ListToolsResult:
        from mcp.types import ListToolsResult, Tool

        tools = [
            Tool(name=ours, description=self._description(name), input_schema=PROMPT_SCHEMA) for ours, name in names.items()
        ]
        return ListToolsResult(tools=tools)

    def _description(self, name: str) -> str:
        if name in self.descriptions:
            return self.descriptions[name]
        tools = [tool.name for tool in self.harnesses[name].tools][:SHOWN_TOOLS]
        with_tools = f", with its own tools: {', '.join(tools)}" if tools else ""
        return f"Give a task to the agent {name}. It works on it by itself{with_tools}, and answers in words."

    async def _answer(self, context: ServerRequestContext[Any], name: str, prompt: str, limiter: Any) -> CallToolResult:
        import anyio
        import anyio.to_thread

        watcher = RunWatcher()
        make_run = functools.partial(
            run, self.harnesses[name], prompt, client=self.client, observer=watcher, transcript=self.transcript
        )

        async def tell_progress() -> None:
            told = 0
            while True:
                await anyio.sleep(self.progress_interval_s)
                if len(watcher.events) > told:
                    told = len(watcher.events)
                    await context.session.report_progress(told, message=watcher.events[-1])

        try:
            async with anyio.create_task_group() as group:
                group.start_soon(tell_progress)
                finished = await anyio.to_thread.run_sync(make_run, abandon_on_cancel=True, limiter=limiter)
                group.cancel_scope.cancel()
        finally:
            watcher.cancelled.set()
        return _result(finished)


def _result(finished: Run) -> CallToolResult:
    """The answer, or why there is none; the rest as data."""
    from mcp.types import CallToolResult, TextContent

    data = {key: finished.to_dict()[key] for key in ("id", "stop_reason", "detail", "answer", "turns")}
    answered = finished.stop_reason == "answered"
    why = f"The agent gave no answer: {finished.stop_reason}" + (f" ({finished.detail})" if finished.detail else "")
    text = str(finished.answer) if answered else why
    return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=data, is_error=not answered)


def _failure(text: str) -> CallToolResult:
    from mcp.types import CallToolResult, TextContent

    return CallToolResult(content=[TextContent(type="text", text=text)], is_error=True)
