"""Trials come back as they were stored, and a process that dies leaves whole rows only."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.trials import any_trials, make_trial

from daneel import Harness, goal, tool
from daneel.bench.plan import inline_plan
from daneel.bench.store import TrialStore, default_path
from daneel.bench.trial import ModelIdentity
from daneel.errors import UserError


@given(st.lists(any_trials, max_size=5))
def test_trials_come_back_as_they_were(tmp_path_factory, trials):
    trials = [make_trial(**{**_fields(trial), "index": index}) for index, trial in enumerate(trials)]
    with TrialStore(tmp_path_factory.mktemp("store") / "trials.db") as store:
        for trial in trials:
            store.add(trial)
        assert store.trials("m") == trials
        assert store.trials("another") == []


def _fields(trial):
    return {name: getattr(trial, name) for name in trial.__struct_fields__}


def test_the_store_lies_in_the_data_directory(tmp_path, monkeypatch):
    monkeypatch.setenv("DANEEL_DATA_DIR", str(tmp_path / "here"))
    with TrialStore() as store:
        store.add(make_trial())
    assert default_path() == tmp_path / "here" / "trials.db"
    assert default_path().exists()


def test_the_same_trial_is_never_stored_twice(tmp_path):
    with TrialStore(tmp_path / "t") as store:
        store.add(make_trial())
        with pytest.raises(UserError, match="cannot keep trial 0 of H1"):
            store.add(make_trial(achieved=False))
        assert store.trials("m") == [make_trial()]
        store.add(make_trial(index=1))  # the failed transaction is closed
        assert len(store.trials("m")) == 2


def test_a_file_that_is_no_store_is_refused_in_one_sentence(tmp_path):
    (tmp_path / "t").write_text("not a database, but long enough to be mistaken for one" * 50)
    with pytest.raises(UserError, match="cannot keep trials in"):
        TrialStore(tmp_path / "t")


def test_a_killed_process_leaves_whole_rows_only(tmp_path):
    script = (
        "import sys\n"
        "from pathlib import Path\n"
        "from daneel.bench.store import TrialStore\n"
        "from tests.support.trials import make_trial\n"
        "with TrialStore(Path(sys.argv[1])) as store:\n"
        "    for index in range(10**6):\n"
        "        store.add(make_trial(index=index, answer='x' * 5000))\n"
        "        print(index, flush=True)\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "t")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=os.getcwd()) as process:
        acknowledged = [int(process.stdout.readline()) for _ in range(20)]
        process.send_signal(signal.SIGKILL)
        acknowledged += [int(line) for line in process.stdout if line.endswith("\n")]
    with TrialStore(tmp_path / "t") as store:
        stored = store.trials("m")
    assert [trial.index for trial in stored][: len(acknowledged)] == acknowledged
    assert len(stored) <= len(acknowledged) + 1, "at most the one that was being acknowledged"
    with sqlite3.connect(tmp_path / "t") as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_several_attempts_at_a_place_are_kept_and_each_once(tmp_path):
    attempts = [make_trial(attempt=number, achieved=None if number < 2 else True) for number in range(3)]
    with TrialStore(tmp_path / "t") as store:
        for trial in attempts:
            store.add(trial)
        with pytest.raises(UserError, match="cannot keep trial 0 of H1"):
            store.add(attempts[1])
        assert store.trials("m") == attempts


def plan_of(measurement, kind="measure", created_at="2026-12-01T00:00:00.000+00:00"):
    @goal(prompt="p", min_turns=2, held_out=True)
    def reached(trial):
        return True

    @tool
    def look(where: str) -> str:
        """Look there"""
        return where

    harness = Harness(tools=[look], system="s", temperature=0.5, max_calls={"look": 3})
    model = ModelIdentity("m", "m0", True, {"weights_sha256": "ab"})
    return inline_plan(
        {"H": harness}, [reached], model, kind=kind, num_trials=3, base_seed=1, id=measurement, created_at=created_at
    )


def test_what_was_measured_comes_back_and_explains_its_hashes(tmp_path):
    plan = plan_of("m_1")
    with TrialStore(tmp_path / "t") as store:
        store.add_plan(plan)
    with TrialStore(tmp_path / "t") as store:
        found = store.plan("m_1")
    assert found == plan
    arm = found.arm("H")
    assert arm.declarations[0]["function"]["name"] == "look"
    assert "def look" in arm.sources["look"]
    assert {"system", "tool look", "max_calls"} <= set(arm.parts)
    assert (found.goal("reached").min_turns, found.goal("reached").held_out) == (2, True)
    assert found.model.facts == {"weights_sha256": "ab"}
    with pytest.raises(KeyError):
        found.arm("J")


def test_measurements_are_found_by_how_their_id_starts_by_kind_and_the_newest_first(tmp_path):
    with TrialStore(tmp_path / "t") as store:
        for number, (name, kind) in enumerate((("m_a1", "measure"), ("m_a2", "compare"), ("m_b%", "measure"))):
            store.add_plan(plan_of(name, kind, f"2026-12-0{number + 1}T00:00:00.000+00:00"))
        assert [plan.id for plan in store.plans()] == ["m_b%", "m_a2", "m_a1"]
        assert [plan.id for plan in store.plans(kind="measure")] == ["m_b%", "m_a1"]
        assert (store.plan("last").id, store.plan("m_b").id, store.plan("m_a2").id) == ("m_b%", "m_b%", "m_a2")
        for asked, said in (
            ("m_a", "2 measurements"),
            ("%", "no measurement"),
            ("", "no measurement"),
            ("x", "no measurement"),
        ):
            with pytest.raises(UserError, match=said):
                store.plan(asked)


def test_the_same_measurement_is_never_stored_twice(tmp_path):
    with TrialStore(tmp_path / "t") as store:
        store.add_plan(plan_of("m_1"))
        with pytest.raises(UserError, match="cannot keep measurement m_1"):
            store.add_plan(plan_of("m_1"))


@pytest.mark.parametrize("damage", ["{", "{}", '{"kind": 3}'])
def test_a_row_that_cannot_be_read_is_named(tmp_path, damage):
    with TrialStore(tmp_path / "t") as store:
        store.add_plan(plan_of("m_1"))
        store.add(make_trial())
    with sqlite3.connect(tmp_path / "t") as database:
        database.execute("UPDATE measurements SET plan = ?", (damage,))
        database.execute("UPDATE trials SET record = ?", (damage,))
    with TrialStore(tmp_path / "t") as store:
        with pytest.raises(UserError, match="measurement m_1 cannot be read"):
            store.plan("m_1")
        with pytest.raises(UserError, match="a trial of m cannot be read"):
            store.trials("m")


def test_a_store_of_the_first_layout_is_taken_over(tmp_path):
    trials = [make_trial(index=index) for index in (1, 0)]
    with sqlite3.connect(tmp_path / "t") as database:
        database.execute(
            "CREATE TABLE trials (measurement TEXT NOT NULL, idx INTEGER NOT NULL, harness TEXT NOT NULL, goal TEXT NOT NULL,"
            " started_at TEXT NOT NULL, record TEXT NOT NULL, PRIMARY KEY (measurement, harness, goal, idx)) STRICT"
        )
        for trial in trials:
            record = msgspec.to_builtins(trial)
            del record["attempt"], record["server"]
            row = (trial.measurement, trial.index, trial.harness, trial.goal, trial.started_at, json.dumps(record))
            database.execute("INSERT INTO trials VALUES (?, ?, ?, ?, ?, ?)", row)
    with TrialStore(tmp_path / "t") as store:
        assert store.trials("m") == trials
        store.add(make_trial(attempt=1))
        store.add_plan(plan_of("m_1"))
    with TrialStore(tmp_path / "t") as store:
        assert len(store.trials("m")) == 3


def test_a_store_of_a_newer_layout_is_left_alone(tmp_path):
    with sqlite3.connect(tmp_path / "t") as database:
        database.execute("PRAGMA user_version = 99")
    with pytest.raises(UserError, match="written by a newer daneel"):
        TrialStore(tmp_path / "t")
