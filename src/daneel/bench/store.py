"""Trials on disk: one SQLite file, one transaction a trial. A row is either whole and safe, or not there."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec

from daneel.bench.record import Trial
from daneel.errors import UserError
from daneel.harness import transcript

_SCHEMA = """
CREATE TABLE IF NOT EXISTS trials (
    measurement TEXT NOT NULL,
    idx INTEGER NOT NULL,
    harness TEXT NOT NULL,
    goal TEXT NOT NULL,
    started_at TEXT NOT NULL,
    record TEXT NOT NULL,  -- the whole trial as JSON
    PRIMARY KEY (measurement, harness, goal, idx)
) STRICT
"""
_INSERT = "INSERT INTO trials (measurement, idx, harness, goal, started_at, record) VALUES (?, ?, ?, ?, ?, ?)"


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
            self._connection.execute(_SCHEMA)
        except (OSError, sqlite3.Error) as error:
            raise UserError(f"cannot keep trials in {self.path}: {error}") from error

    def __enter__(self) -> TrialStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    def add(self, trial: Trial) -> None:
        """Store one trial; it is on disk when this returns. Raises `UserError` when that fails (disk full, say)."""
        record = msgspec.json.encode(trial).decode()
        row = (trial.measurement, trial.index, trial.harness, trial.goal, trial.started_at, record)
        try:
            with self._transaction():
                self._connection.execute(_INSERT, row)
        except sqlite3.Error as error:
            raise UserError(f"cannot keep trial {trial.index} of {trial.harness} in {self.path}: {error}") from error

    def trials(self, measurement: str) -> list[Trial]:
        """The trials of one measurement, in the order they were stored."""
        query = "SELECT record FROM trials WHERE measurement = ? ORDER BY rowid"
        with closing(self._connection.execute(query, (measurement,))) as rows:
            return [msgspec.json.decode(record, type=Trial) for (record,) in rows]

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")
