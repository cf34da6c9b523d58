"""`daneel diagnose`: findings of stored runs on the terminal and as JSON, each with commands that show its turns."""

from __future__ import annotations

import json
import os
import re
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.support.planted.base import Planted, ScriptClient, is_right
from tests.support.planted.clean import clock
from tests.support.planted.faulty import broken
from tests.support.trials import make_trial

from daneel.bench.store import TrialStore
from daneel.cli.main import main
from daneel.harness.loop import run
from daneel.harness.transcript import TranscriptStore


def daneel(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr("sys.argv", ["daneel", *arguments])
    try:
        main()
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


def store(planted: Planted, measurement: str, *, num: int = 40) -> None:
    with ExitStack() as stack:
        transcripts, trials = stack.enter_context(TranscriptStore()), stack.enter_context(TrialStore())
        client: Any = ScriptClient([planted])
        harness = planted.harness.with_changes(name=planted.name)
        (goal, (prompt, _)), *_ = planted.goals.items()
        for seed in range(num):
            done = run(harness, prompt, client=client, transcript=transcripts, seed=seed, stream=False)
            fields = {"harness": planted.name, "goal": goal, "seed": seed, "run_id": done.id, "turns": done.turns}
            hashed = harness.fingerprint()
            achieved = is_right(done.answer)
            trials.add(make_trial(measurement=measurement, index=seed, achieved=achieved, harness_hash=hashed, **fields))


def test_findings_with_commands_that_show_the_turns(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    store(broken, "m_broken")
    assert daneel(monkeypatch, "diagnose", "m_broken") == 0
    out = capsys.readouterr().out
    assert "always failing: exchange_rate" in out
    assert re.search(r"expected gain in E: \+0\.\d{3}", out)
    assert re.search(r"to test it: about \d+ trials", out)
    commands = re.findall(r"daneel (transcripts show \w+ --turn \d+)", out)
    assert commands
    assert daneel(monkeypatch, *commands[0].split()) == 0
    assert "exchange_rate" in capsys.readouterr().out


def test_json_holds_all_findings(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    store(broken, "m_broken")
    store(clock, "m_clock")
    assert daneel(monkeypatch, "diagnose", "--all", "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert [each["harness"] for each in said["harnesses"]] == ["broken", "clock"]
    (finding,) = said["findings"]
    assert finding["tools"] == ["exchange_rate"]
    assert finding["expected_gain"]["value"] > 0
    assert finding["trials_needed"] > 0
    assert finding["evidence"][0]["command"].startswith("daneel transcripts show")


def test_a_harness_without_fault(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    store(clock, "m_clock")
    assert daneel(monkeypatch, "diagnose", "--last") == 0
    assert "Nothing was found" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "name measurements or runs"),
        (["--all", "--last"], "name measurements or runs"),
        (["m_nothing"], "no measurement or run"),
        (["--all", "--harness", "H9"], "no run of H9"),
    ],
)
def test_what_cannot_be_read_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    store(clock, "m_clock", num=1)
    assert daneel(monkeypatch, "diagnose", *arguments) == 2
    captured = capsys.readouterr()
    assert said in captured.err
    assert not captured.out


def test_without_any_store_it_is_said_and_none_is_made(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert daneel(monkeypatch, "diagnose", "--last") == 2
    assert "there are no runs yet" in capsys.readouterr().err
    assert not Path(os.environ["DANEEL_DATA_DIR"]).exists()
