"""What the loop costs: one endless run on a scripted model that answers at once, so that what is left is the harness.

    python bench/loop.py [--steps 10000] [--in-process] [--no-transcript]

The model is a process of its own that speaks HTTP on loopback and streams each reply, thoughts and a call, from memory; with
`--in-process` it is an object, and HTTP is left out. Each step is one turn: the request is built, sent and read, the call is
checked and made, its intent and its outcome are written to a real transcript, and the conversation is kept within a context
of `--context-tokens`, as an endless run has to. A step's time is from one request's coming to the next one's.

Memory is the process's resident set, looked at after every hundredth of the run; growth is counted from the end of the first
fifth, when everything has been used once. The last line is one JSON object; the exit code is 1 when a bound is broken.
"""

from __future__ import annotations

import argparse
import gc
import json
import multiprocessing
import os
import platform
import socket
import sys
import tempfile
import time
from array import array
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from daneel import Harness, tool
from daneel.harness.client import Client
from daneel.harness.context_policy import ContextPolicy
from daneel.harness.loop import run
from daneel.harness.reply import Reply
from daneel.harness.transcript import TranscriptStore
from daneel.wire.messages import CompletionTokensDetails, FunctionCall, Message, PromptTokensDetails, ToolCall, Usage

P50_MS, P95_MS, TOTAL_S, GROWTH_MB = 10.0, 30.0, 180.0, 8.0
"""The bounds: of a step, of 10,000 steps, and of the memory that they leave behind."""

THOUGHT = "I look at the next one, for the one before it did not have what I am looking for. "
RESULT = "The shelf holds twelve books, a lamp and a box of old letters; none of them is what you are looking for. " * 3


@tool
def look(shelf: int) -> str:
    """Look at one shelf of the library.

    Args:
        shelf: Its number.
    """
    return f"Shelf {shelf}. {RESULT}"


def deltas(step: int, num_steps: int) -> Iterator[tuple[dict[str, Any], str | None]]:
    """One reply, as the deltas of a stream: a thought, then a call, and at the end the answer."""
    for word in THOUGHT.split(" ")[:-1]:
        yield {"reasoning": word + " "}, None
    if step + 1 >= num_steps:
        yield {"content": "It is not there."}, "stop"
        return
    function = {"name": "look", "arguments": json.dumps({"shelf": step})}
    yield {"tool_calls": [{"index": 0, "id": f"call{step:08d}", "type": "function", "function": function}]}, "tool_calls"


def usage(num_bytes: int) -> dict[str, Any]:
    prompt = num_bytes // 4
    return {
        "prompt_tokens": prompt,
        "completion_tokens": 40,
        "total_tokens": prompt + 40,
        "prompt_tokens_details": {"cached_tokens": prompt},
    }


class ScriptedModel:
    """The model as an object. It notes when each request came."""

    is_daneel = False
    model = "scripted"

    def __init__(self, num_steps: int) -> None:
        self.num_steps = num_steps
        self.step = 0

    def chat(self, messages: Any, *, on_delta: Any = None, **_: Any) -> Reply:
        step, self.step = self.step, self.step + 1
        size = sum(len(message.get("content") or "") for message in messages)
        read = Usage(size // 4, 40, size // 4 + 40, PromptTokensDetails(), CompletionTokensDetails())
        if step + 1 >= self.num_steps:
            return Reply(Message("assistant", "It is not there.", THOUGHT), "stop", read)
        call = ToolCall(f"call{step:08d}", FunctionCall("look", json.dumps({"shelf": step})), "function", 0)
        return Reply(Message("assistant", None, THOUGHT, tool_calls=[call]), "tool_calls", read, reasoning_field="reasoning")


def serve(listening: socket.socket, num_steps: int) -> None:
    """The model as a server: one connection after the other, each kept alive."""
    step = 0
    while True:
        connection, _ = listening.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with connection, connection.makefile("rb") as reader:
            while line := reader.readline():
                length = 0
                while (header := reader.readline()).strip():
                    name, _, value = header.partition(b":")
                    if name.lower() == b"content-length":
                        length = int(value)
                body = reader.read(length)
                if line.startswith(b"GET"):
                    models = {"object": "list", "data": [{"id": "scripted", "object": "model", "owned_by": "bench"}]}
                    found = b"/models" in line
                    content = json.dumps(models if found else {"error": {"message": "no such route"}}).encode()
                    connection.sendall(_head("200 OK" if found else "404 Not Found", "application/json", content) + content)
                    continue
                connection.sendall(_stream(step, num_steps, len(body)))
                step += 1


def _stream(step: int, num_steps: int, num_bytes: int) -> bytes:
    envelope = {"id": f"c{step}", "object": "chat.completion.chunk", "created": 0, "model": "scripted"}
    frames = [
        {**envelope, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}
        for delta, reason in deltas(step, num_steps)
    ]
    frames.append({**envelope, "choices": [], "usage": usage(num_bytes)})
    content = b"".join(b"data: " + json.dumps(frame).encode() + b"\n\n" for frame in frames) + b"data: [DONE]\n\n"
    return _head("200 OK", "text/event-stream", content) + content


def _head(status: str, kind: str, content: bytes) -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(content)}\r\n\r\n".encode()


@contextmanager
def client_of(num_steps: int, *, in_process: bool) -> Iterator[Any]:
    if in_process:
        yield ScriptedModel(num_steps)
        return
    with socket.create_server(("127.0.0.1", 0)) as listening:
        process = multiprocessing.get_context("fork").Process(target=serve, args=(listening, num_steps), daemon=True)
        process.start()
        try:
            with Client(f"http://127.0.0.1:{listening.getsockname()[1]}") as client:
                yield client
        finally:
            process.terminate()
            process.join()


class Watch:
    """Sits between loop and client: notes when each request comes, and the memory now and then."""

    def __init__(self, client: Any, num_steps: int) -> None:
        self._client = client
        self._every = max(1, num_steps // 100)
        self.came_at = array("d")
        self.resident_mb: list[float] = []
        self.num_messages = 0
        self._paused_s = 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def chat(self, messages: Any, **more: Any) -> Reply:
        now = time.perf_counter()
        self.came_at.append(now - self._paused_s)
        self.num_messages = max(self.num_messages, len(messages))
        if len(self.came_at) % self._every == 0:
            self.resident_mb.append(resident_mb())
            self._paused_s += time.perf_counter() - now
        reply: Reply = self._client.chat(messages, **more)
        return reply


def resident_mb() -> float:
    """The resident set of this process, in MB; on systems without /proc the largest it has been."""
    gc.collect()
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak / (1024 * 1024 if platform.system() == "Darwin" else 1024)
    return pages * 4096 / (1024 * 1024)


def fsync_ms(folder: Path) -> float:
    """What the disk alone takes to keep a page for good: each turn's reply waits for that once."""
    taken: list[float] = []
    with (folder / "page").open("wb", buffering=0) as file:
        for _ in range(50):
            file.write(bytes(4096))
            began = time.perf_counter()
            os.fsync(file.fileno())
            taken.append(1000 * (time.perf_counter() - began))
    return median(taken)


def measure(num_steps: int, *, in_process: bool, transcript: bool, context_tokens: int) -> dict[str, Any]:
    """One endless run of so many steps."""
    context = ContextPolicy(context_tokens=context_tokens, summarise=False)
    harness = Harness(tools=[look], max_turns=None, system="You are looking for a book.", context=context)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        store = stack.enter_context(TranscriptStore(folder / "transcripts.db")) if transcript else None
        watch = Watch(stack.enter_context(client_of(num_steps, in_process=in_process)), num_steps)
        began = time.perf_counter()
        finished = run(harness, "Where is the book?", client=watch, transcript=store)
        total_s = time.perf_counter() - began
        disk_ms = fsync_ms(folder) if transcript else 0.0
    if finished.stop_reason != "answered" or finished.turns != num_steps:
        raise SystemExit(f"the run ended after {finished.turns} steps: {finished.stop_reason} {finished.detail or ''}")
    steps_ms = [1000 * (later - earlier) for earlier, later in zip(watch.came_at, watch.came_at[1:], strict=False)]
    settled = watch.resident_mb[len(watch.resident_mb) // 5 :] or [resident_mb()]
    return {
        "steps": num_steps,
        "p50_ms": round(median(steps_ms), 3),
        "p95_ms": round(quantiles(steps_ms, n=20)[-1], 3),
        "max_ms": round(max(steps_ms), 3),
        "p50_first_tenth_ms": round(median(steps_ms[: max(2, num_steps // 10)]), 3),
        "p50_last_tenth_ms": round(median(steps_ms[-max(2, num_steps // 10) :]), 3),
        "disk_fsync_p50_ms": round(disk_ms, 3),
        "total_s": round(total_s, 2),
        "resident_mb": round(settled[-1], 1),
        "growth_mb": round(max(settled) - settled[0], 2),
        "growth_bytes_per_step": round((settled[-1] - settled[0]) * 1024 * 1024 / (0.8 * num_steps)),
        "max_messages": watch.num_messages,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--context-tokens", type=int, default=8192)
    parser.add_argument("--in-process", action="store_true", help="without HTTP")
    parser.add_argument("--no-transcript", action="store_true")
    parser.add_argument("--report-only", action="store_true", help="exit with 0 whatever the figures are")
    chosen = parser.parse_args()
    figures = measure(
        chosen.steps,
        in_process=chosen.in_process,
        transcript=not chosen.no_transcript,
        context_tokens=chosen.context_tokens,
    )
    within = {
        "p50": figures["p50_ms"] <= P50_MS,
        "p95": figures["p95_ms"] <= P95_MS,
        "total": figures["total_s"] <= TOTAL_S * chosen.steps / 10_000,
        "memory": figures["growth_mb"] <= GROWTH_MB,
    }
    for name, value in figures.items():
        print(f"{name:>22}  {value}")
    for name, holds in within.items():
        print(f"{name:>22}  {'within its bound' if holds else 'OVER ITS BOUND'}")
    setup = {"model": "in process" if chosen.in_process else "HTTP", "transcript": not chosen.no_transcript}
    machine = {"python": platform.python_version(), "machine": platform.machine()}
    print(json.dumps({"bench": "loop", **setup, **figures, "within": within, **machine}))
    return 0 if all(within.values()) or chosen.report_only else 1


if __name__ == "__main__":
    sys.exit(main())
