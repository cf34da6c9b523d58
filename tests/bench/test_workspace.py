"""Workspaces: fresh each time, always at the same place, and gone at the end, whatever a trial did to them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from daneel import goal
from daneel.bench.workspace import WorkFolder
from daneel.errors import UserError


@goal(prompt="p", setup=lambda workspace: (workspace / "in.txt").write_text("milk"))
def filled(trial):
    return True


def test_every_trial_finds_what_the_set_up_made_and_nothing_else(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    seen = []
    with WorkFolder() as folder:
        for _ in range(3):
            with folder.filled_by(filled) as workspace:
                assert Path.cwd() == workspace == folder.path
                seen.append((workspace, sorted(path.name for path in workspace.iterdir())))
                (workspace / "in.txt").write_text("spoiled")
                (workspace / "more").mkdir()
                (workspace / "more" / "out.txt").write_text("x")
            assert Path.cwd() == tmp_path
    assert len(set(map(str, seen))) == 1
    assert seen[0][1] == ["in.txt"]
    assert not seen[0][0].parent.exists()


def test_what_a_trial_left_in_the_way_is_removed(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious.txt").write_text("keep")
    with WorkFolder(tmp_path / "base") as folder:
        with folder.entered() as workspace:
            (workspace / "link").symlink_to(outside)
            (workspace / "locked").mkdir()
            (workspace / "locked" / "file").write_text("x")
            (workspace / "locked").chmod(0)
        with folder.entered() as workspace:
            assert list(workspace.iterdir()) == []
            workspace.rmdir()  # a trial may take away the folder it stands in
            os.symlink(outside, workspace)
        with folder.entered() as workspace:
            assert list(workspace.iterdir()) == []
    assert (outside / "precious.txt").read_text() == "keep"
    assert not (tmp_path / "base").exists()


def test_a_set_up_that_raises_leaves_no_folder_and_no_trial(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    @goal(prompt="p", setup=lambda workspace: 1 / 0)
    def broken(trial):
        return True

    with WorkFolder(tmp_path / "base") as folder:
        with pytest.raises(UserError, match="the set-up of goal broken raised ZeroDivisionError"), folder.filled_by(broken):
            pytest.fail("no trial may run in it")
        assert Path.cwd() == tmp_path
        assert not folder.path.exists()


def test_where_no_folder_can_be_made_that_is_one_sentence(tmp_path):
    (tmp_path / "base").write_text("a file")
    folder = WorkFolder(tmp_path / "base")
    with pytest.raises(UserError, match=r"the folder for trials .* cannot be emptied"), folder.entered():
        pytest.fail("there is no folder")
