"""Transcripts: every run as append-only events in one SQLite file in the user's data directory.

A tool's call is written before the tool runs and its result after, so a run that was killed shows what it was doing. Each
event is one transaction: after a kill at any moment every row is whole. WAL with one writer; rows that end a turn, and the
intent to call a tool that changes something, are written through to the disk (`synchronous=FULL`).

Tables: `runs` (one row per run; `stop_reason` is null until it ends), `events` (run, seq from 1, time, kind, turn, JSON) and
`server_bytes` (what the server sent, on request: each row belongs to the event of its seq).
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import platformdirs

from daneel.errors import UserError
from daneel.harness.process_identity import identity, is_alive
from daneel.harness.run_record import Event, JsonObject, Run

SCHEMA_VERSION = 3
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

_SINCE_VERSION_2 = """
ALTER TABLE runs ADD COLUMN process TEXT;
CREATE TABLE IF NOT EXISTS server_bytes (
    run_id TEXT NOT NULL REFERENCES runs (id), seq INTEGER NOT NULL, data BLOB NOT NULL,
    PRIMARY KEY (run_id, seq)
) STRICT, WITHOUT ROWID;
"""

_SINCE_VERSION_3 = "CREATE INDEX runs_by_start ON runs (started_at);"

_STEPS = (_SCHEMA, _SINCE_VERSION_2, _SINCE_VERSION_3)
"""What makes each version of the layout from the one before it."""


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
    process: str = ""
    """Which process was the last at work on it, see `process_identity`."""


@dataclass(frozen=True, slots=True)
class EventRow:
    seq: int
    at: float
    event: Event


class TranscriptStore:
    """The store. Safe to use from several threads and processes. Raises UserError when the file cannot be opened.

    `durable_turns` false: the disk is waited for at the end of a run only. For trials: one that a power cut ends is run again,
    so its turns need outlive no more than the process.
    """

    def __init__(self, path: Path | None = None, *, durable_turns: bool = True) -> None:
        self.path = path or default_path()
        self.durable_turns = durable_turns
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
        self._db.execute("BEGIN IMMEDIATE")
        try:
            # asked again: another process may have been faster
            version = self._db.execute("PRAGMA user_version").fetchone()[0]
            for statement in ";".join(_STEPS[version:]).split(";"):
                self._db.execute(statement)
            self._db.execute(f"PRAGMA user_version = {max(version, SCHEMA_VERSION)}")
            self._db.execute("COMMIT")
        except BaseException:
            self._db.execute("ROLLBACK")
            raise

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
            "INSERT INTO runs (id, started_at, pid, process, about) VALUES (?, ?, ?, ?, ?)",
            (run_id, time.time(), os.getpid(), identity(), _json(about)),
            durable=True,
        )
        return RunTranscript(self, run_id)

    def reopen(self, run: RunRow) -> RunTranscript:
        """Go on with a run that was read a moment ago: only one process gets it. Raises UserError, and sqlite3.Error."""
        taken = self.write(
            "UPDATE runs SET process = ?, pid = ?, ended_at = NULL, stop_reason = NULL, outcome = NULL"
            " WHERE id = ? AND COALESCE(process, CAST(pid AS TEXT)) = ? AND ended_at IS ?",
            (identity(), os.getpid(), run.id, run.process, run.ended_at),
            durable=True,
        )
        if not taken:
            raise UserError(f"run {run.id}: another process has just gone on with it")
        last = self._db.execute("SELECT COALESCE(MAX(seq), 0) FROM events WHERE run_id = ?", (run.id,)).fetchone()[0]
        return RunTranscript(self, run.id, last_seq=last)

    def put_back(self, run: RunRow) -> None:
        """Undo `reopen` of a run that nothing was added to."""
        reason = None if run.state in ("running", "interrupted") else run.state
        self.write(
            "UPDATE runs SET process = ?, ended_at = ?, stop_reason = ?, outcome = ? WHERE id = ?",
            (run.process, run.ended_at, reason, _json(run.outcome) if run.outcome else None, run.id),
            durable=True,
        )

    def labelled(self, **labels: Any) -> LabelledStore:
        """The same store; `labels` (goal, server, model, …) are kept with what each run says of itself."""
        return LabelledStore(self, labels)

    def write(self, sql: str, values: tuple[Any, ...], *, durable: bool) -> int:
        """One statement, one transaction; how many rows it changed. Raises sqlite3.Error."""
        with self._lock:
            wanted = "FULL" if durable else "NORMAL"
            if wanted != self._synchronous:
                self._db.execute(f"PRAGMA synchronous = {wanted}")
                self._synchronous = wanted
            return self._db.execute(sql, values).rowcount

    def runs(self, *, limit: int | None = None) -> list[RunRow]:
        """Runs, newest first."""
        return self._runs("ORDER BY started_at DESC LIMIT ?", (-1 if limit is None else limit,))

    def _runs(self, which: str, values: tuple[Any, ...]) -> list[RunRow]:
        with self._reading():
            rows = self._db.execute(
                "SELECT id, started_at, ended_at, stop_reason, COALESCE(process, CAST(pid AS TEXT)), about, outcome"
                f" FROM runs {which}",
                values,
            ).fetchall()
        return [_run_row(*row) for row in rows]

    def find(self, run_id: str) -> RunRow:
        """The run whose id starts with `run_id`, or the newest for `last`. Raises UserError for none or several."""
        if run_id == "last" and (newest := self.runs(limit=1)):
            return newest[0]
        found = self._runs("WHERE substr(id, 1, ?) = ?", (len(run_id), run_id)) if run_id else []
        exact = [row for row in found if row.id == run_id]
        if len(found) != 1 and not exact:
            raise UserError(f"{'no run' if not found else f'{len(found)} runs'} with an id that starts with {run_id!r}")
        return (exact or found)[0]

    def events(self, run_id: str) -> list[EventRow]:
        """A run's events in order. Raises UserError when one cannot be read."""
        with self._reading():
            rows = self._db.execute(
                "SELECT seq, at, kind, turn, data FROM events WHERE run_id = ? ORDER BY seq", (run_id,)
            ).fetchall()
        return [
            EventRow(seq, at, Event(kind, turn, _object(data, f"event {seq} of run {run_id}")))
            for seq, at, kind, turn, data in rows
        ]

    def server_bytes(self, run_id: str, *, turn: int | None = None) -> list[bytes]:
        """What the server sent in a run, reply by reply, where that was kept; of all turns, or of one."""
        with self._reading():
            rows = self._db.execute(
                "SELECT b.data FROM server_bytes b JOIN events e USING (run_id, seq)"
                " WHERE run_id = ? AND e.turn = COALESCE(?, e.turn) ORDER BY seq",
                (run_id, turn),
            ).fetchall()
        return [bytes(data) for (data,) in rows]

    @contextmanager
    def _reading(self) -> Iterator[None]:
        with self._lock:
            try:
                yield
            except sqlite3.Error as error:
                raise UserError(f"cannot read the transcript store {self.path}: {error}") from error


@dataclass(frozen=True, slots=True)
class LabelledStore:
    """A store that adds labels to every run begun through it; `keeper` has what the server sends, when that is to be kept."""

    store: TranscriptStore
    labels: JsonObject
    keeper: ByteKeeper | None = None

    def begin(self, run_id: str, about: JsonObject) -> RunTranscript:
        kept = self.store.begin(run_id, {**about, **self.labels})
        kept.keeper = self.keeper
        return kept


class ByteKeeper:
    """Collects what a server sends, for the transcript to keep beside the reply: `client.tap(keeper.add)`."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def add(self, piece: bytes) -> None:
        self._pieces.append(piece)

    def kept(self) -> bytes:
        """All since it was last cleared."""
        return b"".join(self._pieces)

    def clear(self) -> None:
        self._pieces.clear()


class RunTranscript:
    """Keeps one run. Raises sqlite3.Error when it cannot; the loop reports that and goes on."""

    def __init__(self, store: TranscriptStore, run_id: str, *, last_seq: int = 0) -> None:
        self._store = store
        self._run_id = run_id
        self._seq = last_seq
        self.keeper: ByteKeeper | None = None

    def append(self, event: Event, *, durable: bool) -> None:
        if self.keeper is not None and event.kind in ("reply", "request_failed", "stop"):
            # before its event: when that cannot be written it is tried again, and finds these where they belong
            self._keep(self.keeper)
        self._store.write(
            "INSERT INTO events (run_id, seq, at, kind, turn, data) VALUES (?, ?, ?, ?, ?, ?)",
            (self._run_id, self._seq + 1, time.time(), event.kind, event.turn, _json(event.data)),
            durable=durable and self._store.durable_turns,
        )
        self._seq += 1

    def _keep(self, keeper: ByteKeeper) -> None:
        if data := keeper.kept():
            self._store.write(
                "INSERT OR REPLACE INTO server_bytes (run_id, seq, data) VALUES (?, ?, ?)",
                (self._run_id, self._seq + 1, data),
                durable=False,
            )
            keeper.clear()

    def end(self, run: Run) -> None:
        record = run.to_dict()
        outcome = {key: record[key] for key in ("answer", "detail", "turns", "usage", "duration_s")}
        outcome["calls"] = len(run.calls) + run.dropped.get("calls", 0)
        self._store.write(
            "UPDATE runs SET ended_at = ?, stop_reason = ?, outcome = ? WHERE id = ?",
            (time.time(), run.stop_reason, _json(outcome), self._run_id),
            durable=True,
        )


def _run_row(
    run_id: str,
    started_at: float,
    ended_at: float | None,
    stop_reason: str | None,
    process: str,
    about: str,
    outcome: str | None,
) -> RunRow:
    state = stop_reason or ("running" if is_alive(process) else "interrupted")
    held = _object(outcome, f"the outcome of run {run_id}") if outcome else {}
    return RunRow(run_id, started_at, ended_at, state, _object(about, f"what is kept about run {run_id}"), held, process)


def _object(text: str, what: str) -> JsonObject:
    """A stored JSON object; a disk, or another program, may have damaged it. Raises UserError."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{what} cannot be read from the transcript store: {error}") from error
    if not isinstance(value, dict):
        raise UserError(f"{what} cannot be read from the transcript store: it is no JSON object")
    return value


def _json(value: Any) -> str:
    return json.dumps(value, default=str)
