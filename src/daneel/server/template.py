"""Chat templates, rendered by the model's own jinja text in child processes with limits (`template_child.py`).

Two children wait, compiled and ready. A rendering that takes too long costs its child, which is replaced while the other
one goes on, so one bad request never holds up the next.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from daneel.errors import UserError
from daneel.server.child_process import ChildProcess
from daneel.server.framing import FrameError
from daneel.server.template_child import Failed, Load, Render, Rendered, Reply
from daneel.wire.errors import BadRequest, ServerUnavailable

RENDER_TIMEOUT_S = 2.0
LOAD_TIMEOUT_S = 30.0
MEMORY_BYTES = 256 * 2**20
NUM_CHILDREN = 2

_CONTINUE_TAG = "\ue000continue-here\ue001 "
"""Stands behind the last message's content while rendering; its trailing blank shows whether the template trims."""

_PROBE_NAME = "daneel_probe_tool"


class TemplateError(UserError):
    """The template cannot be compiled."""


class _Child:
    """One child process with the template loaded."""

    def __init__(self, process: ChildProcess) -> None:
        self._process = process

    @classmethod
    async def spawn(cls, load: Load) -> _Child:
        child = cls(await ChildProcess.spawn("daneel.server.template_child", Reply))
        try:
            reply = await child.ask(load, LOAD_TIMEOUT_S)
        except TimeoutError as error:
            await child.kill()
            raise TemplateError(f"the chat template was not compiled within {LOAD_TIMEOUT_S:g} s") from error
        except (EOFError, OSError, FrameError) as error:
            reason = await child.exit_reason()
            raise TemplateError(f"the process that renders the chat template could not start: {reason}") from error
        except BaseException:
            await child.kill()
            raise
        if isinstance(reply, Failed):
            await child.kill()
            raise TemplateError(f"the chat template cannot be used: {reply.message}")
        return child

    async def ask(self, request: Load | Render, timeout_s: float) -> Reply:
        """Raises `TimeoutError`, `EOFError`, `OSError`, `FrameError`; after any of them the child must be killed."""
        async with asyncio.timeout(timeout_s):
            await self._process.frames.send(request)
            reply: Reply = await self._process.frames.recv()
            return reply

    async def exit_reason(self) -> str:
        return await self._process.exit_reason()

    async def kill(self) -> None:
        await self._process.end(grace_s=0)


async def check_template(source: str) -> None:
    """Raise `TemplateError` when the template does not compile: to be said before minutes of loading a model."""
    child = await _Child.spawn(Load(source, MEMORY_BYTES, math.ceil(RENDER_TIMEOUT_S) + 1))
    await child.kill()


class TemplateRenderer:
    """Renders one template. Made by `start`; `close` ends its children."""

    def __init__(self, load: Load, *, bos_text: str, eos_text: str, timeout_s: float) -> None:
        self._load = load
        self._special = {"bos_token": bos_text, "eos_token": eos_text}
        self._timeout_s = timeout_s
        self._children: asyncio.Queue[asyncio.Task[_Child]] = asyncio.Queue()
        self._kills: set[asyncio.Task[None]] = set()
        self._without_tools: dict[str, Any] = {"tools": None}
        self._wants_functions = False
        self._closed = False

    @classmethod
    async def start(
        cls,
        source: str,
        *,
        bos_text: str,
        eos_text: str,
        timeout_s: float = RENDER_TIMEOUT_S,
        memory_bytes: int = MEMORY_BYTES,
    ) -> TemplateRenderer:
        """Spawn the first child, and the others behind it. Raises `TemplateError` when the template does not compile."""
        load = Load(source, memory_bytes, math.ceil(timeout_s) + 1)
        renderer = cls(load, bos_text=bos_text, eos_text=eos_text, timeout_s=timeout_s)
        try:
            await renderer._spawn()
            for _ in range(NUM_CHILDREN - 1):
                renderer._spawn()
            await renderer._probe_without_tools()
        except BaseException:
            await renderer.close()
            raise
        return renderer

    async def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] = (),
        variables: Mapping[str, Any] | None = None,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
    ) -> str:
        """The prompt as text. `variables` are the request's `chat_template_kwargs`.

        With `continue_final_message` the text ends where the last message's content ends. Raises `BadRequest` when the
        template refuses, fails, or exceeds its limits.
        """
        everything: dict[str, Any] = {**self._special, **(variables or {})}
        everything["messages"] = _tagged(messages) if continue_final_message else list(messages)
        everything["add_generation_prompt"] = add_generation_prompt
        everything.update(self._tool_variables(tools))
        text = await self._run(everything)
        return _cut_at_tag(text) if continue_final_message else text

    async def knows_tools(self) -> bool:
        """Whether the template writes declared tools into the prompt: tried with one, since templates cannot be read."""
        function = {"name": _PROBE_NAME, "description": "A probe.", "parameters": {"type": "object", "properties": {}}}
        tools = [{"type": "function", "function": function}]
        user = {"role": "user", "content": "Hello"}
        for messages in ([user], [{"role": "system", "content": "Be brief."}, user]):
            try:
                if _PROBE_NAME in await self.render(messages, tools=tools):
                    return True
            except BadRequest:
                continue
        return False

    async def _probe_without_tools(self) -> None:
        # transformers passes null, but some templates iterate over whatever is defined: for those the name must be absent;
        # and Firefunction's wants the declarations as text, under another name, and the date
        for absent, wants_functions in (({"tools": None}, False), ({}, False), ({"tools": None}, True)):
            self._without_tools, self._wants_functions = absent, wants_functions
            try:
                await self.render([{"role": "user", "content": "Hello"}])
            except BadRequest:
                continue
            return
        self._without_tools, self._wants_functions = {"tools": None}, False

    def _tool_variables(self, tools: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        variables: dict[str, Any] = {"tools": list(tools)} if tools else dict(self._without_tools)
        if self._wants_functions:
            variables["functions"] = json.dumps(list(tools), indent=4, ensure_ascii=False)
            variables["datetime"] = datetime.now().strftime("%Y-%m-%d")
        return variables

    async def close(self) -> None:
        """End the children; a rendering under way fails."""
        self._closed = True
        while not self._children.empty():
            # one that is being spawned is waited for, not cancelled half-way: it came through compiling once already
            for child in await asyncio.gather(self._children.get_nowait(), return_exceptions=True):
                if isinstance(child, _Child):
                    await child.kill()
        await asyncio.gather(*self._kills)

    def _spawn(self) -> asyncio.Task[_Child]:
        task = asyncio.create_task(_Child.spawn(self._load))
        self._children.put_nowait(task)
        return task

    async def _run(self, variables: dict[str, Any]) -> str:
        request = Render(_to_json(variables))
        task = await self._children.get()
        child: _Child | None = None
        healthy = False
        try:
            child = await asyncio.shield(task)
            reply = await child.ask(request, self._timeout_s)
            healthy = not (isinstance(reply, Failed) and reply.kind == "memory")
        except TimeoutError as error:
            raise BadRequest(
                f"the chat template took longer than {self._timeout_s:g} s and was stopped", param="messages"
            ) from error
        except FrameError as error:
            raise BadRequest(f"the messages are too large for the chat template: {error}", param="messages") from error
        except (EOFError, OSError, UserError) as error:
            raise ServerUnavailable(f"the template process ended: {error}; try again", retry_after_s=1.0) from error
        finally:
            self._give_back(task, child, healthy)
        if isinstance(reply, Rendered):
            return reply.text
        verb = "refused the messages" if reply.kind == "refused" else "failed"
        raise BadRequest(f"the chat template {verb}: {reply.message}", param="messages")

    def _give_back(self, task: asyncio.Task[_Child], child: _Child | None, healthy: bool) -> None:
        """Put the child back, or replace it: one that was interrupted may still send the answer to an old question."""
        spawning = child is None and not task.cancelled() and not (task.done() and task.exception())
        if (healthy or spawning) and not self._closed:
            self._children.put_nowait(task)
            return
        if child is not None:
            kill = asyncio.create_task(child.kill())
            self._kills.add(kill)
            kill.add_done_callback(self._kills.discard)
        if not self._closed:
            self._spawn()


def _to_json(variables: dict[str, Any]) -> str:
    try:
        return json.dumps(variables)
    except (TypeError, ValueError, RecursionError) as error:
        raise BadRequest(f"the messages cannot be given to the chat template: {error}", param="messages") from error


def _tagged(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The messages, the last one's content marked at its end."""
    tagged = [dict(message) for message in messages]
    content = tagged[-1].get("content")
    if tagged[-1].get("tool_calls"):  # they stand behind the content, and would be cut off without a word
        raise BadRequest(
            "continue_final_message: the last message ends in tool calls, so it has no text to go on with",
            param="continue_final_message",
        )
    if content is not None and not isinstance(content, str):
        raise BadRequest("continue_final_message needs a last message whose content is text", param="continue_final_message")
    tagged[-1]["content"] = (content or "") + _CONTINUE_TAG
    return tagged


def _cut_at_tag(text: str) -> str:
    position = text.rfind(_CONTINUE_TAG.strip())
    if position < 0:
        raise BadRequest(
            "continue_final_message: the chat template does not render the last message's content",
            param="continue_final_message",
        )
    # a template that trims would have trimmed the content's own trailing white space, had the tag not stood there
    keeps_space = text.startswith(_CONTINUE_TAG, position)
    return text[:position] if keeps_space else text[:position].rstrip()
