"""`files_of`: whatever a run has left in its workspace is read, and nothing outside of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from daneel.bench import end_state
from daneel.bench.end_state import files_of


def test_files_by_their_path(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "deep" / "er" / "b.txt").write_text("Tromsø")
    assert files_of(tmp_path) == {"a.txt": "a", "deep/er/b.txt": "Tromsø"}


def test_no_workspace_has_no_files(tmp_path: Path) -> None:
    assert files_of(None) == {}
    assert files_of(tmp_path / "gone") == {}


def test_what_is_no_plain_text_is_named_and_never_read(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.txt").write_text("secret")
    (workspace / "link.txt").symlink_to(tmp_path / "outside" / "secret.txt")
    (workspace / "folder").symlink_to(tmp_path / "outside")
    (workspace / "loop").symlink_to(workspace)
    (workspace / "nowhere").symlink_to(workspace / "nothing")
    os.mkfifo(workspace / "pipe")
    (workspace / "picture").write_bytes(b"\xff\xd8\xff")
    found = files_of(workspace)
    no_file = dict.fromkeys(("folder", "link.txt", "loop", "nowhere", "pipe"), "<no plain file>")
    assert found == {**no_file, "picture": "<no text>"}


def test_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(end_state, "MAX_FILE_BYTES", 10)
    monkeypatch.setattr(end_state, "MAX_FILES", 2)
    (tmp_path / "fits").write_text("x" * 10)
    (tmp_path / "large").write_text("x" * 11)
    assert files_of(tmp_path) == {"fits": "x" * 10, "large": "<too large>"}
    (tmp_path / "third").write_text("")
    with pytest.raises(ValueError, match="more than 2 files"):
        files_of(tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    (tmp_path / "closed").write_text("x")
    (tmp_path / "closed").chmod(0)
    assert files_of(tmp_path) == {"closed": "<cannot be read: Permission denied>"}
