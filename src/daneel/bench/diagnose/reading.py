"""Reads stored runs for diagnosis, one after the other: of a million events, those of one run are in memory at a time.

Only the kinds of events that diagnosis looks at are read.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec
from msgspec import Struct

from daneel.bench import store as trial_store
from daneel.bench.diagnose.events import begun, decoded, fill
from daneel.bench.diagnose.view import RunView
from daneel.bench.record import Trial
from daneel.errors import UserError
from daneel.harness import transcript

_EVENTS = """
SELECT kind, turn, data FROM events WHERE run_id = ? AND (
    kind IN ('request', 'call', 'result', 'told', 'stop') OR (kind = 'reply' AND instr(data, '"logprobs": {') > 0)
) ORDER BY seq
"""
_ABOUT = "SELECT about, stop_reason FROM runs WHERE id = ?"


class _Goal(Struct):
    name: str
    held_out: bool = False


class _Plan(Struct):
    goals: list[_Goal] = []


@dataclass(frozen=True)
class Selection:
    """What is to be read: a measurement's trials, single runs, or everything."""

    measurements: tuple[str, ...] = ()
    runs: tuple[str, ...] = ()
    all: bool = False


class RunReader:
    """The runs in two stores. Raises UserError when there is no store, or it cannot be read.

    with RunReader() as reader:
        for run in reader.read(reader.select(["m_1234"])): ...
    """

    def __init__(self, transcripts: Path | None = None, trials: Path | None = None) -> None:
        self._transcripts = _open(transcripts or transcript.default_path(), "runs")
        path = trials or trial_store.default_path()
        self._trials = _open(path, "trials") if path.is_file() else None
        self._known_held_out: dict[str, frozenset[str]] = {}
        with _reading():
            tables = self._trials.execute("SELECT name FROM sqlite_master").fetchall() if self._trials is not None else []
        self._has_plans = ("measurements",) in tables

    def __enter__(self) -> RunReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._transcripts.close()
        if self._trials is not None:
            self._trials.close()

    def select(self, names: Sequence[str]) -> Selection:
        """What these ids, or beginnings of ids, name. Raises UserError for one that names nothing, or several things."""
        measurements: list[str] = []
        runs: list[str] = []
        for name in names:
            found = [("m", each) for each in self._starting(self._trials, "trials", "measurement", name)]
            found += [("r", each) for each in self._starting(self._transcripts, "runs", "id", name)]
            exact = [each for each in found if each[1] == name]
            if len(found) != 1 and len(exact) != 1:
                what = "several measurements or runs have" if found else "no measurement or run has"
                raise UserError(f"{what} an id that starts with {name!r}; see `daneel transcripts list`")
            kind, id_ = (exact or found)[0]
            (measurements if kind == "m" else runs).append(id_)
        return Selection(tuple(dict.fromkeys(measurements)), tuple(dict.fromkeys(runs)))

    def newest(self) -> Selection:
        """The newest measurement; without any, the newest run. Raises UserError when there is neither."""
        with _reading():
            if self._trials is not None:
                row = self._trials.execute("SELECT measurement FROM trials ORDER BY started_at DESC LIMIT 1").fetchone()
                if row is not None:
                    return Selection(measurements=(str(row[0]),))
            row = self._transcripts.execute("SELECT id FROM runs ORDER BY started_at DESC LIMIT 1").fetchone()
        if row is None:
            raise UserError("there are no runs yet; `daneel run` and `daneel measure` make some")
        return Selection(runs=(str(row[0]),))

    def count(self, selection: Selection) -> int:
        """How many runs there are to read, about: for a progress bar."""
        with _reading():
            if selection.all:
                return int(self._transcripts.execute("SELECT COUNT(*) FROM runs").fetchone()[0])
            query = "SELECT COUNT(*) FROM trials WHERE measurement = ?"
            counts = [self._trials.execute(query, (each,)).fetchone()[0] for each in selection.measurements if self._trials]
        return sum(map(int, counts)) + len(selection.runs)

    def read(self, selection: Selection) -> Iterator[RunView]:
        """The runs, one at a time. Trials that left no transcript are left out."""
        with _reading():
            if selection.all:
                seen: set[str] = set()
                for trial in self._stored_trials("", ()):
                    if trial.run_id is not None:
                        seen.add(trial.run_id)
                        yield from self._run(trial.run_id, trial)
                with closing(self._transcripts.cursor()) as rows:
                    for (id_,) in rows.execute("SELECT id FROM runs ORDER BY started_at"):
                        if id_ not in seen:
                            yield from self._run(id_, None)
                return
            for measurement in selection.measurements:
                for trial in self._stored_trials("WHERE measurement = ?", (measurement,)):
                    if trial.run_id is not None:
                        yield from self._run(trial.run_id, trial)
            wanted = set(selection.runs)
            of_runs = {trial.run_id: trial for trial in self._stored_trials("", ()) if trial.run_id in wanted} if wanted else {}
            for id_ in selection.runs:
                yield from self._run(id_, of_runs.get(id_))

    def _held_out(self, measurement: str) -> frozenset[str]:
        """The goals of a measurement that are held out; none where its plan is not stored, or cannot be read."""
        if measurement not in self._known_held_out:
            row = None
            if self._trials is not None and self._has_plans:
                row = self._trials.execute("SELECT plan FROM measurements WHERE id = ?", (measurement,)).fetchone()
            plan = decoded(row[0], msgspec.json.Decoder(_Plan).decode) if row else None
            goals = frozenset(goal.name for goal in plan.goals if goal.held_out) if plan else frozenset[str]()
            self._known_held_out[measurement] = goals
        return self._known_held_out[measurement]

    def _stored_trials(self, where: str, values: tuple[str, ...]) -> Iterator[Trial]:
        if self._trials is None:
            return
        decode = msgspec.json.Decoder(Trial).decode
        with closing(self._trials.cursor()) as rows:
            for (record,) in rows.execute(f"SELECT record FROM trials {where} ORDER BY rowid", values):
                try:
                    yield decode(record)
                except msgspec.MsgspecError as error:
                    raise UserError(f"a stored trial cannot be read, so that no count would be right: {error}") from error

    def _starting(self, db: sqlite3.Connection | None, table: str, column: str, start: str) -> list[str]:
        if db is None or not start:
            return []
        with _reading():
            query = f"SELECT DISTINCT {column} FROM {table} WHERE {column} >= ? AND {column} < ? LIMIT 3"
            return [str(row[0]) for row in db.execute(query, (start, start + chr(0x10FFFF)))]

    def _run(self, run_id: str, trial: Trial | None) -> Iterator[RunView]:
        row = self._transcripts.execute(_ABOUT, (run_id,)).fetchone()
        if row is None:
            return
        run = begun(run_id, row[0], trial)
        run.stop_reason = (trial.stop_reason if trial else row[1]) or ""
        with closing(self._transcripts.execute(_EVENTS, (run_id,))) as events:
            fill(run, events)
        if trial is not None:
            run.turns, run.achieved = trial.turns, trial.achieved
            run.held_out = trial.goal in self._held_out(trial.measurement)
        yield run


def _open(path: Path, table: str) -> sqlite3.Connection:
    if not path.is_file():
        raise UserError(f"there are no runs yet: {path} does not exist; `daneel run` and `daneel measure` make some")
    try:
        db = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, timeout=transcript.BUSY_TIMEOUT_S)
        db.execute(f"SELECT 1 FROM {table} LIMIT 1")
    except sqlite3.Error as error:
        raise UserError(f"cannot read {path}: {error}") from error
    return db


@contextmanager
def _reading() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise UserError(f"cannot read what is stored: {error}") from error
