"""Trials on disk: one SQLite file, one transaction a trial. A row is either whole and safe, or not there.

Tables: `measurements` (one row each, its plan as JSON) and `trials` (one row per attempt; the whole trial as JSON).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TypeVar

import msgspec

from daneel.bench.plan import Plan
from daneel.bench.record import Trial
from daneel.errors import UserError
from daneel.harness import transcript

SCHEMA_VERSION = 2

_TRIALS = """
CREATE TABLE IF NOT EXISTS trials (
    measurement TEXT NOT NULL,
    idx INTEGER NOT NULL,
    harness TEXT NOT NULL,
    goal TEXT NOT NULL,
    attempt INTEGER NOT NULL DEFAULT 0,
    started_at TEXT NOT NULL,
    record TEXT NOT NULL,  -- the whole trial as JSON
    PRIMARY KEY (measurement, harness, goal, idx, attempt)
) STRICT
"""
_MEASUREMENTS = """
CREATE TABLE IF NOT EXISTS measurements (
    id TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    created_at TEXT NOT NULL,
    plan TEXT NOT NULL  -- the whole plan as JSON
) STRICT
"""
_FROM_VERSION_1 = (
    "ALTER TABLE trials RENAME TO trials_before",
    _TRIALS,
    "INSERT INTO trials (measurement, idx, harness, goal, started_at, record)"
    " SELECT measurement, idx, harness, goal, started_at, record FROM trials_before ORDER BY rowid",
    "DROP TABLE trials_before",
)
_INSERT = "INSERT INTO trials (measurement, idx, harness, goal, attempt, started_at, record) VALUES (?, ?, ?, ?, ?, ?, ?)"

_Row = TypeVar("_Row", Plan, Trial)


def default_path() -> Path:
    """`trials.db`, beside the transcripts."""
    return transcript.default_path().with_name("trials.db")


class TrialStore:
    """The trials of all measurements. `with TrialStore(path) as store: store.add(trial)`.

    Raises `UserError` when the file cannot be opened or is no store of trials.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or default_path()
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(self.path, isolation_level=None, timeout=30.0)
            # WAL and FULL: after a kill or a power cut, every trial that was added is there and no other
            self._connection.execute("PRAGMA journal_mode=WAL")
            self._connection.execute("PRAGMA synchronous=FULL")
            self._prepare()
        except (OSError, sqlite3.Error) as error:
            raise UserError(f"cannot keep trials in {self.path}: {error}") from error

    def _prepare(self) -> None:
        if self._version() == SCHEMA_VERSION:
            return
        with self._transaction():
            version = self._version()  # asked again: another process may have been faster
            if version > SCHEMA_VERSION:
                raise UserError(f"{self.path} was written by a newer daneel (version {version} of its layout)")
            if version == SCHEMA_VERSION:
                return
            old = self._connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'trials'").fetchone()
            for statement in (*(_FROM_VERSION_1 if old else [_TRIALS]), _MEASUREMENTS):
                self._connection.execute(statement)
            self._connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")

    def _version(self) -> int:
        return int(self._connection.execute("PRAGMA user_version").fetchone()[0])

    def __enter__(self) -> TrialStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    def add(self, trial: Trial) -> None:
        """Store one trial; it is on disk when this returns. Raises `UserError` when that fails (disk full, say)."""
        record = msgspec.json.encode(trial).decode()
        row = (trial.measurement, trial.index, trial.harness, trial.goal, trial.attempt, trial.started_at, record)
        self._insert(f"trial {trial.index} of {trial.harness}", _INSERT, row)

    def add_plan(self, plan: Plan) -> None:
        """Store what a measurement is of, before its first trial. Raises `UserError` when that fails."""
        row = (plan.id, plan.kind, plan.created_at, msgspec.json.encode(plan).decode())
        self._insert(f"measurement {plan.id}", "INSERT INTO measurements (id, kind, created_at, plan) VALUES (?, ?, ?, ?)", row)

    def _insert(self, label: str, statement: str, row: tuple[object, ...]) -> None:
        try:
            with self._transaction():
                self._connection.execute(statement, row)
        except sqlite3.Error as error:
            raise UserError(f"cannot keep {label} in {self.path}: {error}") from error

    def trials(self, measurement: str) -> list[Trial]:
        """The trials of one measurement, in the order they were stored: every attempt, invalid ones too."""
        rows = self._select("SELECT measurement, record FROM trials WHERE measurement = ? ORDER BY rowid", (measurement,))
        return [self._decoded(f"a trial of {name}", record, Trial) for name, record in rows]

    def plans(self, *, kind: str | None = None) -> list[Plan]:
        """What was measured, the newest first; of one kind or of all."""
        rows = self._select(
            "SELECT id, plan FROM measurements WHERE kind = COALESCE(?, kind) ORDER BY created_at DESC, rowid DESC", (kind,)
        )
        return [self._decoded(f"measurement {name}", plan, Plan) for name, plan in rows]

    def plan(self, measurement: str) -> Plan:
        """The plan whose id starts with `measurement`, or the newest for `last`. Raises `UserError` for none or several."""
        if measurement == "last":
            rows = self._select("SELECT id, plan FROM measurements ORDER BY created_at DESC, rowid DESC LIMIT 1", ())
        else:
            rows = self._select("SELECT id, plan FROM measurements WHERE substr(id, 1, ?) = ?", (len(measurement), measurement))
            rows = [row for row in rows if row[0] == measurement] or (rows if measurement else [])
        if len(rows) != 1:
            found = f"{len(rows)} measurements" if rows else "no measurement"
            raise UserError(f"{found} with an id that starts with {measurement!r} in {self.path}")
        return self._decoded(f"measurement {rows[0][0]}", rows[0][1], Plan)

    def _select(self, query: str, values: tuple[object, ...]) -> list[tuple[str, str]]:
        try:
            with closing(self._connection.execute(query, values)) as rows:
                return rows.fetchall()
        except sqlite3.Error as error:
            raise UserError(f"cannot read {self.path}: {error}") from error

    def _decoded(self, label: str, text: str, kind: type[_Row]) -> _Row:
        try:
            return msgspec.json.decode(text, type=kind)
        except msgspec.MsgspecError as error:
            raise UserError(f"{self.path}: {label} cannot be read: {error}") from error

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")
