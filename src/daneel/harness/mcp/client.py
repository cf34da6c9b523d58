"""The tools of an MCP server, as tools of a harness.

    harness = Harness(tools=[*mcp_tools(command=["uvx", "mcp-server-time"], allow=["get_current_time"])])

The server is started (or called) when the harness file is loaded, and ends with the program. One that ends before is started
once more, and once more after every call that it has answered since; one at a URL is tried again with every call. A call that
it was busy with is not made a second time: it may have had its effect.
"""

from __future__ import annotations

import atexit
import importlib.util
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from daneel.errors import UserError
from daneel.harness.mcp.address import Address, address
from daneel.harness.mcp.foreign import MAX_TOOLS, Unusable, description, parameters, result_value, tool_name
from daneel.harness.mcp.session import RequestTimedOut, Session, SessionEnded, reason_of
from daneel.harness.raised import ToolFailure
from daneel.harness.safety.untrusted import visible
from daneel.harness.tools.registry import EFFECTS, Effect, Tool, check_limits, effects_of
from daneel.harness.tools.rendering import MAX_RESULT_CHARS
from daneel.harness.tools.running import ForeignFailure, ToolTimeout

if TYPE_CHECKING:
    from mcp import Client
    from mcp.types import CallToolResult, ListToolsResult
    from mcp.types import Tool as ForeignTool

START_TIMEOUT_S = 60.0
CALL_TIMEOUT_S = 60.0
MAX_PAGES = 50


def mcp_tools(
    *,
    command: Sequence[str] | None = None,
    url: str | None = None,
    allow: Iterable[str] | None = None,
    name: str | None = None,
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
    headers: Mapping[str, str] | None = None,
    effects: Effect | Iterable[Effect] = tuple(sorted(EFFECTS)),
    timeout_s: float = CALL_TIMEOUT_S,
    max_result_chars: int | None = MAX_RESULT_CHARS,
    insecure_http: bool = False,
) -> list[Tool]:
    """The tools of one MCP server, started by `command` or found at `url` (streamable HTTP). Raises UserError.

    `allow`: only these, by the server's names. `name`: goes before a tool's name where another tool has the same; by default
    what the server calls itself. `effects`: what the tools are taken to do. That is everything unless you know better, as the
    server's own word for it is not worth much; and nobody can be asked for leave in a run that is left alone. `env` is all
    that a command gets of the environment besides PATH, HOME and the like.
    """
    where = address(command=command, url=url, env=env, cwd=cwd, headers=headers, insecure_http=insecure_http)
    label = f"MCP server {where}"
    check_limits(label, max_result_chars=max_result_chars, timeout_s=timeout_s)
    if isinstance(allow, str):
        raise UserError(f"{label}: allow must be a list of names, not {allow!r}")
    does = effects_of(effects, label)
    server = McpServer(where, timeout_s=timeout_s)
    try:
        return server.tools(allow, name, does, max_result_chars)
    except BaseException:
        server.close()
        raise


class McpServer:
    """One server, with a connection that is made anew when it was lost. Closed when the program ends, or by `close()`."""

    def __init__(self, where: Address, *, timeout_s: float) -> None:
        if importlib.util.find_spec("mcp") is None:
            raise UserError("MCP servers need an extra: pip install 'daneel[mcp]'")
        self.where = where
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._is_closed = False
        self._may_restart = True
        self._session: Session | None = None
        try:
            self._session = Session(where, timeout_s=START_TIMEOUT_S)
        except SessionEnded as error:
            raise UserError(f"MCP server {where}: cannot be used: {error}") from error
        atexit.register(self.close)

    def close(self) -> None:
        """End the connection, and the server if it was started here. May be called twice."""
        atexit.unregister(self.close)
        with self._lock:
            self._is_closed = True
            session, self._session = self._session, None
        if session is not None:
            session.close()

    def tools(
        self, allow: Iterable[str] | None, name: str | None, effects: frozenset[Effect], max_result_chars: int | None
    ) -> list[Tool]:
        """Its tools as ours. Raises UserError, also for an allowed tool that there is not or that cannot be used."""
        listed = self._listed()
        wanted = None if allow is None else list(allow)
        for missing in sorted(set(wanted or ()) - {tool.name for tool in listed}):
            names = visible(", ".join(tool.name for tool in listed)) or "none"
            raise UserError(f"MCP server {self.where}: it has no tool {missing}; it has {names}")
        origin = tool_name(name or self._own_name(), ())
        made: dict[str, Tool] = {}
        for foreign in listed:
            if wanted is not None and foreign.name not in wanted:
                continue
            try:
                schema, bind = parameters(foreign)
            except Unusable as error:
                hint = "" if wanted is not None else "; leave it out with allow=[…]"
                raise UserError(f"MCP server {self.where}: tool {visible(foreign.name)}: {error}{hint}") from error
            ours = tool_name(foreign.name, made)
            made[ours] = Tool(
                name=ours,
                description=description(foreign),
                parameters=schema,
                function=self._function(foreign.name),
                source=f"MCP tool {foreign.name} of {self._identity()}",
                binder=bind,
                effects=effects,
                max_result_chars=max_result_chars,
                origin=origin,
            )
        return list(made.values())

    def _function(self, name: str) -> Callable[..., str]:
        return lambda **arguments: self.call(name, arguments)

    def call(self, name: str, arguments: dict[str, Any]) -> str:
        """Call one tool. Raises ToolFailure, with a sentence for the model, or ToolTimeout."""

        async def make(client: Client) -> CallToolResult:
            return await client.call_tool(name, arguments)

        session = self._open()
        try:
            try:
                result = session.request(make, timeout_s=self._timeout_s)
            except SessionEnded as error:
                if error.was_sent:
                    raise
                result = self._open(instead_of=session).request(make, timeout_s=self._timeout_s)
        except RequestTimedOut:
            raise ToolTimeout(self._timeout_s) from None
        except SessionEnded as error:
            raise ForeignFailure(
                f"the server of {name} ended while it worked on this call ({error}). It may have had its effect."
            ) from error
        except Exception as error:  # the library's own errors, and those of broken replies
            raise ForeignFailure(f"the server of {name} could not answer: {reason_of(error)}") from error
        self._may_restart = True
        if result.is_error:
            raise ForeignFailure(result_value(result))
        return result_value(result)

    def _open(self, instead_of: Session | None = None) -> Session:
        """The connection, made anew if it is `instead_of` one that was lost."""
        with self._lock:
            if self._is_closed:
                raise ToolFailure("the tool's server was closed. Go on without this tool.")
            if self._session is not None and self._session is not instead_of and self._session.is_alive:
                return self._session
            if self.where.command and not self._may_restart:
                raise ToolFailure("the tool's server has ended and could not be started again. Go on without this tool.")
            self._may_restart = False
            if self._session is not None:
                self._session.close()
                self._session = None
            try:
                self._session = Session(self.where, timeout_s=START_TIMEOUT_S)
            except SessionEnded as error:
                raise ForeignFailure(f"the tool's server is gone: {error}") from error
            return self._session

    def _listed(self) -> list[ForeignTool]:
        found: list[ForeignTool] = []
        cursor: str | None = None
        assert self._session is not None
        for _ in range(MAX_PAGES):

            async def make(client: Client, cursor: str | None = cursor) -> ListToolsResult:
                return await client.list_tools(cursor=cursor)

            try:
                page = self._session.request(make, timeout_s=START_TIMEOUT_S)
            except Exception as error:
                raise UserError(f"MCP server {self.where}: its tools cannot be listed: {reason_of(error)}") from error
            found += page.tools
            if len(found) > MAX_TOOLS:
                raise UserError(f"MCP server {self.where}: it has more than {MAX_TOOLS} tools")
            cursor = page.next_cursor
            if not cursor:
                return found
        raise UserError(f"MCP server {self.where}: its list of tools does not end")

    def _own_name(self) -> str:
        info = self._session.client.server_info if self._session is not None else None
        return (info.name if info is not None else "") or Path(self.where.command[-1] if self.where.command else "mcp").stem

    def _identity(self) -> str:
        """What the server says that it is: no paths of this machine, so that fingerprints are the same elsewhere."""
        info = self._session.client.server_info if self._session is not None else None
        return f"{info.name} {info.version}" if info is not None else "an MCP server without a name"
