"""Transcripts: every run as append-only events in one SQLite file in the user's data directory.

A tool's call is written before the tool runs and its result after, so a run that was killed shows what it was doing. Each
event is one transaction: after a kill at any moment every row is whole. WAL with one writer; rows that end a turn are
written through to the disk (`synchronous=FULL`).

Tables: `runs` (one row per run; `stop_reason` is null until it ends) and `events` (run, seq from 1, time, kind, turn, JSON).
"""

from __future__ import annotations

import json
import os
import sqlite3
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import platformdirs

from daneel.errors import UserError
from daneel.harness.run_record import Event, JsonObject, Run

SCHEMA_VERSION = 1
BUSY_TIMEOUT_S = 30.0

_SCHEMA = """
CREATE TABLE IF NOT EXISTS runs (
    id TEXT PRIMARY KEY, started_at REAL NOT NULL, pid INTEGER NOT NULL, about TEXT NOT NULL,
    ended_at REAL, stop_reason TEXT, outcome TEXT
) STRICT;
CREATE TABLE IF NOT EXISTS events (
    run_id TEXT NOT NULL REFERENCES runs (id), seq INTEGER NOT NULL, at REAL NOT NULL,
    kind TEXT NOT NULL, turn INTEGER NOT NULL, data TEXT NOT NULL,
    PRIMARY KEY (run_id, seq)
) STRICT, WITHOUT ROWID;
"""


def default_path() -> Path:
    """The store's file: `transcripts.db` in DANEEL_DATA_DIR, or else in the user's data directory."""
    folder = os.environ.get("DANEEL_DATA_DIR") or platformdirs.user_data_dir("daneel", appauthor=False)
    return Path(folder) / "transcripts.db"


@dataclass(frozen=True, slots=True)
class RunRow:
    """One run as stored. `about` and `outcome` are what the harness said of it at its beginning and end."""

    id: str
    started_at: float
    ended_at: float | None
    state: str
    """The stop reason; `running` or `interrupted` where there is none."""
    about: JsonObject
    outcome: JsonObject


@dataclass(frozen=True, slots=True)
class EventRow:
    seq: int
    at: float
    event: Event


class TranscriptStore:
    """The store. Safe to use from several threads and processes. Raises UserError when the file cannot be opened."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or default_path()
        self._lock = threading.Lock()
        self._synchronous = ""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(self.path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)
            self._prepare()
        except (sqlite3.Error, OSError) as error:
            raise UserError(f"cannot open the transcript store {self.path}: {error}") from error

    def _prepare(self) -> None:
        version = self._db.execute("PRAGMA user_version").fetchone()[0]
        if version > SCHEMA_VERSION:
            raise UserError(f"{self.path} was written by a newer daneel (version {version} of its layout)")
        if version == SCHEMA_VERSION:
            return
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;")

    def __enter__(self) -> TranscriptStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        with self._lock:
            self._db.close()

    def begin(self, run_id: str, about: JsonObject) -> RunTranscript:
        """Open a run. Raises sqlite3.Error."""
        self.write(
            "INSERT INTO runs (id, started_at, pid, about) VALUES (?, ?, ?, ?)",
            (run_id, time.time(), os.getpid(), _json(about)),
            durable=True,
        )
        return RunTranscript(self, run_id)

    def labelled(self, **labels: Any) -> LabelledStore:
        """The same store; `labels` (goal, server, model, …) are kept with what each run says of itself."""
        return LabelledStore(self, labels)

    def write(self, sql: str, values: tuple[Any, ...], *, durable: bool) -> None:
        """One statement, one transaction. Raises sqlite3.Error."""
        with self._lock:
            wanted = "FULL" if durable else "NORMAL"
            if wanted != self._synchronous:
                self._db.execute(f"PRAGMA synchronous = {wanted}")
                self._synchronous = wanted
            self._db.execute(sql, values)

    def runs(self, *, limit: int | None = None) -> list[RunRow]:
        """Runs, newest first."""
        with self._reading():
            rows = self._db.execute(
                "SELECT id, started_at, ended_at, stop_reason, pid, about, outcome FROM runs ORDER BY started_at DESC LIMIT ?",
                (-1 if limit is None else limit,),
            ).fetchall()
        return [_run_row(*row) for row in rows]

    def find(self, run_id: str) -> RunRow:
        """The run whose id starts with `run_id`, or the newest for `last`. Raises UserError for none or several."""
        rows = self.runs()
        if run_id == "last" and rows:
            return rows[0]
        found = [row for row in rows if row.id.startswith(run_id)] if run_id else []
        exact = [row for row in found if row.id == run_id]
        if len(found) != 1 and not exact:
            raise UserError(f"{'no run' if not found else f'{len(found)} runs'} with an id that starts with {run_id!r}")
        return (exact or found)[0]

    def events(self, run_id: str) -> list[EventRow]:
        """A run's events in order."""
        with self._reading():
            rows = self._db.execute(
                "SELECT seq, at, kind, turn, data FROM events WHERE run_id = ? ORDER BY seq", (run_id,)
            ).fetchall()
        return [EventRow(seq, at, Event(kind, turn, json.loads(data))) for seq, at, kind, turn, data in rows]

    @contextmanager
    def _reading(self) -> Iterator[None]:
        with self._lock:
            try:
                yield
            except sqlite3.Error as error:
                raise UserError(f"cannot read the transcript store {self.path}: {error}") from error


@dataclass(frozen=True, slots=True)
class LabelledStore:
    """A store that adds labels to every run begun through it."""

    store: TranscriptStore
    labels: JsonObject

    def begin(self, run_id: str, about: JsonObject) -> RunTranscript:
        return self.store.begin(run_id, {**about, **self.labels})


class RunTranscript:
    """Keeps one run. Raises sqlite3.Error when it cannot; the loop reports that and goes on."""

    def __init__(self, store: TranscriptStore, run_id: str) -> None:
        self._store = store
        self._run_id = run_id
        self._seq = 0

    def append(self, event: Event, *, durable: bool) -> None:
        self._seq += 1
        self._store.write(
            "INSERT INTO events (run_id, seq, at, kind, turn, data) VALUES (?, ?, ?, ?, ?, ?)",
            (self._run_id, self._seq, time.time(), event.kind, event.turn, _json(event.data)),
            durable=durable,
        )

    def end(self, run: Run) -> None:
        record = run.to_dict()
        outcome = {key: record[key] for key in ("answer", "detail", "turns", "usage", "duration_s")}
        outcome["calls"] = len(run.calls)
        self._store.write(
            "UPDATE runs SET ended_at = ?, stop_reason = ?, outcome = ? WHERE id = ?",
            (time.time(), run.stop_reason, _json(outcome), self._run_id),
            durable=True,
        )


def _run_row(
    run_id: str, started_at: float, ended_at: float | None, stop_reason: str | None, pid: int, about: str, outcome: str | None
) -> RunRow:
    state = stop_reason or ("running" if _is_alive(pid) else "interrupted")
    return RunRow(run_id, started_at, ended_at, state, json.loads(about), json.loads(outcome) if outcome else {})


def _is_alive(pid: int) -> bool:
    if sys.platform == "win32":  # signal 0 would end the process there
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _json(value: Any) -> str:
    return json.dumps(value, default=str)
