"""What a streamed token costs the server in CPU time: 16 paced streams on the scripted engine.

    python bench/cpu.py [--streams 16] [--tokens 400] [--interval-ms 20] [--rounds 3] [--quick] [--limit-s S]

The scripted engine says one token per stream every 20 ms, so no model's arithmetic is in the figure: what is left is the
engine's process around its `step()`, the way to HTTP, detokenising, parsing and the events. Each token is an event of its own.
CPU time (user and system) is that of the server's processes, all of them, from before the requests are sent to after the last
reply, over the tokens that were streamed; the requests' own cost is in it; what an idle server uses for as long is
taken off and shown. Aimed at: at most 60 microseconds a token. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import psutil

from _client import Body, Deadline, stream, together
from _rounds import judged, machine, run_bench
from _servers import ArmFailed, end_on_sigterm
from daneel.cli.local_server import LocalServer
from daneel.errors import UserError

BOUND_US = 60.0
TEXT = "The quick brown fox jumps over the lazy dog while the clock in the hall strikes and nobody counts. "


def cpu_s() -> dict[str, float]:
    """User and system seconds so far of each process that this one started, by what it is."""
    found: dict[str, float] = {}
    for process in psutil.Process(os.getpid()).children(recursive=True):
        try:
            words, times = " ".join(process.cmdline()), process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        part = "engine" if "engine_main" in words else "templates" if "template_child" in words else "http"
        found[part] = found.get(part, 0.0) + times.user + times.system
    return found


def spent(before: dict[str, float], after: dict[str, float]) -> dict[str, float]:
    return {part: after[part] - before.get(part, 0.0) for part in after}


def one_round(url: str, streams: int, tokens: int, interval_ms: float, deadline: Deadline) -> dict[str, float]:
    """Microseconds per token, by part of the server."""
    body: Body = {"messages": [{"role": "user", "content": "Go on."}], "max_tokens": tokens, "cache": {"mode": "off"}}
    before, began = cpu_s(), time.perf_counter()
    replies = together(lambda _: stream(url, body, deadline), list(range(streams)))
    took_s = time.perf_counter() - began
    used = spent(before, cpu_s())
    num_tokens = sum(reply.completion_tokens for reply in replies)
    if num_tokens != streams * tokens:
        raise ArmFailed(f"{num_tokens} tokens came, {streams * tokens} were asked for")
    before = cpu_s()
    time.sleep(min(took_s, 5.0))
    idle = sum(spent(before, cpu_s()).values()) * took_s / min(took_s, 5.0)
    figures = {f"{part}_us": 1e6 * seconds / num_tokens for part, seconds in used.items()}
    figures["idle_us"] = 1e6 * idle / num_tokens
    figures["total_us"] = 1e6 * (sum(used.values()) - idle) / num_tokens
    figures["events_per_token"] = sum(len(reply.token_at) for reply in replies) / num_tokens
    figures["late"] = took_s / (tokens * interval_ms / 1000)
    return figures


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    options.add_argument("--streams", type=int, default=16)
    options.add_argument("--tokens", type=int, default=400)
    options.add_argument("--interval-ms", type=float, default=20.0)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--quick", action="store_true", help="one round")
    options.add_argument("--limit-s", type=float, default=600.0)
    chosen = options.parse_args()
    end_on_sigterm()
    deadline, rounds = Deadline(chosen.limit_s), []
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "script.jsonl")
        text = (TEXT * (chosen.tokens // len(TEXT) + 2))[: chosen.tokens + 1]
        script.write_text(json.dumps({"text": text, "repeat": True, "delay_ms": chosen.interval_ms}) + "\n", encoding="utf-8")
        args = ["--parallel", str(chosen.streams)]
        server = LocalServer(script, engine="scripted", extra_args=args, on_progress=lambda _: None)
        try:
            url = server.__enter__()
        except UserError as error:
            raise ArmFailed(str(error)) from error
        try:
            one_round(url, chosen.streams, min(20, chosen.tokens), chosen.interval_ms, deadline)
            for number in range(1 if chosen.quick else chosen.rounds):
                rounds.append(one_round(url, chosen.streams, chosen.tokens, chosen.interval_ms, deadline))
                shown = ", ".join(f"{name} {value:.1f}" for name, value in rounds[-1].items())
                print(f"round {number + 1}: {shown}", file=sys.stderr)
        finally:
            server.__exit__(None, None, None)
    report(rounds, {"benchmark": "cpu", "streams": chosen.streams, "tokens": chosen.tokens, "interval_ms": chosen.interval_ms})


def report(rounds: list[dict[str, float]], facts: dict[str, Any]) -> None:
    medians = {name: round(median(each[name] for each in rounds), 2) for name in rounds[0]}
    for name, value in medians.items():
        print(f"{name:<20}{value:>10.2f}")
    name = "CPU per streamed token, us"
    figures = {name: judged(name, medians["total_us"], BOUND_US, at_most=True)}
    print(json.dumps({**facts, **machine(), "rounds": len(rounds), "medians": medians, "figures": figures}))


if __name__ == "__main__":
    run_bench(main)
