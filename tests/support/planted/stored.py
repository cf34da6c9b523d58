"""Many stored trials at once: the rows that `daneel measure` would leave, written in bulk."""

from __future__ import annotations

import json
import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec

from daneel.bench.store import TrialStore
from daneel.harness.transcript import TranscriptStore
from tests.support.trials import make_trial

NUM_TOOLS = 30
TURNS = 16
"""Turns of each run: six events each, and four around them, make a hundred."""


def declarations() -> list[dict[str, Any]]:
    schema = {"type": "object", "properties": {"path": {"type": "string"}, "line": {"type": "integer"}}, "required": ["path"]}
    return [
        {
            "type": "function",
            "function": {"name": f"tool_{place}x", "description": f"Thing {place} is done.", "parameters": schema},
        }
        for place in range(NUM_TOOLS)
    ]


def events(rng: random.Random, names: list[str]) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """(turn, kind, data) of one run, a hundred in all."""
    yield 0, "message", {"message": {"role": "system", "content": "You search code."}}
    yield 0, "message", {"message": {"role": "user", "content": "Where is it?"}}
    yield 0, "peer", {"is_daneel": True}
    for turn in range(1, TURNS + 1):
        name, path = rng.choice(names), f"src/part_{rng.randrange(1000)}.py"
        arguments = {"path": path, "line": rng.randrange(1000)}
        call = {"id": f"c{turn}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        said = {"role": "assistant", "content": None, "tool_calls": [call], "reasoning": "Let me look at this part first. " * 4}
        result = "\n".join(f"{path}:{line}: value_{rng.randrange(10**6)} = compute(x{line})" for line in range(8))
        yield turn, "request", {"num_messages": 2 * turn, "params": {"seed": 1}, "tools": names}
        yield turn, "reply", {"message": said, "finish_reason": "tool_calls", "usage": {"prompt_tokens": 900}, "notes": []}
        yield turn, "message", {"message": said}
        yield turn, "call", {"id": f"c{turn}", "name": name, "arguments": arguments, "effects": ["read"]}
        failed = "no such file" if rng.random() < 0.1 else None
        yield turn, "result", {"id": f"c{turn}", "name": name, "result": result, "error": failed, "duration_s": 0.01}
        yield turn, "message", {"message": {"role": "tool", "tool_call_id": f"c{turn}", "content": result}}
    yield TURNS, "stop", {"reason": "answered", "detail": None, "answer": result.splitlines()[0]}


def write(folder: Path, *, trials: int, measurement: str = "m_many", harness: str = "many", seed: int = 0) -> int:
    """Write so many trials of a harness of thirty tools into the stores in `folder`; gives the number of events."""
    rng = random.Random(seed)
    tools = declarations()
    names = [tool["function"]["name"] for tool in tools]
    TranscriptStore(folder / "transcripts.db").close()
    TrialStore(folder / "trials.db").close()
    about = json.dumps({"harness": harness, "harness_hash": "h", "prompt": "Where is it?", "tools": tools})
    num_events = 0
    with closing(sqlite3.connect(folder / "transcripts.db")) as runs, closing(sqlite3.connect(folder / "trials.db")) as rows:
        for index in range(trials):
            run_id = f"r{seed}_{index:06}"
            kept = [
                (run_id, seq, 1.0, kind, turn, json.dumps(data))
                for seq, (turn, kind, data) in enumerate(events(rng, names), start=1)
            ]
            num_events += len(kept)
            runs.execute(
                "INSERT INTO runs (id, started_at, pid, process, about, ended_at, stop_reason, outcome)"
                " VALUES (?, ?, 1, '', ?, 2.0, 'answered', '{}')",
                (run_id, float(index), about),
            )
            runs.executemany("INSERT INTO events (run_id, seq, at, kind, turn, data) VALUES (?, ?, ?, ?, ?, ?)", kept)
            trial = make_trial(
                measurement=measurement,
                index=index,
                harness=harness,
                goal=f"goal_{index % 12}",
                run_id=run_id,
                achieved=rng.random() < 0.5,
                turns=rng.randrange(2, TURNS),
                harness_hash="h",
            )
            rows.execute(
                "INSERT INTO trials (measurement, idx, harness, goal, started_at, record) VALUES (?, ?, ?, ?, ?, ?)",
                (measurement, index, harness, trial.goal, trial.started_at, msgspec.json.encode(trial).decode()),
            )
        runs.commit()
        rows.commit()
    return num_events
