"""`daneel measure` as a person runs it: report, JSON, exit codes, Ctrl-C; on a scripted peer and on our scripted server."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from tests.support.clock_model import EXPECTED_EFFECTIVENESS, clock_model
from tests.support.dice_model import dice, write_file
from tests.support.scripted_server import HANG, ScriptedServer, calls, error, raw, text

from daneel.bench.effectiveness import summarise
from daneel.bench.plan import inline_plan
from daneel.bench.runners.inline import InlineRunner
from daneel.bench.store import TrialStore
from daneel.bench.trial import identify
from daneel.cli.local_server import LocalServer
from daneel.harness.client import Client
from daneel.harness.files import load
from daneel.harness.run_lock import run_lock

CLOCK = Path(__file__).resolve().parents[2] / "examples" / "clock.py"


def test_the_clock_gives_the_known_effectiveness(daneel):
    with ScriptedServer(clock_model) as server:
        code, out, _ = daneel("measure", str(CLOCK), "--server", server.url, "--trials", "2", "--json", "--seed", "5")
    assert code == 0
    found = json.loads(out)
    numbers = {name: harness["numbers"] for name, harness in found["harnesses"].items()}
    assert {name: n["effectiveness"] for name, n in numbers.items()} == EXPECTED_EFFECTIVENESS
    assert found["harnesses"]["H2"]["tools"][1] == {"name": "my_date", "description": "TODO"}
    assert (found["goal"]["name"], found["base_seed"], found["interrupted"]) == ("now", 5, False)
    assert len(found["trials"]) == 8
    with TrialStore() as store:
        assert [t.run_id for t in store.trials(found["measurement"])] == [t["run_id"] for t in found["trials"]]


def test_transcripts_that_cannot_be_kept_do_not_stop_the_measurement(daneel):
    with TrialStore() as store:
        (store.path.parent / "transcripts.db").write_bytes(b"not a database" * 100)
    with ScriptedServer(clock_model) as server:
        code, out, said = daneel("measure", str(CLOCK), "--server", server.url, "--trials", "1", "--json")
    assert (code, len(json.loads(out)["trials"])) == (0, 4)
    assert "file is not a database; it goes on without transcripts" in said


def test_the_report_tells_a_newcomer_what_was_done(daneel):
    with ScriptedServer(clock_model) as server:
        code, out, _ = daneel("measure", str(CLOCK), "--server", server.url, "--trials", "1", "--show-transcript")
    assert code == 0
    said = " ".join(out.split())
    assert "What's the current date and time?" in said
    assert "my_date “TODO”" in said
    assert "achieved / max(1, turns - 1)" in said
    assert "H2 0.50 1.00 3.0 2.0" in said
    assert "H4 answered 1" in said
    assert "One trial: H1, round 1, goal achieved (4 of 4 scored trials did); 2 turns" in said
    assert "→ get_current_date()" in said
    assert "4 scored trials of one goal on one model (scripted)" in said
    assert "do not show that one harness is better" in said


def test_only_the_harnesses_asked_for_with_the_sampling_asked_for(daneel):
    with ScriptedServer(clock_model) as server:
        code, out, _ = daneel(
            *("measure", str(CLOCK), "--server", server.url, "--trials", "1", "--json", "--goal", "now"),
            *("--harness", "H4", "--harness", "H2", "--temperature", "0.2", "--tool-choice", "required"),
        )
        requests = server.requests
    assert code == 0
    assert list(json.loads(out)["harnesses"]) == ["H4", "H2"]
    assert {request["temperature"] for request in requests} == {0.2}
    first = [len(request["messages"]) == 1 for request in requests]
    assert [request.get("tool_choice") == "required" for request in requests] == first, "first turns only"


def test_the_command_line_changes_what_the_harness_hash_covers(daneel):
    hashes = set()
    for options in ((), ("--temperature", "0"), ("--tool-choice", "required")):
        with ScriptedServer(clock_model) as server:
            _, out, _ = daneel("measure", str(CLOCK), "--server", server.url, "--trials", "1", "--json", "--harness", "H1",
                               *options)  # fmt: skip
        hashes.add(json.loads(out)["harnesses"]["H1"]["hash"])
    assert len(hashes) == 3


def test_nothing_but_the_object_is_on_stdout_whatever_a_harness_prints(tmp_path):
    file = tmp_path / "loud.py"
    file.write_text(
        "import os\n"
        "from daneel import Harness, goal, tool\n"
        "print('loaded')\n"
        "@tool\n"
        "def shout() -> str:\n"
        "    'Shout'\n"
        "    print('from the tool')\n"
        "    os.system('echo from a program')\n"
        "    return 'done'\n"
        "harness = Harness(tools=[shout])\n"
        "@goal(prompt='Shout.')\n"
        "def shouted(trial):\n"
        "    print('from the check')\n"
        "    return bool(trial.calls)\n"
    )
    with ScriptedServer([calls(("shout", {})), text("Done.")]) as server:
        command = [sys.executable, "-m", "daneel", "measure", str(file), "--server", server.url, "--trials", "1", "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["harnesses"]["harness"]["numbers"]["effectiveness"] == 1.0
    for printed in ("loaded", "from the tool", "from a program", "from the check"):
        assert printed in done.stderr


def test_a_goal_never_achieved_is_reported_as_what_it_is(daneel):
    with ScriptedServer(lambda _: text("It is late.")) as server:
        code, out, _ = daneel("measure", str(CLOCK), "--server", server.url, "--trials", "5", "--harness", "H1")
    assert code == 0
    said = " ".join(out.split())
    assert "H1 0.00 0.00 1.0 0.0" in said
    assert "the goal was never achieved; with so few trials, the true E may still be up to 0.52" in said


def test_when_no_trial_can_be_scored_there_is_no_number_and_exit_1(daneel):
    with ScriptedServer(lambda _: error(400, "this model has no chat template")) as server:
        code, out, _ = daneel("measure", str(CLOCK), "--server", server.url, "--trials", "2", "--harness", "H1")
        assert code == 1
        assert "none scored" in out
        assert "0.00" not in out
        assert "8 not scored:" in out, "each trial, and its three reruns"
        assert "this model has no chat template" in " ".join(out.split())
        code, out, _ = daneel("measure", str(CLOCK), "--server", server.url, "--trials", "1", "--harness", "H1", "--json")
    assert code == 1
    assert json.loads(out)["harnesses"]["H1"]["numbers"] is None


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["missing.py"], "no such file"),
        ([str(CLOCK), "--goal", "later"], "there is no goal later; it has now"),
        ([str(CLOCK), "--harness", "H9"], "there is no harness H9"),
        ([str(CLOCK), "--trials", "0"], "--trials must be from 1 to 100000, not 0"),
        ([str(CLOCK), "--trials", "1000000000"], "--trials must be from 1 to 100000, not 1000000000"),
        ([str(CLOCK), "--temperature", "-1"], "temperature must be 0 or more"),
        ([str(CLOCK), "--server", "http://127.0.0.1:9"], "127.0.0.1:9"),
        ([str(CLOCK), "--server", "http://127.0.0.1:9", "--serve", "m"], "exclude each other"),
        ([str(CLOCK), "--tool-choice", "maybe"], "first_tool_choice: 'maybe' is neither"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_2(daneel, arguments, said):
    code, out, err = daneel("measure", *arguments)
    assert code == 2
    assert said in err
    assert "Traceback" not in err
    assert out == ""


def test_a_file_without_a_goal_is_refused_and_of_several_all_are_measured(daneel, tmp_path):
    file = tmp_path / "file.py"
    file.write_text("from daneel import Harness, goal\nharness = Harness()\n")
    assert "has no goal to measure" in daneel("measure", str(file))[2]
    with file.open("a") as more:
        more.write("a = goal(prompt='A', name='a')(lambda trial: True)\nb = goal(prompt='B', name='b')(lambda trial: True)\n")
    with ScriptedServer(lambda _: text("yes")) as server:
        code, out, _ = daneel("measure", str(file), "--server", server.url, "--trials", "2", "--json")
    assert code == 0
    assert [(t["goal"], t["index"]) for t in json.loads(out)["trials"]] == [("a", 0), ("b", 0), ("a", 1), ("b", 1)]


def test_ctrl_c_prints_what_is_finished_and_leaves_no_half_written_row(tmp_path):
    at_sixth_request = threading.Event()

    def script(request):
        if len(server.requests) < 6:
            return text("It is late.")
        at_sixth_request.set()
        return raw(HANG)

    with ScriptedServer(script) as server:
        command = [sys.executable, "-m", "daneel", "measure", str(CLOCK), "--server", server.url, "--trials", "9", "--json"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            assert at_sixth_request.wait(60)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
        assert process.returncode == 130, err
    assert "Traceback" not in err
    found = json.loads(out)
    assert found["interrupted"] is True
    stored = TrialStore(Path(os.environ["DANEEL_DATA_DIR"]) / "trials.db").trials(found["measurement"])
    assert [trial.stop_reason for trial in stored] == ["answered"] * 5 + ["cancelled"]
    assert [trial["run_id"] for trial in found["trials"]] == [trial.run_id for trial in stored]
    assert sum(harness["num_scored"] for harness in found["harnesses"].values()) == 5


def interrupted(file, script, *options, after):
    """A measurement that got Ctrl-C when a request of this number came: its JSON."""
    reached = threading.Event()

    def until(request):
        if len(server.requests) < after:
            return script(request)
        reached.set()
        return raw(HANG)

    with ScriptedServer(until) as server:
        command = [sys.executable, "-m", "daneel", "measure", str(file), "--server", server.url, "--json", *options]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            assert reached.wait(120)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    return json.loads(out)


def test_resume_runs_what_is_left_and_nothing_twice(daneel, tmp_path):
    file = write_file(tmp_path)
    first = interrupted(file, dice, "--trials", "4", "--seed", "9", "--temperature", "0.3", after=8)
    num_before = len(first["trials"])
    assert 1 < num_before < 8
    assert [t["stop_reason"] for t in first["trials"]][-1] == "cancelled"
    with ScriptedServer(dice) as server:
        code, out, err = daneel("measure", "--resume", first["measurement"][:8], "--server", server.url, "--json")
        requests = server.requests
    assert code == 0, err
    found = json.loads(out)
    assert found["measurement"] == first["measurement"]
    assert found["trials"][: num_before - 1] == first["trials"][:-1]
    scored = [(t["harness"], t["index"]) for t in found["trials"] if t["achieved"] is not None]
    assert sorted(scored) == [(name, index) for name in "AB" for index in range(4)]
    assert {request["temperature"] for request in requests} == {0.3}, "as it was planned"
    with ScriptedServer(dice) as server:
        code, out, _ = daneel("measure", "--resume", "last", "--server", server.url, "--json")
        assert server.requests == [], "there is nothing left"
    assert (code, json.loads(out)["trials"]) == (0, found["trials"])


def test_resume_refuses_what_would_not_be_the_same_measurement(daneel, tmp_path):
    file = write_file(tmp_path)
    with ScriptedServer(dice) as server:
        code, out, _ = daneel("measure", str(file), "--server", server.url, "--trials", "1", "--json")
        assert code == 0
        resume = ("measure", "--resume", json.loads(out)["measurement"], "--server", server.url)
        source = file.read_text()
        for old, new, said in (
            ('"rolled"', '"rolled!"', "harness A has changed since (tool roll); measure it anew"),
            ('system="B"', 'system="C"', "harness B has changed since (system); measure it anew"),
            ('== "good"', '== "bad"', "goal lucky has changed since (check); measure it anew"),
        ):
            file.write_text(source.replace(old, new))
            code, _, err = daneel(*resume)
            assert (code, said in err) == (2, True), err
        file.write_text(source)
        assert "give no files" in daneel(*resume, "--seed", "3")[2]
        assert "no measurement with an id that starts with 'm_nothing'" in daneel("measure", "--resume", "m_nothing")[2]
        other = error(200, {"data": [{"id": "scripted", "owned_by": "vllm", "max_model_len": 7}]})
        with ScriptedServer(dice, models=other) as elsewhere:
            code, _, err = daneel(*resume[:-1], elsewhere.url)
        assert code == 2
        assert "serves another model than measurement" in err
        assert "max_model_len was None, is 7" in err
        with run_lock(f"measurement {resume[2]}"):
            code, _, err = daneel(*resume)
        assert (code, "is under way" in err) == (2, True)


def test_without_a_file_or_something_to_resume_that_is_said(daneel):
    code, _, err = daneel("measure")
    assert code == 2
    assert "no harness file is given; or give --resume ID" in err


def test_a_goal_whose_check_passes_its_known_fail_is_not_measured(daneel, tmp_path):
    file = tmp_path / "file.py"
    file.write_text(
        "from daneel import Harness, goal\nharness = Harness()\n"
        "@goal(prompt='Say yes.', known_fail=lambda workspace: 'no')\ndef yes(trial):\n    return True\n"
    )
    with ScriptedServer([]) as server:
        code, _, err = daneel("measure", str(file), "--server", server.url)
    assert code == 2
    assert "goal yes: its check passes its known fail" in err
    with TrialStore() as store:
        assert store.plans() == []


def test_sigterm_ends_it_as_ctrl_c_does_with_its_own_exit_code(tmp_path):
    waiting = threading.Event()

    def script(request):
        waiting.set()
        return raw(HANG)

    with ScriptedServer(script) as server:
        command = [sys.executable, "-m", "daneel", "measure", str(CLOCK), "--server", server.url]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            assert waiting.wait(120)
            process.send_signal(signal.SIGTERM)
            out, err = process.communicate(timeout=120)
    assert process.returncode == 143, err
    assert "To go on: daneel measure --resume m_" in out


def test_sigterm_before_the_first_trial_has_the_same_exit_code(tmp_path):
    here = tmp_path / "here"
    file = tmp_path / "slow.py"
    file.write_text(
        "import pathlib, time\nfrom daneel import Harness, goal\nharness = Harness()\n"
        f"def fill(workspace):\n    pathlib.Path({str(here)!r}).touch()\n    time.sleep(120)\n"
        "@goal(prompt='p', setup=fill)\ndef g(trial):\n    return True\n"
    )
    command = [sys.executable, "-m", "daneel", "measure", str(file), "--server", "http://127.0.0.1:9"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 120
        while not here.exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=120)
    assert process.returncode == 143, err
    assert out == ""
    assert "Traceback" not in err


def test_when_the_servers_are_gone_it_stops_early_and_says_how_to_go_on(daneel):
    with ScriptedServer(lambda _: error(500, "out of memory")) as server:
        code, _, err = daneel("measure", str(CLOCK), "--server", server.url, "--trials", "50")
        assert len(server.requests) < 100
    assert code == 2
    assert "out of memory" in err
    assert "daneel measure --resume m_" in err


class ScriptingClient(Client):
    """Sends with each request what the scripted engine is to say to it: the clock model's reply, as a family writes it."""

    def chat(self, messages, *, tools=(), params=None, **more):
        message = clock_model({"messages": messages, "tools": tools}).message
        written = [message["content"] or ""] + [
            f'<tool_call>\n{{"name": "{call["function"]["name"]}", "arguments": {call["function"]["arguments"]}}}\n</tool_call>'
            for call in message.get("tool_calls", [])
        ]
        return super().chat(messages, tools=tools, params={**(params or {}), "script": "".join(written)}, **more)


def test_the_clock_gives_the_known_effectiveness_through_our_own_server(tmp_path):
    held = load(CLOCK)
    (tmp_path / "empty.jsonl").write_text("")
    with (
        LocalServer(tmp_path / "empty.jsonl", engine="scripted") as url,
        ScriptingClient(url) as client,
        TrialStore() as store,
    ):
        model = identify(client)
        plan = inline_plan(held.harnesses, list(held.goals.values()), model, num_trials=2, base_seed=1)
        runner = InlineRunner(harnesses=held.harnesses, goals=held.goals, client=client, model=model, store=store)
        trials = list(runner.run(plan.slots()))
    found = {name: summarise([t for t in trials if t.harness == name]).numbers for name in held.harnesses}
    assert {name: numbers.effectiveness for name, numbers in found.items()} == EXPECTED_EFFECTIVENESS
    assert {trial.stop_reason for trial in trials} == {"answered"}
    assert all(trial.prompt_tokens and trial.completion_tokens for trial in trials)
