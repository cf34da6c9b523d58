"""Labels beside stored runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from daneel.errors import UserError
from daneel.harness.labels import Label, LabelStore
from daneel.harness.transcript import TranscriptStore


def test_the_last_label_counts_and_each_detector_has_its_own(tmp_path: Path) -> None:
    store = LabelStore(tmp_path / "t.db")
    assert store.all() == {}
    for label in (
        Label("a", "any", True),
        Label("a", "cycle", False),
        Label("b", "any", True, "why"),
        Label("a", "any", False),
    ):
        store.add(label)
    assert store.all() == {"a": {"any": False, "cycle": False}, "b": {"any": True}}


def test_labels_live_in_the_transcripts_own_file(tmp_path: Path) -> None:
    with TranscriptStore(tmp_path / "t.db") as runs:
        LabelStore(runs.path).add(Label("a", "any", True))
        runs.begin("a", {})
        assert LabelStore(runs.path).all() == {"a": {"any": True}}
    with TranscriptStore(tmp_path / "t.db") as runs:
        assert [run.id for run in runs.runs()] == ["a"]


def test_a_file_that_is_none_is_said(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    path.write_text("not a database, but long enough to be looked at as one" * 20)
    with pytest.raises(UserError, match=r"t\.db"):
        LabelStore(path).all()
