"""`daneel tune` as a person runs it, on a scripted peer."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading

import pytest
from tests.support.clock_model import answer_from, results_in
from tests.support.scripted_server import ScriptedServer, calls, error, text

from daneel.bench.store import TrialStore
from daneel.bench.tune.ledger import LedgerStore
from daneel.harness.files import load

FILE = '''
from datetime import date, datetime

from daneel import Harness, goal, tool
from daneel.tools import file_tools


@tool
def cur_time() -> str:
    """Get current time"""
    return datetime.now().strftime("%H:%M:%S")


def today() -> str:
    return date.today().isoformat()


H2 = Harness(tools=[cur_time, tool(name="my_date", description="TODO")(today), *file_tools(".")], system="clock")
GOOD = Harness(tools=[cur_time, tool(name="cur_date", description="Get current date")(today)], system="clock")


@goal(prompt="What's the date and time?")
def now(trial) -> bool:
    return "-" in (trial.answer or "")


def fill(workspace) -> None:
    (workspace / "note.txt").write_text("here")


@goal(prompt="Which day is it, and what time?", held_out=True, setup=fill)
def day(trial) -> bool:
    return "-" in (trial.answer or "") and (trial.workspace / "note.txt").exists()
'''


def undescribed_is_not_called(request):
    """Calls all tools without arguments whose description says something, at once; states what they gave."""
    if "tools" not in request:
        return text("1. `Get current date`\n2. Say which day it is\n\x1b[31m\nx")
    functions = [tool["function"] for tool in request["tools"] if not tool["function"]["parameters"].get("properties")]
    wanted = [function["name"] for function in functions if function["description"] != "TODO"]
    results = results_in(request)
    if missing := [name for name in wanted if name not in results]:
        return calls(*((name, {}) for name in missing))
    return text(f"It is {' '.join(results.values())}." if len(results) < 2 else answer_from(results) + f" {results}")


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "clock.py"
    path.write_text(FILE)
    return path


@pytest.fixture
def peer():
    with ScriptedServer(undescribed_is_not_called) as server:
        yield server


def plain(output: str) -> str:
    return " ".join(output.split())


def test_the_winner_is_confirmed_and_written(daneel, file, peer, tmp_path):
    options = ("--server", peer.url, "--seed", "1", "--budget-pairs", "50")
    code, out, err = daneel("tune", f"{file}:H2", *options)
    said = plain(out)
    assert code == 0, err
    assert "Screened on now Confirmed on day (held out)" in said
    assert "Kept #" in said
    assert "confidence sequence [+" in said
    assert '- "description": "TODO"' in said
    winner = tmp_path / "clock_tuned.py"
    assert f"Written: {winner}" in said
    tuned = load(winner).harness("H2_tuned")
    assert all(tool.description != "TODO" for tool in tuned.tools)
    assert list(load(winner).goals) == ["now", "day"]
    with TrialStore() as store, LedgerStore() as ledgers:
        tuning = ledgers.load("last")
        trials = [trial for plan in store.plans(kind="tune") for trial in store.trials(plan.id)]
    assert tuning.kept_hash == tuned.fingerprint()
    assert {trial.harness_hash for trial in trials} >= {tuned.fingerprint()}
    assert 0 < len(trials) == tuning.num_trials <= 100
    code, out, _ = daneel("measure", str(winner), "--goal", "day", "--trials", "1", "--server", peer.url, "--json")
    assert (code, '"H2_tuned"' in out) == (0, True), "what was written can be measured"
    num_requests = len(peer.requests)
    code, _, err = daneel("tune", f"{file}:H2", *options)
    assert (code, len(peer.requests)) == (2, num_requests), "a file that is there already is said before any trial"
    assert "clock_tuned.py is there already" in err


def test_a_finished_tuning_as_json_runs_nothing_again(daneel, file, peer, tmp_path):
    started = ("--server", peer.url, "--seed", "1", "--budget-pairs", "40", "--no-proposer")
    code, out, _ = daneel("tune", f"{file}:H2", *started, "--json", "--parallel", "2")
    told = json.loads(out)
    assert code == 0
    assert told["held_out"] is True
    assert told["file"] == str(tmp_path / "clock_tuned.py")
    assert {entry["status"] for entry in told["entries"]} >= {"kept"}
    assert all(entry["source"] == "rule" and entry["told"] for entry in told["entries"])
    assert all("tools" in request for request in peer.requests), "no model was asked for words"
    num_requests = sum("tools" in request for request in peer.requests)
    code, out, _ = daneel("tune", "--resume", told["id"], "--no-proposer", "--json", "--force")
    again = json.loads(out)
    assert (code, sum("tools" in request for request in peer.requests)) == (0, num_requests)
    assert (again["entries"], again["kept"], again["num_trials"]) == (told["entries"], told["kept"], told["num_trials"])


def test_its_stages_are_gone_on_with_by_nothing_else(daneel, file, peer):
    daneel("tune", f"{file}:H2", "--server", peer.url, "--seed", "1", "--budget-pairs", "10", "--no-proposer")
    with TrialStore() as store:
        stage = store.plans(kind="tune")[0].id
    for command, said in (("measure", "was made by `daneel tune`"), ("compare", "is no comparison but of the kind tune")):
        num_requests = len(peer.requests)
        code, _, err = daneel(command, "--resume", stage)
        assert (code, said in plain(err), len(peer.requests)) == (2, True, num_requests)


def test_where_nothing_helps_nothing_is_written(daneel, file, tmp_path):
    with ScriptedServer(lambda request: text("No.")) as server:
        code, out, _ = daneel("tune", f"{file}:H2", "--server", server.url, "--seed", "1", "--budget-pairs", "12")
    assert code == 0
    assert "Nothing is kept" in plain(out)
    assert not (tmp_path / "clock_tuned.py").exists()


def test_a_server_that_only_fails_ends_it_and_says_how_to_go_on(daneel, file):
    with ScriptedServer(lambda request: error(500, "the engine died")) as server:
        options = ("--server", server.url, "--seed", "1", "--budget-pairs", "10", "--no-proposer")
        code, _, err = daneel("tune", f"{file}:H2", *options)
    assert code == 2
    assert "go on with daneel tune --resume t_" in plain(err)


def test_goals_that_cannot_be_scored_are_exit_code_1(daneel, file, peer):
    file.write_text(FILE.replace('return "-" in (trial.answer or "")', "raise KeyError('no')"))
    options = ("--server", peer.url, "--seed", "1", "--budget-pairs", "14", "--no-proposer")
    code, out, _ = daneel("tune", f"{file}:H2", *options)
    assert code == 1
    assert "Nothing is kept" in plain(out)


def test_ctrl_c_leaves_the_ledger_and_says_how_to_go_on(daneel, file):
    reached = threading.Event()

    def slow(request):
        if sum("tools" in each for each in server.requests) >= 30:
            reached.set()
        return undescribed_is_not_called(request)

    with ScriptedServer(slow) as server:
        command = [sys.executable, "-m", "daneel", "tune", f"{file}:H2", "--server", server.url, "--seed", "1"]
        process = subprocess.Popen(
            [*command, "--budget-pairs", "2000"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ, text=True
        )
        assert reached.wait(100)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=100)
        assert process.returncode == 130, err
        with LedgerStore() as ledgers:
            begun = ledgers.load("last")
        assert f"daneel tune --resume {begun.id}" in plain(out)
        assert "Traceback" not in err
        assert begun.ended is None


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "name the harness to begin with"),
        (["nowhere.py"], "nowhere.py: is neither a harness file"),
        (["{file}:H9"], "there is no harness H9"),
        (["{file}:H2", "--goal", "never"], "there is no goal never"),
        (["{file}:H2", "--goal", "day"], "all of these goals are held out"),
        (["{file}:H2", "--budget-pairs", "9"], "--budget-pairs must be from 10"),
        (["{file}:H2", "--alpha", "1"], "--alpha must be between 0 and 1"),
        (["{file}:H2", "--noninferior", "-0.1"], "--noninferior must be between 0 and 1"),
        (["{file}:H2", "--out", "winner.txt"], "ending in .py"),
        (["{file}:H2", "--out", "no/such/winner.py"], "there is no folder"),
        (["{file}:H2", "--proposer", "http://127.0.0.1:9", "--no-proposer"], "exclude each other"),
        (["{file}:H2", "--parallel", "0"], "--parallel must be from 1"),
        (["--resume", "t_nothing"], "no tuning with an id that starts with 't_nothing'"),
    ],
)
def test_bad_input_is_one_sentence(daneel, file, peer, arguments, said):
    code, _, err = daneel("tune", *[each.format(file=file) for each in arguments], "--server", peer.url)
    assert code == 2
    assert said in plain(err)
    assert "Traceback" not in err


def test_resume_takes_no_new_question_and_no_changed_file(daneel, file, peer):
    options = ("--server", peer.url, "--seed", "1", "--budget-pairs", "10", "--no-proposer")
    daneel("tune", f"{file}:H2", *options)
    code, _, err = daneel("tune", f"{file}:H2", "--resume", "last")
    assert (code, "goes on with what was asked then" in plain(err)) == (2, True)
    file.write_text(FILE.replace('system="clock"', 'system="a clock"'))
    code, _, err = daneel("tune", "--resume", "last", "--force")
    assert (code, "harness H2 has changed since (system)" in plain(err)) == (2, True)
