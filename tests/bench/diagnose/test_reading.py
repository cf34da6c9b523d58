"""Reading the stores: what ids name, what is broken, and that everything stored is looked at."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.support.planted.stored import write

from daneel.bench.diagnose.reading import RunReader
from daneel.errors import UserError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path, trials=6, measurement="m_first")
    write(tmp_path, trials=3, measurement="m_second", harness="other", seed=1)
    return tmp_path


@pytest.fixture
def reader(folder: Path) -> Iterator[RunReader]:
    with RunReader(folder / "transcripts.db", folder / "trials.db") as opened:
        yield opened


def ids(reader: RunReader, *names: str) -> list[str]:
    return [run.id for run in reader.read(reader.select(names))]


def test_ids_and_their_beginnings_name_measurements_and_runs(reader: RunReader) -> None:
    assert len(ids(reader, "m_first")) == 6
    assert len(ids(reader, "m_s")) == 3
    assert ids(reader, "r0_000002", "r1_000001") == ["r0_000002", "r1_000001"]
    assert len(ids(reader, "m_first", "m_second", "m_first")) == 9


@pytest.mark.parametrize(
    ("name", "what"), [("m_", "several"), ("r0_", "several"), ("x", "no measurement"), ("", "no measurement")]
)
def test_what_names_nothing_or_several_is_said(reader: RunReader, name: str, what: str) -> None:
    with pytest.raises(UserError, match=what):
        reader.select([name])


def test_a_run_of_a_trial_has_what_the_trial_says(reader: RunReader) -> None:
    (run,) = reader.read(reader.select(["r0_000003"]))
    assert (run.harness, run.goal, run.harness_hash) == ("many", "goal_3", "h")
    assert run.scored
    assert len(run.calls) == 16
    assert len(run.shown) == len(run.names) == 30
    assert run.answer is not None


def test_all_are_all_and_each_once(reader: RunReader, folder: Path) -> None:
    with closing(sqlite3.connect(folder / "transcripts.db")) as db:
        db.execute("INSERT INTO runs (id, started_at, pid, process, about) VALUES ('alone', 99, 1, '', '{}')")
        db.commit()
    everything = reader.select(["m_first"]).__class__(all=True)
    read = [run.id for run in reader.read(everything)]
    assert len(read) == len(set(read)) == 10
    assert reader.count(everything) == 10


def test_the_newest_measurement(reader: RunReader, folder: Path) -> None:
    with closing(sqlite3.connect(folder / "trials.db")) as db:
        db.execute("UPDATE trials SET started_at = '2027-01-01T00:00:00+00:00' WHERE measurement = 'm_first'")
        db.commit()
    assert reader.newest().measurements == ("m_first",)


def test_held_out_goals_are_told_from_the_plan(reader: RunReader, folder: Path) -> None:
    plan = {"goals": [{"name": "goal_1", "held_out": True, "more": [1]}, {"name": "goal_2"}], "arms": 7}
    with closing(sqlite3.connect(folder / "trials.db")) as db:
        db.execute("INSERT INTO measurements VALUES ('m_first', 'measure', '', ?)", (json.dumps(plan),))
        db.execute("INSERT INTO measurements VALUES ('m_second', 'measure', '', 'not JSON')")
        db.commit()
    assert [run.goal for run in reader.read(reader.select(["m_first", "m_second"])) if run.held_out] == ["goal_1"]


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("call", "not JSON"),
        ("call", '{"id": 3}'),
        ("result", '{"id": "c2", "result": 7}'),
        ("request", "[]"),
        ("stop", '{"answer": {}}'),
        ("result", '{"id": "nobody", "result": "x"}'),
    ],
)
def test_an_event_that_cannot_be_read_costs_that_event(reader: RunReader, folder: Path, kind: str, data: str) -> None:
    with closing(sqlite3.connect(folder / "transcripts.db")) as db:
        row = db.execute("SELECT seq FROM events WHERE run_id = 'r0_000001' AND kind = ? LIMIT 1", (kind,)).fetchone()
        db.execute("UPDATE events SET data = ? WHERE run_id = 'r0_000001' AND seq = ?", (data, row[0]))
        db.commit()
    (run,) = reader.read(reader.select(["r0_000001"]))
    assert 1 <= run.unreadable <= 2  # the result of a call that cannot be read has none to belong to
    assert len(run.calls) >= 15


def test_a_trial_that_cannot_be_read_is_said(reader: RunReader, folder: Path) -> None:
    with closing(sqlite3.connect(folder / "trials.db")) as db:
        db.execute("UPDATE trials SET record = '{\"index\": 3}' WHERE rowid = 1")
        db.commit()
    with pytest.raises(UserError, match="a stored trial cannot be read"):
        list(reader.read(reader.select(["m_first"])))


def test_numbers_that_json_does_not_have_are_read(reader: RunReader, folder: Path) -> None:
    with closing(sqlite3.connect(folder / "transcripts.db")) as db:
        call = '{"id": "c1", "name": "tool_1x", "arguments": {"x": NaN, "y": [Infinity]}, "effects": []}'
        db.execute("UPDATE events SET data = ? WHERE run_id = 'r0_000001' AND kind = 'call' AND turn = 1", (call,))
        db.commit()
    (run,) = reader.read(reader.select(["r0_000001"]))
    assert run.unreadable == 0
    assert run.calls[0].arguments == {"x": "nan", "y": ["inf"]}


@pytest.mark.parametrize(
    "about", ["{}", "[]", "no JSON", '{"tools": 3, "repeating_tools": null}', '{"tools": [1, {"function": 2}]}']
)
def test_a_run_that_says_little_of_itself_is_read(reader: RunReader, folder: Path, about: str) -> None:
    with closing(sqlite3.connect(folder / "transcripts.db")) as db:
        db.execute("UPDATE runs SET about = ? WHERE id = 'r0_000001'", (about,))
        db.commit()
    (run,) = reader.read(reader.select(["r0_000001"]))
    assert run.names == ()
    assert len(run.calls) == 16


def test_no_store_no_store_of_runs_and_no_trials(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(UserError, match="there are no runs yet"):
        RunReader(tmp_path / "none.db")
    (tmp_path / "text.db").write_text("this is no database, but long enough to be taken for one " * 20)
    with pytest.raises(UserError, match="cannot read"):
        RunReader(tmp_path / "text.db")
    with RunReader(folder / "transcripts.db", tmp_path / "none.db") as reader:
        assert reader.newest().runs
        assert [run.scored for run in reader.read(reader.select(["r0_000001"]))] == [False]
