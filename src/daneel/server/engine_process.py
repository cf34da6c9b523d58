"""The server's side of an engine that lives in its own process: a native crash never takes HTTP down.

When the child dies, requests in flight raise `EngineDied`, new ones raise `EngineRestarting`, and the child is started again
after a back-off. Every request is an async iterator; closing it cancels the request.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from daneel.server.child_process import ChildProcess
from daneel.server.engine_messages import (
    AboutCache,
    CacheListed,
    CacheResized,
    Cancel,
    ClearCache,
    FromChild,
    ListCache,
    Load,
    Loaded,
    LoadFailed,
    Progress,
    Refused,
    ResizeCache,
    Stepped,
    Submit,
    Tokenize,
    Tokenized,
)
from daneel.server.engines.base import EngineInfo, EngineLoadError, EngineSpec, Generate, Sampling, StepOutput
from daneel.server.engines.cache_state import CacheEntry, CacheLimits
from daneel.server.framing import FrameError

__all__ = ["Backoff", "EngineDied", "EngineLoadError", "EngineProcess", "EngineRestarting", "EngineSpec"]


SAVE_GRACE_S = 25.0
"""How long a child with a cache folder may take to end: it saves what it has."""


class EngineDied(Exception):
    """The engine's process ended while the request was in flight. The message says how."""


class EngineRestarting(Exception):
    """There is no engine at the moment; ask again after `retry_after_s` seconds."""

    def __init__(self, retry_after_s: float, reason: str) -> None:
        super().__init__(f"the engine is restarting ({reason}); retry in {retry_after_s:.0f} s")
        self.retry_after_s = retry_after_s


@dataclass(frozen=True, slots=True)
class Backoff:
    """How long to wait before the nth restart in a row: doubling, with a ceiling. A finished request resets the count."""

    first_s: float = 0.5
    ceiling_s: float = 30.0

    def delay_s(self, num_failures: int) -> float:
        return min(self.ceiling_s, self.first_s * 2.0 ** min(num_failures, 16))


_Item = StepOutput | Exception


class EngineProcess:
    """A loaded engine. Made by `start`, ended by `close`; use from one event loop."""

    def __init__(self, spec: EngineSpec, on_progress: Callable[[float], None] | None, backoff: Backoff) -> None:
        self._spec = spec
        self._on_progress = on_progress
        self._backoff = backoff
        self._child: ChildProcess | None = None
        self._info: EngineInfo | None = None
        self._streams: dict[int, asyncio.Queue[_Item]] = {}
        self._calls: dict[int, asyncio.Future[Any]] = {}
        """Questions that are not answered yet."""
        self._ids = itertools.count(1)
        self._supervisor: asyncio.Task[None] | None = None
        self._num_failures = 0
        self._load_s = 0.0
        self._retry_at = 0.0
        self._why_down = "closed"
        self._closing = False

    @classmethod
    async def start(
        cls, spec: EngineSpec, *, on_progress: Callable[[float], None] | None = None, backoff: Backoff | None = None
    ) -> EngineProcess:
        """Start the child and load the model. `on_progress` gets the loaded fraction. Raises `EngineLoadError`."""
        engine = cls(spec, on_progress, backoff or Backoff())
        await engine._launch()
        engine._on_progress = None  # restarts are no affair of whoever waited for the start
        engine._supervisor = asyncio.create_task(engine._supervise(), name="engine supervisor")
        return engine

    @property
    def info(self) -> EngineInfo:
        """What was loaded; of the last successful load while the engine restarts."""
        if self._info is None:
            raise RuntimeError("the engine was never started")
        return self._info

    @property
    def ready(self) -> bool:
        """Whether a request would be taken now."""
        return self._child is not None and not self._closing

    @property
    def pid(self) -> int | None:
        """The child's process id, if there is one."""
        return self._child.pid if self._child else None

    async def tokenize(self, text: str) -> list[int]:
        """Ids of `text`, special tokens recognised, nothing added. Raises `EngineDied`, `EngineRestarting`."""
        ids: list[int] = await self._call(lambda call_id: Tokenize(call_id, text))
        return ids

    @property
    def cache_limits(self) -> CacheLimits:
        """What holds now."""
        wanted = self._spec.prompt_cache
        max_disk_bytes = wanted.max_disk_bytes if wanted.folder is not None else None
        return CacheLimits(wanted.max_idle_tokens, wanted.max_entries, wanted.max_bytes, max_disk_bytes)

    async def cache_entries(self, tenant: str) -> list[CacheEntry]:
        """What is kept of a tenant and no request uses. Raises `EngineDied`, `EngineRestarting`."""
        found: list[CacheEntry] = await self._call(lambda call_id: ListCache(call_id, tenant))
        return found

    async def clear_cache(self, tenant: str) -> list[CacheEntry]:
        """Drop it. Returns what there was. Raises as `cache_entries`."""
        gone: list[CacheEntry] = await self._call(lambda call_id: ClearCache(call_id, tenant))
        return gone

    async def resize_cache(self, limits: CacheLimits) -> CacheLimits:
        """Change the limits, also for engines that are started after this one. Raises as `cache_entries`."""
        holds: CacheLimits = await self._call(lambda call_id: ResizeCache(call_id, limits))
        wanted = msgspec.structs.replace(
            self._spec.prompt_cache,
            max_idle_tokens=holds.max_idle_tokens,
            max_entries=holds.max_entries,
            max_bytes=holds.max_bytes,
            max_disk_bytes=self._spec.prompt_cache.max_disk_bytes if holds.max_disk_bytes is None else holds.max_disk_bytes,
        )
        self._spec = msgspec.structs.replace(self._spec, prompt_cache=wanted)
        return holds

    async def _call(self, question: Callable[[int], Tokenize | AboutCache]) -> Any:
        """Ask the child and wait for its answer."""
        child = self._running_child()
        call_id = next(self._ids)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._calls[call_id] = answer
        try:
            await self._send(child, question(call_id))
            return await answer
        finally:
            self._calls.pop(call_id, None)

    async def generate(
        self,
        *,
        prompt_ids: list[int],
        max_tokens: int,
        sampling: Sampling,
        grammar: str | None = None,
        use_cache: bool = True,
        keep_cache: bool = True,
        pin_s: float = 0.0,
        tenant: str = "",
        script_ids: list[int] | None = None,
        stop_ids: Sequence[int] = (),
    ) -> AsyncGenerator[StepOutput, None]:
        """Outputs until one has `finish`; the first comes at once and says that the request is accepted.

        Raises, all before the first output except `EngineDied`: `ValueError` when the request can never run (the message
        names the number), `EngineRestarting`, `EngineDied`.
        """
        child = self._running_child()
        request_id = next(self._ids)
        request = Generate(
            request_id,
            prompt_ids,
            max_tokens,
            sampling,
            grammar,
            use_cache,
            script_ids,
            list(stop_ids),
            tenant=tenant,
            keep_cache=keep_cache,
            pin_s=pin_s,
        )
        stream = self._streams[request_id] = asyncio.Queue()
        try:
            await self._send(child, Submit(request))
            while True:
                item = await stream.get()
                if isinstance(item, Exception):
                    raise item
                if item.finish is not None:
                    del self._streams[request_id]
                    self._num_failures = 0
                yield item
                if item.finish is not None:
                    return
        finally:
            if self._streams.pop(request_id, None) is not None and child is self._child:
                with contextlib.suppress(OSError):
                    child.frames.post(Cancel(request_id))

    async def close(self) -> None:
        """End the child; requests in flight raise `EngineDied`."""
        self._closing = True
        if self._supervisor is not None:
            self._supervisor.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._supervisor
        child, self._child = self._child, None
        self._fail_all("the server closed it")
        if child is not None:
            await child.end(SAVE_GRACE_S if self._spec.prompt_cache.folder is not None else 2.0)

    # The child's life

    async def _launch(self) -> None:
        loop = asyncio.get_running_loop()
        started_at = loop.time()
        child = await ChildProcess.spawn("daneel.server.engine_main", FromChild)
        try:
            await child.frames.send(Load(self._spec))
            self._info = await self._wait_loaded(child)
        except (EOFError, OSError, FrameError) as error:
            reason = await child.exit_reason()
            raise EngineLoadError(f"the engine's process ended while loading ({reason})") from error
        except BaseException:
            await child.end()
            raise
        self._load_s = loop.time() - started_at
        self._child = child

    async def _wait_loaded(self, child: ChildProcess) -> EngineInfo:
        while True:
            match await child.frames.recv():
                case Progress(fraction):
                    if self._on_progress is not None:
                        self._on_progress(fraction)
                case Loaded(info):
                    return info
                case LoadFailed(message):
                    raise EngineLoadError(message)
                case other:
                    raise FrameError(f"unexpected frame {type(other).__name__} while loading")

    async def _supervise(self) -> None:
        while not self._closing:
            if self._child is not None:
                self._why_down = await self._pump(self._child)
                self._child = None
                self._fail_all(self._why_down)
            delay_s = self._backoff.delay_s(self._num_failures)
            self._retry_at = asyncio.get_running_loop().time() + delay_s
            self._num_failures += 1
            await asyncio.sleep(delay_s)
            try:
                await self._launch()
            except EngineLoadError as error:
                self._why_down = str(error)

    async def _pump(self, child: ChildProcess) -> str:
        """Hand frames to their requests until the child is gone; then say how it ended."""
        try:
            while True:
                self._dispatch(await child.frames.recv())
        except EOFError:
            self._child = None  # from here on new requests are told to retry, not queued into a closed socket
            self._why_down = "its process has just ended"
            return await child.exit_reason()
        except FrameError as error:
            self._child = None
            await child.end(grace_s=0.0)
            return str(error)

    def _dispatch(self, message: object) -> None:
        match message:
            case Stepped(outputs):
                for output in outputs:
                    if stream := self._streams.get(output.request_id):
                        stream.put_nowait(output)
            case Refused(request_id, text):
                if stream := self._streams.get(request_id):
                    stream.put_nowait(ValueError(text))
            case Tokenized(call_id, answer) | CacheListed(call_id, answer) | CacheResized(call_id, answer):
                waiting = self._calls.get(call_id)
                if waiting is not None and not waiting.done():
                    waiting.set_result(answer)
            case _:
                raise FrameError(f"unexpected frame {type(message).__name__}")

    def _fail_all(self, reason: str) -> None:
        text = f"the engine's process ended during the request ({reason})"
        for stream in self._streams.values():
            stream.put_nowait(EngineDied(text))
        for answer in self._calls.values():
            if not answer.done():
                answer.set_exception(EngineDied(text))

    def _running_child(self) -> ChildProcess:
        if self._closing:
            raise EngineDied("the engine is closed")
        if self._child is None:
            wait_s = self._retry_at - asyncio.get_running_loop().time() + self._load_s
            raise EngineRestarting(max(1.0, wait_s), self._why_down)
        return self._child

    async def _send(self, child: ChildProcess, message: Submit | Tokenize | AboutCache) -> None:
        try:
            await child.frames.send(message)
        except OSError as error:
            raise EngineDied("the engine's process ended before it took the request") from error
        except (FrameError, OverflowError, UnicodeEncodeError) as error:
            raise ValueError(f"the request cannot be passed to the engine: {error}") from error
