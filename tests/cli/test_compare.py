"""`daneel compare` and `daneel gate` as a person or a CI job runs them, on a scripted peer."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading

import pytest
from tests.support.luck_model import HARNESS_FILE, luck_model, said_for
from tests.support.scripted_server import ScriptedServer
from tests.support.trials import make_trial

from daneel.bench.plan import plan_of
from daneel.bench.sources import gather
from daneel.bench.store import TrialStore
from daneel.bench.trial import identify
from daneel.harness.client import Client


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "luck.py"
    path.write_text(HARNESS_FILE)
    return path


@pytest.fixture
def peer():
    with ScriptedServer(luck_model) as server:
        yield server


def stored(file, name, url, num_trials=40) -> str:
    """The id of a measurement of one harness, as `daneel measure` would have left it."""
    sources = gather([file], harnesses=[name])
    with Client(url) as client, TrialStore() as store:
        plan = plan_of(sources, identify(client), kind="measure", num_trials=num_trials, base_seed=1)
        store.add_plan(plan)
        for slot in plan.slots():
            place = {"measurement": plan.id, "index": slot.index, "harness": name, "goal": slot.goal, "seed": slot.seed}
            hashes = {"harness_hash": plan.arms[0].hash, "model_hash": plan.model.hash, "goal_hash": plan.goals[0].hash}
            achieved = said_for(sources.harnesses[name].system, slot.seed) == "yes"
            store.add(make_trial(**place, **hashes, achieved=achieved, turns=1))
    return plan.id


def plain(text: str) -> str:
    return " ".join(text.split())


def test_the_better_harness_is_found_and_the_trials_are_stored(daneel, file, peer):
    code, out, _ = daneel("compare", f"{file}:GOOD", f"{file}:POOR", "--server", peer.url, "--seed", "1")
    said = plain(out)
    assert code == 0
    assert "GOOD is better than POOR" in said
    assert "confidence sequence [+0." in said
    assert "(claimed at 20)" in said
    with TrialStore() as store:
        (plan,) = store.plans(kind="compare")
        trials = store.trials(plan.id)
    assert plan.id in said
    assert {trial.harness for trial in trials} == {"GOOD", "POOR"}
    assert len(trials) < 100, "it stopped long before 200 pairs"


def test_all_harnesses_of_a_file_as_json(daneel, file, peer):
    arms = [f"{file}:{name}" for name in ("POOR", "GOOD", "MIDDLE")]
    code, out, _ = daneel(
        "compare", *arms, "--server", peer.url, "--seed", "1", "--max-pairs", "60", "--json", "--parallel", "2"
    )
    told = json.loads(out)
    assert code == 0
    assert list(told["effectiveness"]) == ["GOOD", "MIDDLE", "POOR"]
    assert {(a["first"], a["second"], a["verdict"]) for a in told["answers"]} == {
        ("POOR", "GOOD", "worse"),
        ("POOR", "MIDDLE", "worse"),
        ("GOOD", "MIDDLE", "better"),
    }
    assert told["decided"] is True
    assert told["interrupted"] is False


def test_stored_measurements_are_compared_by_their_pairs(daneel, file, peer):
    ids = {name: stored(file, name, peer.url, 30) for name in ("GOOD", "POOR")}
    num_requests = len(peer.requests)
    code, out, _ = daneel("compare", ids["POOR"], f"{ids['GOOD']}:GOOD")
    assert (code, len(peer.requests)) == (0, num_requests)
    assert f"{ids['POOR']}:POOR is worse than {ids['GOOD']}:GOOD" in plain(out)
    code, out, _ = daneel("compare", ids["POOR"], ids["GOOD"], "--fixed", "30", "--json")
    (answer,) = json.loads(out)["answers"]
    assert (answer["verdict"], answer["num_pairs"], answer["e_value"]) == ("worse", 30, None)
    code, _, said = daneel("compare", ids["POOR"], ids["GOOD"], "--fixed", "31")
    assert code == 2
    assert "have 30 pairs in common, not 31" in said


def test_arms_that_lose_trials_at_different_rates_get_no_verdict(daneel, file, peer):
    with ScriptedServer(luck_model, owned_by="someone") as server:
        options = ("--server", server.url, "--seed", "1", "--max-pairs", "12")
        code, out, _ = daneel("compare", f"{file}:GOOD", f"{file}:FRAGILE", *options)
    assert code == 1
    assert "no verdict, they lose trials at different rates" in plain(out)
    assert "betting test on the counts" in plain(out)


def test_more_pairs_later(daneel, file, peer):
    options = ("--server", peer.url, "--seed", "4")
    code, out, _ = daneel("compare", f"{file}:GOOD", f"{file}:MIDDLE", *options, "--max-pairs", "8", "--json")
    first = json.loads(out)
    assert (code, first["answers"][0]["verdict"]) == (0, "not known yet")
    num_requests = len(peer.requests)
    code, out, _ = daneel("compare", "--resume", first["measurement"], "--server", peer.url, "--json")
    again = json.loads(out)
    assert len(peer.requests) == num_requests, "what was complete is told again, and nothing is run"
    assert again["answers"] == first["answers"]
    code, out, _ = daneel("compare", "--resume", "last", "--server", peer.url, "--max-pairs", "90", "--json")
    more = json.loads(out)
    assert more["answers"][0]["verdict"] == "better"
    assert more["measurement"] != first["measurement"]
    assert len(peer.requests) == 2 * more["answers"][0]["num_pairs"], "no pair was run twice"
    code, _, said = daneel("compare", "--resume", more["measurement"], "--server", peer.url, "--max-pairs", "3")
    assert code == 2
    assert "it can be given more" in said


def test_ctrl_c_keeps_what_is_stored_and_says_how_to_go_on(file, tmp_path):
    reached = threading.Event()

    def slow(request):
        if len(server.requests) >= 5:
            reached.set()
        return luck_model(request)

    with ScriptedServer(slow) as server:
        command = [sys.executable, "-m", "daneel", "compare", f"{file}:GOOD", f"{file}:ALSO_GOOD", "--server", server.url]
        command += ["--seed", "1", "--max-pairs", "100000"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ, text=True)
        assert reached.wait(100)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=100)
    assert process.returncode == 130, err
    assert "not known yet" in plain(out)
    assert "daneel compare --resume m_" in plain(out)
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "name what to compare"),
        (["nowhere.py", "{file}:GOOD"], "nowhere.py: is neither a harness file"),
        (["{file}:NONE", "{file}:GOOD"], "there is no harness NONE; it has GOOD"),
        (["{file}:GOOD"], "two different harnesses"),
        (["{file}:GOOD", "{file}:GOOD"], "two different harnesses"),
        (["{file}", "--margin", "2"], "margin is a difference in E"),
        (["{file}", "--fixed", "5", "--max-pairs", "6"], "exclude each other"),
        (["{file}", "--max-pairs", "0"], "must be at least 1"),
        (["{file}", "--max-pairs", "1000000000"], "must be at most 100000"),
        (["{file}", "--alpha", "nan"], "alpha must be between 0 and 1"),
        (["{file}", "--against", "NONE"], "there is no harness NONE"),
        (["{file}", "--goal", "none"], "there is no goal none"),
        (["m_00", "m_11"], "no measurement with an id that starts with 'm_00'"),
        (["m_00", "m_11", "--seed", "1"], "nothing is run"),
        (["m_00", "m_11", "m_22"], "two at a time"),
        (["{file}", "--resume", "m_00"], "give nothing but --max-pairs"),
        (["--resume", "m_00"], "no measurement with an id"),
    ],
)
def test_what_cannot_be_compared_is_said_before_anything_is_run(daneel, file, arguments, said):
    code, _, err = daneel("compare", *(argument.format(file=file) for argument in arguments))
    assert code == 2
    assert said in err
    assert "Traceback" not in err


def test_a_comparison_is_resumed_only_with_what_it_was_begun_with(daneel, file, peer):
    daneel("compare", f"{file}:GOOD", f"{file}:MIDDLE", "--server", peer.url, "--seed", "4", "--max-pairs", "2")
    file.write_text(HARNESS_FILE.replace("0.95", "0.96"))
    code, _, err = daneel("compare", "--resume", "last", "--server", peer.url)
    assert code == 2
    assert "harness GOOD has changed since (system)" in err


# --- gate ----------------------------------------------------------------------------------------------------------------


@pytest.fixture
def baseline(file, peer) -> str:
    return stored(file, "GOOD", peer.url)


def test_the_gate_fails_on_a_regression_that_is_shown(daneel, file, peer, baseline):
    command = ("gate", f"{file}:GOOD", "--baseline", baseline, "--server", peer.url)
    code, out, _ = daneel(*command, "--max-pairs", "10")
    assert (code, "passed" in out, len(peer.requests)) == (0, True, 10)
    file.write_text(HARNESS_FILE.replace('GOOD = Harness(system="yes 0.95")', 'GOOD = Harness(system="yes 0.1")'))
    code, out, _ = daneel("gate", f"{file}:GOOD", "--baseline", "last", "--server", peer.url)
    assert code == 1
    assert f"GOOD is worse than {baseline}:GOOD" in plain(out)
    assert "failed" in out
    assert len(peer.requests) - 10 < 30, "it stopped when it was shown"


def test_the_gate_may_ask_that_it_is_shown_to_be_no_worse(daneel, file, peer, baseline):
    options = ("--baseline", baseline, "--server", peer.url, "--noninferior", "0.2")
    code, out, _ = daneel("gate", f"{file}:ALSO_GOOD", *options, "--json")
    assert (code, json.loads(out)["passed"], json.loads(out)["answers"][0]["verdict"]) == (0, True, "not inferior")
    code, out, _ = daneel("gate", f"{file}:ALSO_GOOD", *options, "--max-pairs", "3", "--json")
    assert (code, json.loads(out)["passed"], json.loads(out)["answers"][0]["verdict"]) == (1, False, "not known yet")


def test_a_baseline_of_another_model_or_goal_is_refused(daneel, file, peer, baseline):
    num_requests = len(peer.requests)
    with ScriptedServer(luck_model, owned_by="someone") as other:
        code, _, err = daneel("gate", f"{file}:GOOD", "--baseline", baseline, "--server", other.url, "--model", "other")
    assert code == 2
    assert "was measured on another model" in err
    file.write_text(HARNESS_FILE.replace("Say yes.", "Say yes!"))
    code, _, err = daneel("gate", f"{file}:GOOD", "--baseline", baseline, "--server", peer.url)
    assert code == 2
    assert f"goal says_yes is not what it was in {baseline}:GOOD (prompt, check)" in err
    assert len(peer.requests) == num_requests


def test_a_gate_without_a_baseline_is_refused(daneel, file, peer):
    code, _, err = daneel("gate", f"{file}:GOOD", "--baseline", "last", "--server", peer.url)
    assert code == 2
    assert "holds no measurement that `daneel measure` made" in err
