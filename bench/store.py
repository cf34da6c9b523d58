"""What a full store costs: 10,000 trials with 1,000,000 events on disk, then trials go on being run and looked at.

    python bench/store.py [--trials 10000] [--events-each 100] [--keep FOLDER] [--rounds 5]

Measured, and compared with the same on an empty store (the two take turns, since times swing with the machine):

- appending events as a trial does, through the transcript store's own code, by one process, by four at once, and for each
  second of processor time;
- adding trials' rows, each written through to the disk;
- `daneel transcripts list`, the whole command, its processor time, and what of it is Python that starts.

The store is filled in large transactions, with runs as `measure` keeps them. The last line is one JSON object; the exit code is
1 when a bound is broken: 5,000 appended events a second, and 0.3 s for the list.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

from daneel.bench.record import Trial
from daneel.bench.store import TrialStore
from daneel.harness.run_record import Event, Run, RunUsage
from daneel.harness.transcript import TranscriptStore

EVENTS_PER_S, LIST_S = 5000.0, 0.3
NUM_PROCESSES = 4
NUM_APPENDED = 20
"""Runs in one measured piece of appending, of as many events each as the stored ones."""

ABOUT = {
    "harness": "H1",
    "goal": "now",
    "prompt": "What's the current date and time?",
    "model": "qwen2.5-coder-1.5b-q4_k_m",
    "tools": [
        {"type": "function", "function": {"name": f"tool_{n}", "description": "Looks up a thing." * 4}} for n in range(8)
    ],
}
RESULT = "The shelf holds twelve books, a lamp and a box of old letters; none of them is what you are looking for."


def event_of(number: int) -> Event:
    """Event `number` of a run: a turn is a reply, its message, a call and its result."""
    turn = number // 5 + 1
    call = {"id": f"call_{number}", "name": "tool_1", "arguments": {"shelf": number}}
    usage = {"prompt_tokens": 1000 + number, "completion_tokens": 20, "cached_tokens": 990}
    return [
        Event("reply", turn, {"finish_reason": "tool_calls", "usage": usage, "model": ABOUT["model"]}),
        Event("message", turn, {"message": {"role": "assistant", "content": None, "tool_calls": [call]}}),
        Event("call", turn, {**call, "effects": ["read"]}),
        Event("result", turn, {"id": call["id"], "name": "tool_1", "result": RESULT, "duration_s": 0.001}),
        Event("message", turn, {"message": {"role": "tool", "tool_call_id": call["id"], "content": RESULT}}),
    ][number % 5]


def run_of(run_id: str) -> Run:
    return Run(run_id, "answered", "It is noon.", 20, [], RunUsage(20_000, 400, 19_000), [], [], duration_s=2.0)


def trial_of(measurement: str, index: int, run_id: str) -> Trial:
    return Trial(
        measurement=measurement,
        index=index,
        harness="H1",
        goal="now",
        model=str(ABOUT["model"]),
        seed=index,
        started_at="2026-12-01T00:00:00+00:00",
        run_id=run_id,
        stop_reason="answered",
        achieved=index % 3 > 0,
        answer="It is noon.",
        turns=20,
        calls=19,
    )


def fill(folder: Path, num_trials: int, events_each: int) -> None:
    """The store as so many trials leave it, written in few transactions."""
    with TranscriptStore(folder / "transcripts.db") as transcripts, TrialStore(folder / "trials.db") as trials:
        transcripts.begin("first", ABOUT).end(run_of("first"))
        trials.add(trial_of("m_first", 0, "first"))
    data = [json.dumps(event_of(number).data) for number in range(events_each)]
    kinds = [(event_of(number).kind, event_of(number).turn) for number in range(events_each)]
    with sqlite3.connect(folder / "transcripts.db") as database:
        about, outcome = database.execute("SELECT about, outcome FROM runs").fetchone()
        for index in range(num_trials):
            run_id = os.urandom(6).hex()  # as runs have them: in no order
            row = (run_id, 1e9 + index, 1, about, 1e9 + index + 2, "answered", outcome)
            database.execute(
                "INSERT INTO runs (id, started_at, pid, about, ended_at, stop_reason, outcome) VALUES (?,?,?,?,?,?,?)", row
            )
            rows = [(run_id, seq + 1, 1e9 + index, *kinds[seq], data[seq]) for seq in range(events_each)]
            database.executemany("INSERT INTO events (run_id, seq, at, kind, turn, data) VALUES (?,?,?,?,?,?)", rows)
    with sqlite3.connect(folder / "trials.db") as database:
        (record,) = database.execute("SELECT record FROM trials").fetchone()
        database.executemany(
            "INSERT INTO trials (measurement, idx, harness, goal, started_at, record) VALUES ('m_full', ?, 'H1', 'now', '', ?)",
            [(index, record) for index in range(num_trials)],
        )


def append(folder: Path, num_runs: int, events_each: int) -> float:
    """Events a second, runs one after the other, as a worker of `measure` keeps them."""
    with TranscriptStore(folder / "transcripts.db", durable_turns=False) as store:
        begin = time.perf_counter()
        for _ in range(num_runs):
            run_id = os.urandom(6).hex()
            kept = store.begin(run_id, ABOUT)
            for number in range(events_each):
                kept.append(event_of(number), durable=number % 5 == 0)
            kept.end(run_of(run_id))
        return num_runs * events_each / (time.perf_counter() - begin)


def append_cpu(folder: Path, num_runs: int, events_each: int) -> float:
    """Events for a second of this process's work: the same when the machine is busy, or its disk is slow."""
    begin = time.process_time()
    append(folder, num_runs, events_each)
    return num_runs * events_each / (time.process_time() - begin)


def append_together(folder: Path, num_runs: int, events_each: int) -> float:
    """The same by several processes at once: all their events over the time until the last is done."""
    with ProcessPoolExecutor(NUM_PROCESSES) as pool:
        list(pool.map(abs, range(NUM_PROCESSES * 4)))  # they have started
        begin = time.perf_counter()
        for each in [pool.submit(append, folder, num_runs, events_each) for _ in range(NUM_PROCESSES)]:
            each.result()
        return NUM_PROCESSES * num_runs * events_each / (time.perf_counter() - begin)


def add_rows(folder: Path) -> float:
    """Trials' rows a second, each waited for until it is on the disk."""
    measurement, number = "m_" + os.urandom(6).hex(), 100
    with TrialStore(folder / "trials.db") as store:
        begin = time.perf_counter()
        for index in range(number):
            store.add(trial_of(measurement, index, "r"))
        return number / (time.perf_counter() - begin)


def command_s(folder: Path, *arguments: str) -> float:
    """Seconds of a whole command."""
    begin = time.perf_counter()
    environment = {**os.environ, "DANEEL_DATA_DIR": str(folder)}
    subprocess.run([sys.executable, *arguments], env=environment, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begin


def command_cpu_s(folder: Path, *arguments: str) -> float:
    """Seconds of processor time that a whole command takes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command_s(folder, *arguments)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measured(folders: dict[str, Path], args: argparse.Namespace) -> dict[str, Any]:
    """Each figure on each store, round about: the median of all rounds, and the best."""
    tasks: dict[str, Callable[[Path], float]] = {
        "appended_events_per_s": lambda folder: append(folder, NUM_APPENDED, args.events_each),
        f"appended_events_per_s_by_{NUM_PROCESSES}": lambda folder: append_together(folder, NUM_APPENDED, args.events_each),
        "appended_events_per_cpu_s": lambda folder: append_cpu(folder, NUM_APPENDED, args.events_each),
        "rows_per_s": add_rows,
        "list_s": lambda folder: command_s(folder, "-m", "daneel", "transcripts", "list"),
        "list_cpu_s": lambda folder: command_cpu_s(folder, "-m", "daneel", "transcripts", "list"),
        "python_s": lambda folder: command_s(folder, "-c", "pass"),
    }
    found: dict[str, dict[str, list[float]]] = {name: {arm: [] for arm in folders} for name in tasks}
    for _ in range(args.rounds):
        for name, task in tasks.items():
            for arm, folder in folders.items():
                found[name][arm].append(task(folder))
    best = {name: min if "_per_" not in name else max for name in tasks}
    return {
        name: {arm: {"median": round(median(values), 4), "best": round(best[name](values), 4)} for arm, values in arms.items()}
        for name, arms in found.items()
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=10_000)
    parser.add_argument("--events-each", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--report-only", action="store_true", help="Exit code 0 whatever is measured.")
    parser.add_argument("--keep", type=Path, help="Fill the store in this folder, and leave it there.")
    args = parser.parse_args()
    with ExitStack() as stack:
        folders = {}
        for arm, number in (("empty", 0), ("full", args.trials)):
            given = args.keep / arm if args.keep else Path(stack.enter_context(tempfile.TemporaryDirectory()))
            given.mkdir(parents=True, exist_ok=True)
            begin = time.perf_counter()
            if not (given / "trials.db").exists():
                fill(given, number, args.events_each)
                print(f"{arm}: {number} trials stored in {time.perf_counter() - begin:.0f} s", file=sys.stderr)
            folders[arm] = given
        size_bytes = sum(file.stat().st_size for file in folders["full"].iterdir())
        found = measured(folders, args)
    events, listed = found["appended_events_per_s"]["full"]["best"], found["list_s"]["full"]["best"]
    ok = events >= EVENTS_PER_S and listed <= LIST_S
    machine = {"python": platform.python_version(), "cpus": os.cpu_count(), "load": round(os.getloadavg()[0], 1)}
    print(
        json.dumps(
            {
                "bench": "store",
                "trials": args.trials,
                "events": args.trials * args.events_each,
                "size_bytes": size_bytes,
                "bounds": {"appended_events_per_s": EVENTS_PER_S, "list_s": LIST_S},
                **found,
                "machine": machine,
                "ok": ok,
            }
        )
    )
    return 0 if ok or args.report_only else 1


if __name__ == "__main__":
    sys.exit(main())
