"""The engine's own process: `python -m daneel.server.engine_main FD`, FD being its end of a socketpair.

One thread reads frames and answers what needs no step (tokenizing, refusals); the main thread steps the engine. When the
server is gone the process ends at once, whatever native code is doing.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable

from daneel.server.child_process import die_with_parent
from daneel.server.engine_messages import (
    AboutCache,
    CacheListed,
    CacheResized,
    Cancel,
    ClearCache,
    ListCache,
    Load,
    Loaded,
    LoadFailed,
    Progress,
    Refused,
    ResizeCache,
    Stepped,
    Submit,
    ToChild,
    Tokenize,
    Tokenized,
)
from daneel.server.engines.base import Engine, EngineLoadError, EngineSpec, LoadProgress
from daneel.server.engines.waiting import spin_shortly
from daneel.server.framing import Frames
from daneel.server.scheduler import Scheduler

SAVE_S = 20.0
"""How long an engine may take to save its cache when the server ends."""

ENGINE_MODULES = {
    "llama.cpp": "daneel.server.engines.llama_cpp",
    "scripted": "daneel.server.engines.scripted",
}
"""Each module has `load(spec, on_progress) -> Engine`; imported only when asked for, since each needs its own packages."""


def load_engine(spec: EngineSpec, on_progress: LoadProgress) -> Engine:
    """Load what `spec` asks for. Raises `EngineLoadError`."""
    if spec.engine not in ENGINE_MODULES:
        raise EngineLoadError(f"there is no engine {spec.engine!r}; there are: {', '.join(ENGINE_MODULES)}")
    try:
        module = importlib.import_module(ENGINE_MODULES[spec.engine])
    except ModuleNotFoundError as error:
        extra = {"llama.cpp": "llama"}.get(spec.engine, "serve")
        raise EngineLoadError(
            f"the engine {spec.engine} needs a package that is not installed ({error.name}): pip install 'daneel[{extra}]'"
        ) from error
    except (ImportError, OSError, RuntimeError) as error:
        # a native library that does not load on this machine
        raise EngineLoadError(f"the engine {spec.engine} cannot be started: {error}") from error
    engine: Engine = module.load(spec, on_progress)
    return engine


def main() -> int:
    """Load, then serve frames until the server closes the socket."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    spin_shortly()
    die_with_parent()
    frames = Frames(socket.socket(fileno=int(sys.argv[1])), ToChild)
    first = frames.recv()
    if not isinstance(first, Load):
        raise TypeError(f"expected a Load frame first, got {type(first).__name__}")
    try:
        engine = load_engine(first.spec, lambda fraction: frames.send(Progress(fraction)))
    except EngineLoadError as error:
        frames.send(LoadFailed(str(error)))
        return 1
    frames.send(Loaded(engine.info))
    gc.freeze()  # what is there now stays: the collector need not look through it again and again
    scheduler = Scheduler(engine, lambda outputs: frames.send(Stepped(outputs)))
    saved = threading.Event()
    save_s = SAVE_S if first.spec.prompt_cache.folder is not None else 0.0
    arguments = (frames, engine, scheduler, lambda: saved.wait(save_s))
    threading.Thread(target=_read_frames, args=arguments, name="frames", daemon=True).start()
    try:
        scheduler.run()
    except (BrokenPipeError, ConnectionResetError):
        if not save_s:
            raise
    if save_s:
        engine.close()
    saved.set()
    return 0


def _read_frames(frames: Frames, engine: Engine, scheduler: Scheduler, wait_saved: Callable[[], object]) -> None:
    """Read until the end. Leaves by `os._exit`: the main thread may be deep in native code and must not keep the process.

    `wait_saved` waits until what should outlive the process is saved, or the time for it is over.
    """
    code = 1
    try:
        with contextlib.suppress(EOFError, OSError):
            while True:
                _handle(frames.recv(), frames, engine, scheduler)
        code = 0
        scheduler.close()
        wait_saved()
    except BaseException:  # noqa: BLE001 (whatever it is, say it on stderr, which the server keeps, and end)
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _handle(message: object, frames: Frames, engine: Engine, scheduler: Scheduler) -> None:
    match message:
        case Submit(request):
            try:
                scheduler.submit(request)
            except ValueError as error:
                frames.send(Refused(request.request_id, str(error)))
        case Cancel(request_id):
            scheduler.cancel(request_id)
        case Tokenize(call_id, text):
            frames.send(Tokenized(call_id, engine.tokenize(text)))
        case ListCache() | ClearCache() | ResizeCache():
            scheduler.between_steps(lambda: frames.send(_about_cache(message, engine)))
        case _:
            raise TypeError(f"unexpected frame {type(message).__name__}")


def _about_cache(message: AboutCache, engine: Engine) -> CacheListed | CacheResized:
    match message:
        case ListCache(call_id, tenant):
            return CacheListed(call_id, engine.cache_control.entries(tenant))
        case ClearCache(call_id, tenant):
            return CacheListed(call_id, engine.cache_control.clear(tenant))
        case ResizeCache(call_id, limits):
            return CacheResized(call_id, engine.cache_control.resize(limits))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (EOFError, BrokenPipeError, ConnectionResetError):
        # the server is gone: nobody is left to tell
        sys.exit(0)
