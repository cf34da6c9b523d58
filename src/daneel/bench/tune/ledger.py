"""The ledger of a tuning: everything that was tried, kept or not, and with what evidence. Kept in the trials database."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from daneel.bench.plan import ArmFacts, GoalFacts, ModelFacts
from daneel.bench.store import default_path
from daneel.bench.tune.edits import Edit, told
from daneel.errors import UserError

KEPT = "kept"
NOT_CONFIRMED = "not confirmed"
SCREENED_OUT = "screened out"
NOT_TRIED = "not tried"
REFUSED = "cannot be tried"

_TABLE = """
CREATE TABLE IF NOT EXISTS tunings (
    id TEXT PRIMARY KEY,
    created_at TEXT NOT NULL,
    record TEXT NOT NULL  -- the whole tuning as JSON
) STRICT
"""


class Confirmation(Struct, frozen=True, kw_only=True):
    """A paired test against the harness that was kept so far. `alpha`: its share; it was claimed if `e_value` >= 1/alpha."""

    measurement: str
    question: str
    alpha: float
    num_pairs: int
    difference: float | None
    interval: tuple[float, float]
    e_value: float
    verdict: str


class Entry(Struct, kw_only=True):
    """One candidate. `number` counts from 1; an arm's name says by these numbers which edits are in it."""

    number: int
    round: int
    base: str
    """The arm that it changes."""
    edits: tuple[Edit, ...]
    kind: str
    why: str
    source: str
    simplifies: bool
    status: str = NOT_TRIED
    reason: str = ""
    screened_pairs: int = 0
    screened_difference: float | None = None
    confirmation: Confirmation | None = None

    @property
    def told(self) -> str:
        """The edits in words."""
        return told(self.edits)


class Tuning(Struct, kw_only=True):
    """One tuning: what was asked, what has been tried by now, and what is kept. All but `proposals` follows from the trials."""

    id: str
    created_at: str
    start: ArmFacts
    search_goals: list[GoalFacts]
    confirm_goals: list[GoalFacts]
    """Held-out goals; or the same ones as `search_goals`, which are then tried with fresh seeds."""
    model: ModelFacts
    budget_pairs: int
    alpha: float
    base_seed: int
    noninferior: float | None = None
    servers: list[str] = []
    serve: str | None = None
    asked_model: str | None = None
    options: dict[str, Any] = {}
    """What the command line needs to go on."""
    proposals: dict[str, list[str]] = {}
    """What a model was asked, and its lines: it would say something else the next time."""
    entries: list[Entry] = []
    notes: list[str] = []
    kept: tuple[Edit, ...] = ()
    kept_hash: str = ""
    num_trials: int = 0
    ended: str | None = None
    """Why there was no more to do; None while there is."""

    @property
    def held_out(self) -> bool:
        """Whether what is kept was confirmed on goals that nothing was chosen by."""
        return all(goal.held_out for goal in self.confirm_goals)


class LedgerStore:
    """Tunings in the trials database, beside the trials. `with LedgerStore() as ledgers`. Raises `UserError`."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or default_path()
        with self._told("kept"):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(self.path, isolation_level=None, timeout=30.0)
            self._connection.execute(_TABLE)

    def __enter__(self) -> LedgerStore:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def save(self, tuning: Tuning) -> None:
        """Store the tuning as it stands; on disk when this returns. Raises `UserError`."""
        with self._told("kept"):
            self._connection.execute(
                "INSERT INTO tunings (id, created_at, record) VALUES (?, ?, ?)"
                " ON CONFLICT (id) DO UPDATE SET record = excluded.record",
                (tuning.id, tuning.created_at, msgspec.json.encode(tuning).decode()),
            )

    def load(self, start: str) -> Tuning:
        """The tuning whose id starts so, or the newest for `last`. Raises `UserError` for none or several."""
        with self._told("read"):
            if start == "last":
                rows = self._connection.execute("SELECT id, record FROM tunings ORDER BY created_at DESC, rowid DESC LIMIT 1")
            else:
                rows = self._connection.execute(
                    "SELECT id, record FROM tunings WHERE substr(id, 1, ?) = ?", (len(start), start)
                )
            found = rows.fetchall()
        found = [row for row in found if row[0] == start] or (found if start else [])
        if len(found) != 1:
            many = f"{len(found)} tunings" if found else "no tuning"
            raise UserError(f"{many} with an id that starts with {start!r} in {self.path}")
        try:
            return msgspec.json.decode(found[0][1], type=Tuning)
        except msgspec.MsgspecError as error:
            raise UserError(f"{self.path}: tuning {found[0][0]} cannot be read: {error}") from error

    @contextmanager
    def _told(self, what: str) -> Iterator[None]:
        try:
            yield
        except (OSError, sqlite3.Error) as error:
            raise UserError(f"the ledger cannot be {what} in {self.path}: {error}") from error
