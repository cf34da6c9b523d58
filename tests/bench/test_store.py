"""Trials come back as they were stored, and a process that dies leaves whole rows only."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.trials import any_trials, make_trial

from daneel.bench.store import TrialStore, default_path
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
