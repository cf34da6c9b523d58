"""Worker processes: what they run, what becomes of it when they die, and that nothing of them is left."""

from __future__ import annotations

import os
import signal
import threading
import time
from itertools import islice
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.support.dice_model import Gate, dice, living_workers, write_file
from tests.support.scripted_server import HANG, ScriptedServer, calls, error, raw, text

from daneel.bench.plan import plan_of
from daneel.bench.runners.inline import InlineRunner
from daneel.bench.runners.workers import MAX_BARREN, MAX_DEATHS, WorkersRunner
from daneel.bench.sources import gather
from daneel.bench.store import TrialStore
from daneel.bench.trial import identify
from daneel.errors import UserError
from daneel.harness.client import Client
from daneel.harness.transcript import TranscriptStore


@pytest.fixture
def store(tmp_path):
    with TrialStore(tmp_path / "trials.db") as store:
        yield store


def runner_for(file: Path, servers, store, *, num_trials=1, num_workers=1, harnesses=(), goals=(), **more) -> WorkersRunner:
    sources = gather([file], harnesses=harnesses, goals=goals)
    urls = [server.url for server in servers]
    with Client(urls) as client:
        model = identify(client)
    plan = plan_of(sources, model, kind="measure", num_trials=num_trials, base_seed=3)
    return WorkersRunner(plan=plan, store=store, servers=urls, num_workers=num_workers, **more)


def run(runner):
    return list(runner.run(runner.plan.slots()))


def seen(trials):
    """What does not depend on when and where a trial ran."""
    return sorted(
        (t.harness, t.goal, t.index, t.attempt, t.seed, t.stop_reason, t.achieved, t.turns, t.calls, t.answer, t.prompt_tokens,
         t.completion_tokens, t.harness_hash, t.goal_hash, t.model_hash)
        for t in trials
    )  # fmt: skip


def serial(file, server, store, plan):
    """The same plan, one trial after the other in this process."""
    sources = gather([file])
    with Client(server.url) as client:
        goals = {goal.name: goal for goal in sources.goals}
        inline = InlineRunner(harnesses=sources.harnesses, goals=goals, client=client, model=identify(client), store=store)
        return list(inline.run(replace(plan, id="m_serial").slots()))


def wait_until_gone(pids):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and any(_lives(pid) for pid in pids):
        time.sleep(0.02)
    assert not [pid for pid in pids if _lives(pid)]


def _lives(pid):
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True


def test_workers_give_the_same_rows_as_this_process(tmp_path, store):
    file = write_file(tmp_path)
    with ScriptedServer(dice) as server:
        runner = runner_for(file, [server], store, num_trials=4, num_workers=3)
        trials = run(runner)
        expected = serial(file, server, store, runner.plan)
    assert seen(trials) == seen(expected)
    assert len({t.achieved for t in trials}) == 2, "or the test would see little"
    assert store.trials(runner.plan.id) == trials, "in the order they were given"
    with TranscriptStore() as transcripts:
        kept = {row.id: row for row in transcripts.runs()}
    assert {(kept[t.run_id].state, kept[t.run_id].about["arm"], kept[t.run_id].about["index"]) for t in trials} == {
        (t.stop_reason, t.harness, t.index) for t in trials
    }
    wait_until_gone(living_workers(file, but=0))


def test_trials_run_at_the_same_time(tmp_path, store):
    both = threading.Barrier(2)

    def script(request):
        both.wait(120)  # breaks, and with it the reply, unless two requests are under way
        return text("good")

    with ScriptedServer(script) as server:
        trials = run(runner_for(write_file(tmp_path), [server], store, num_workers=2))
    assert [t.achieved for t in trials] == [True, True]


def test_a_worker_that_is_killed_leaves_no_row_and_its_trial_is_run_again(tmp_path, store):
    file = write_file(tmp_path)
    gate = Gate(dice)
    gate.close_after(3)
    with ScriptedServer(gate) as server:
        runner = runner_for(file, [server], store, num_trials=3)
        killer = threading.Thread(target=_kill_all_when_closed, args=(gate, file))
        killer.start()
        trials = run(runner)
        killer.join()
        expected = serial(file, server, store, runner.plan)
    assert seen(trials) == seen(expected)


def _kill_all_when_closed(gate, file):
    with gate.closed():
        for pid in living_workers(file, but=0):
            os.kill(pid, signal.SIGKILL)


DEADLY = '''
import os
from daneel import Harness, goal, tool

@tool
def crash() -> str:
    """Crash"""
    os._exit(7)

deadly = Harness(tools=[crash], system="crash")
sound = Harness(tools=[crash], system="talk")

@goal(prompt="Say good.")
def good(trial):
    return trial.answer == "good"
'''


def test_a_place_where_workers_die_is_left_as_invalid_and_the_others_go_on(tmp_path, store):
    file = tmp_path / "deadly.py"
    file.write_text(DEADLY)

    def script(request):
        return calls(("crash", {})) if request["messages"][0]["content"] == "crash" else text("good")

    with ScriptedServer(script) as server:
        runner = runner_for(file, [server], store)
        trials = run(runner)
        num_requests = len(server.requests)
    assert {(t.harness, t.achieved) for t in trials} == {("deadly", None), ("sound", True)}
    (lost,) = [t for t in trials if t.harness == "deadly"]
    assert lost.stop_reason == "invalid"
    assert lost.not_scored == f"its worker process died {MAX_DEATHS} times; the last one ended with exit code 7"
    assert num_requests == MAX_DEATHS + 1
    assert lost.harness_hash == runner.plan.arm("deadly").hash


def test_a_consumer_that_stops_gets_no_more_trials_and_no_process_is_left(tmp_path, store):
    file = write_file(tmp_path)
    pulled = []

    def slots(plan):
        for slot in plan.slots():
            pulled.append(slot)
            yield slot

    with ScriptedServer(dice) as server:
        runner = runner_for(file, [server], store, num_trials=50, num_workers=2)
        given = runner.run(slots(runner.plan))
        list(islice(given, 3))
        workers = living_workers(file, but=0)
        given.close()
    assert len(pulled) <= 3 + 2, "no more than there are workers"
    assert 1 <= len(workers) <= 2
    wait_until_gone(workers)
    assert len(store.trials(runner.plan.id)) == 3


def test_a_file_that_changes_under_way_ends_the_measurement(tmp_path, store):
    file = write_file(tmp_path)
    with ScriptedServer(dice) as server:
        runner = runner_for(file, [server], store)
        file.write_text(file.read_text().replace('system="B"', 'system="B!"'))
        with pytest.raises(UserError, match="harness B is not what it was when the measurement began"):
            run(runner)


WORKSPACE = """
from pathlib import Path
from daneel import Harness, SafetyPolicy, goal
from daneel.tools import read_file, write_file

def fill(workspace):
    (workspace / "in.txt").write_text("milk")
    (workspace / "locked").mkdir()

harness = Harness(tools=[read_file("."), write_file(".")], safety=SafetyPolicy(allow=["write"]))

@goal(prompt="Copy in.txt to out.txt.", setup=fill)
def copied(trial):
    assert Path.cwd() == trial.workspace.resolve()
    text = (trial.workspace / "out.txt").read_text() if (trial.workspace / "out.txt").exists() else None
    (trial.workspace / "locked").chmod(0)
    return text == "milk" and sorted(path.name for path in trial.workspace.iterdir()) == ["in.txt", "locked", "out.txt"]

@goal(prompt="Where are you?")
def here(trial):
    return trial.workspace is None and Path.cwd() == Path(PLACE)
"""


def test_each_trial_of_a_goal_with_a_set_up_has_a_fresh_folder_that_its_tools_work_in(tmp_path, store, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "copy.py"
    file.write_text(f"PLACE = {str(tmp_path)!r}\n" + WORKSPACE)

    def script(request):
        said = request["messages"][-1]
        if said["role"] == "tool":
            return text("Done.")
        writes = calls(("write_file", {"path": "out.txt", "content": "milk"}))
        return writes if "Copy" in said["content"] else text("Here.")

    with ScriptedServer(script) as server:
        trials = run(runner_for(file, [server], store, num_trials=3))
    assert [(t.goal, t.achieved, t.not_scored) for t in trials] == [("copied", True, None), ("here", True, None)] * 3
    assert not (tmp_path / "out.txt").exists()


def test_a_server_that_fails_for_good_ends_the_measurement_early(tmp_path, store):
    with ScriptedServer(lambda _: error(500, "out of memory")) as server:
        runner = runner_for(write_file(tmp_path), [server], store, num_trials=50)
        with pytest.raises(UserError, match=f"{MAX_BARREN} places in a row could not be tried at all.*out of memory"):
            run(runner)
    stored = store.trials(runner.plan.id)
    assert {t.achieved for t in stored} == {None}
    assert len(stored) == MAX_BARREN * 4, "each with its reruns"


def test_workers_begin_with_different_servers_and_another_steps_in_for_one_that_is_down(tmp_path, store):
    file = write_file(tmp_path)
    with ScriptedServer(dice) as first:
        with ScriptedServer(dice) as second:
            runner = runner_for(file, [first, second], store, num_trials=4, num_workers=2)
            both = run(runner)
            assert {t.server for t in both} == {first.url, second.url}
        again = replace(runner.plan, id="m_again")
        one = list(WorkersRunner(plan=again, store=store, servers=runner.servers, num_workers=2).run(again.slots()))
    assert seen(one) == seen(both)
    assert {t.server for t in one} == {first.url}


def test_ctrl_c_gives_what_was_under_way_as_cancelled_and_ends_every_worker(tmp_path, store):
    file = write_file(tmp_path)
    waiting = threading.Semaphore(0)

    def script(request):
        waiting.release()
        return raw(HANG)

    def interrupt():
        assert waiting.acquire(timeout=120)
        assert waiting.acquire(timeout=120)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    with ScriptedServer(script) as server:
        runner = runner_for(file, [server], store, num_trials=5, num_workers=2)
        threading.Thread(target=interrupt).start()
        trials = runner.run(runner.plan.slots())
        given = [next(trials), next(trials)]
        with pytest.raises(KeyboardInterrupt):
            next(trials)
    assert [t.stop_reason for t in given] == ["cancelled"] * 2
    assert store.trials(runner.plan.id) == given
    wait_until_gone(living_workers(file, but=0))


def test_workers_that_never_get_ready_are_an_error_and_not_a_loop(tmp_path, store, monkeypatch):
    file = write_file(tmp_path)
    with ScriptedServer(dice) as server:
        runner = runner_for(file, [server], store)
        monkeypatch.setenv("PYTHONHOME", str(tmp_path / "nowhere"))
        with pytest.raises(UserError, match="worker processes do not start: 5 in a row"):
            run(runner)
    assert store.trials(runner.plan.id) == []
