"""Labels: what a person says of a stored run, to measure detectors by. Kept beside the runs, append-only; the last counts."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from daneel.errors import UserError

BUSY_TIMEOUT_S = 30.0

_TABLE = """
CREATE TABLE IF NOT EXISTS labels (
    run_id TEXT NOT NULL, detector TEXT NOT NULL, is_stuck INTEGER NOT NULL, note TEXT, at REAL NOT NULL
) STRICT
"""


@dataclass(frozen=True, slots=True)
class Label:
    """Whether a run was stuck; in the way that `detector` looks for, or `any`."""

    run_id: str
    detector: str
    is_stuck: bool
    note: str | None = None


class LabelStore:
    """The labels in a transcript store's file. Raises UserError when it cannot be read or written."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(self, label: Label) -> None:
        with self._open() as db:
            db.execute(_TABLE)
            db.execute(
                "INSERT INTO labels (run_id, detector, is_stuck, note, at) VALUES (?, ?, ?, ?, ?)",
                (label.run_id, label.detector, int(label.is_stuck), label.note, time.time()),
            )

    def all(self) -> dict[str, dict[str, bool]]:
        """By run and detector, the last label of each."""
        found: dict[str, dict[str, bool]] = {}
        with self._open() as db:
            if db.execute("SELECT 1 FROM sqlite_master WHERE name = 'labels'").fetchone() is None:
                return found
            for run_id, detector, is_stuck in db.execute("SELECT run_id, detector, is_stuck FROM labels ORDER BY rowid"):
                found.setdefault(run_id, {})[detector] = bool(is_stuck)
        return found

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            db = sqlite3.connect(self.path, timeout=BUSY_TIMEOUT_S, isolation_level=None)
            try:
                yield db
            finally:
                db.close()
        except sqlite3.Error as error:
            raise UserError(f"cannot use the labels in {self.path}: {error}") from error
