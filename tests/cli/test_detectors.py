"""`daneel transcripts label` and `replay-detectors`, on runs that were really made."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.scripted_server import calls, text
from tests.support.stage import Stage
from typer.testing import CliRunner

from daneel import Harness, tool
from daneel.cli.main import app
from daneel.errors import UserError
from daneel.harness.transcript import TranscriptStore


@tool
def look() -> str:
    """Look."""
    return "nothing"


def invoke(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["transcripts", *arguments])


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A run that was stuck, one that looked twice for a reason, and one that did not."""
    monkeypatch.setenv("DANEEL_DATA_DIR", str(tmp_path / "data"))
    again = calls(("look", {}))
    scripts = {"stuck": [again] * 9, "twice": [again, again, text("done")], "once": [again, text("done")]}
    with Stage() as stage, TranscriptStore() as store:
        return {name: stage.play(script, Harness(tools=[look]), transcript=store)[0].id for name, script in scripts.items()}


def test_without_labels_it_says_what_to_look_at(runs: dict[str, str]) -> None:
    said = invoke("replay-detectors")
    assert "3 runs, 0 of them labelled, 2 with a firing" in said.stdout
    report = json.loads(invoke("replay-detectors", "--json").stdout)
    assert set(report["fired_unlabelled"]) == {runs["stuck"], runs["twice"]}
    assert {firing["grade"] for firing in report["firings"][runs["stuck"]]} == {"note", "hide", "stop"}


def test_precision_and_recall_over_labelled_runs(runs: dict[str, str]) -> None:
    for name, answer in (("stuck", "yes"), ("twice", "no"), ("once", "yes")):
        assert invoke("label", runs[name], answer).exit_code == 0
    assert "not stuck" in invoke("label", runs["once"][:8], "no").stdout  # the last label counts
    report = json.loads(invoke("replay-detectors", "--json").stdout)
    scores = {(row["detector"], row["grade"]): row for row in report["scores"]}
    notes, stops = scores["any", "note"], scores["any", "stop"]
    assert (notes["right"], notes["false_alarms"], notes["quiet"], notes["precision"], notes["recall"]) == (1, 1, 1, 0.5, 1.0)
    assert (stops["precision"], stops["recall"]) == (1.0, 1.0)
    assert (report["false_alarms"], report["missed"]) == ([runs["twice"]], [])
    shown = invoke("replay-detectors").stdout
    assert runs["twice"] in shown
    assert "1.00" in shown
    later = json.loads(invoke("replay-detectors", "--json", "--set", "repeat_note_at=3").stdout)
    assert later["false_alarms"] == []
    alone = json.loads(invoke("replay-detectors", "--json", runs["once"]).stdout)
    assert (alone["runs"], alone["firings"]) == (1, {})


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["label", "nothing", "yes"], "no run"),
        (["label", "last", "yes", "--detector", "x"], "repeated_call"),
        (["replay-detectors", "--set", "x=1"], "repeat_note_at"),
        (["replay-detectors", "--set", "repair=1"], "no threshold"),
        (["replay-detectors", "--set", "repeat_note_at=two"], "whole number"),
        (["replay-detectors", "--set", "repeat_note_at=0"], "at least 1"),
        (["replay-detectors", "nothing"], "no run"),
    ],
)
def test_what_cannot_be_is_said(runs: dict[str, str], arguments: list[str], said: str) -> None:
    result = invoke(*arguments)
    assert isinstance(result.exception, UserError)
    assert said in str(result.exception)
