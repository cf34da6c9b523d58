"""`daneel report` as a person runs it, on a measurement of the scripted clock and on a run by itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.support.clock_model import clock_model
from tests.support.scripted_server import ScriptedServer

from daneel.bench.store import TrialStore

CLOCK = Path(__file__).resolve().parents[2] / "examples" / "clock.py"


def test_a_measurement_as_html_markdown_and_json(daneel, tmp_path):
    with ScriptedServer(clock_model) as server:
        options = ("--harness", "H1", "--harness", "H2", "--trials", "2", "--json", "--seed", "5")
        _, out, _ = daneel("measure", str(CLOCK), "--server", server.url, *options)
    measured = json.loads(out)
    name, runs = measured["measurement"], [trial["run_id"] for trial in measured["trials"]]
    assert measured["harnesses"]["H2"]["lost_turns"]["losses"][0]["cause"] == "other"

    file = tmp_path / "out.html"
    file.write_text("what was there before")
    code, out, said = daneel("report", name, "--html", str(file), "--transcripts", "3")
    assert (code, out) == (0, "")
    assert "2 versions, 3 transcripts" in said
    html = file.read_text()
    for part in ("0.50 [", "my_date", f'id="run-{runs[0]}"', "1 more runs are counted", "+tool my_date: TODO"):
        assert part in html, part
    assert [each.name for each in tmp_path.iterdir() if each.name.startswith(".out.html")] == []

    code, out, _ = daneel("report", name, "--markdown")
    assert code == 0
    assert "**H2 − H1**: dE -0.500 = +0.000 more goals achieved, -0.500 fewer turns when achieved" in out
    assert "+tool my_date: TODO" in out

    code, out, _ = daneel("report", name[:6], "--json")
    found = json.loads(out)
    assert [version["goals"]["effectiveness"] for version in found["versions"]] == [1.0, 0.5]
    assert found["versions"][1]["lost"]["losses"][0]["cause"] == "other"
    assert found["versions"][1]["tools"]["my_date"]["calls"] == 2
    assert {run["id"] for run in found["runs"]} == set(runs)
    assert found["findings"][0]["evidence"][0]["command"].startswith("daneel transcripts show")

    code, out, _ = daneel("report", runs[0], "--json")
    (version,) = json.loads(out)["versions"]
    assert (version["summary"], version["measurement"], version["num_runs"]) == (None, None, 1)

    _refused_when_the_goal_was_changed(daneel, name)


def _refused_when_the_goal_was_changed(daneel, name):
    with TrialStore() as store:
        plan, trials = store.plan(name), store.trials(name)
        goal = replace(plan.goals[0], prompt="What day is it?", hash="another")
        store.add_plan(replace(plan, id="m_other", goals=[goal]))
        for trial in trials:
            store.add(replace(trial, measurement="m_other", goal_hash="another"))
    code, out, said = daneel("report", name, "m_other", "--json")
    assert (code, out) == (2, "")
    assert f"goal now is not the same in {name}:H1" in said
    assert "+prompt: What day is it?" in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("m_1",), "--html FILE, --markdown or --json"),
        (("m_1", "--json", "--markdown"), "one of the three"),
        (("m_1", "--json", "--transcripts", "-1"), "--transcripts must be 0 or more, not -1"),
        (("m_1", "--json"), "no"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_sentence(daneel, arguments, said):
    code, out, err = daneel("report", *arguments)
    assert (code, out) == (2, "")
    assert said in err
    assert "Traceback" not in err


def test_a_file_that_cannot_be_written_leaves_nothing(tmp_path):
    from daneel.cli.report import _write
    from daneel.errors import UserError

    with pytest.raises(UserError, match="cannot write"):
        _write(tmp_path / "no such folder" / "out.html", "x")
    (tmp_path / "folder.html").mkdir()
    with pytest.raises(UserError, match="cannot write"):
        _write(tmp_path / "folder.html", "x")
    assert [each.name for each in tmp_path.iterdir()] == ["folder.html"]
