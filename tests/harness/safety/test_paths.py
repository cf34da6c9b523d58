"""No path leads out of a workspace: every escape is refused, by every tool, and nothing outside has changed afterwards."""

from __future__ import annotations

import hashlib
import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from daneel.errors import UserError
from daneel.harness.raised import ToolFailure
from daneel.harness.safety.paths import PathRefused, Workspace, parts_of
from daneel.tools import edit_file, list_files, read_file, search_text, write_file

SECRET = "the secret outside"


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A little host: a workspace among other folders, with links that lead out of it."""
    root = tmp_path_factory.mktemp("host")
    (root / "etc").mkdir()
    (root / "etc" / "passwd").write_text(SECRET)
    (root / "work2").mkdir()
    (root / "work2" / "passwd").write_text(SECRET)
    work = root / "work"
    (work / "sub").mkdir(parents=True)
    (work / "inside.txt").write_text("inside")
    (work / "sub" / "deep.txt").write_text("deep")
    os.symlink(root / "etc" / "passwd", work / "link.txt")
    os.symlink("../etc", work / "linkdir")
    os.symlink("/", work / "rootlink")
    os.symlink("..", work / "sub" / "up")
    os.symlink("/proc/self/root", work / "proc")
    os.symlink("inside.txt", work / "inner-link.txt")
    os.symlink("nowhere/new.txt", work / "dangling.txt")
    os.mkfifo(work / "pipe")
    return root


def snapshot(root: Path) -> dict[str, Any]:
    """Every name under the root, with what it is and what it holds."""
    found: dict[str, Any] = {}
    for parent, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = Path(parent, name)
            status = path.lstat()
            content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() and not path.is_symlink() else None
            link = os.readlink(path) if path.is_symlink() else None
            found[str(path.relative_to(root))] = (status.st_mode, status.st_size, link, content)
    return found


ESCAPES = [
    "..",
    "../etc/passwd",
    "../work2/passwd",
    "sub/../../etc/passwd",
    "./../etc/passwd",
    "sub/../../work/../etc/passwd",
    "....//....//etc/passwd",
    "..//etc/passwd",
    "/etc/passwd",
    "//etc/passwd",
    " /etc/passwd",
    "/proc/self/root/etc/passwd",
    "/PROC/self/root/etc/passwd",
    "proc/etc/passwd",
    "proc/self/root/etc/passwd",
    "~/.ssh/id_rsa",
    "~root/.bashrc",
    "C:/Windows/win.ini",
    "c:\\windows\\win.ini",
    "..\\etc\\passwd",
    "sub\\..\\..\\etc\\passwd",
    "link.txt",
    "linkdir/passwd",
    "LINKDIR/../../etc/passwd",
    "rootlink/etc/passwd",
    "sub/up/inside.txt",
    "sub/up/../etc/passwd",
    "inner-link.txt",
    "dangling.txt",
    "\u2025/etc/passwd",
    "\u2024\u2024/etc/passwd",
    "\uff0e\uff0e/etc/passwd",
    "..\uff0fetc\uff0fpasswd",
    "\uff0fetc/passwd",
    "..\u2215etc\u2215passwd",
    "..\u2044etc",
    "sub\uff3c..\uff3c..",
    "\u2026/etc",
    ".\u200b./etc/passwd",
    "..\u200b/etc/passwd",
    "\u202e../etc",
    ".\x00./etc/passwd",
    "../etc/passwd\x00.txt",
    "inside.txt\x00",
    "..\n/etc/passwd",
    "\ufeff../etc/passwd",
    ". ./etc",
    ".. /etc/passwd",
    " .. /etc/passwd",
]


def calls(root: Path, path: str) -> Iterator[Any]:
    """Every built-in tool that takes a path, with this one."""
    yield lambda: read_file(root).function(path=path)
    yield lambda: write_file(root).function(path=path, content="overwritten")
    yield lambda: edit_file(root).function(path=path, old_text="secret", new_text="overwritten")
    yield lambda: list_files(root).function(folder=path)
    yield lambda: search_text(root).function(text="secret", folder=path)


@pytest.mark.parametrize("path", ESCAPES)
def test_an_escape_is_refused_by_every_tool(host: Path, path: str) -> None:
    before = snapshot(host)
    for call in calls(host / "work", path):
        with pytest.raises(ToolFailure) as failed:
            call()
        assert SECRET not in str(failed.value)
        assert str(host) not in str(failed.value), "an error tells nothing of the host's folders"
    assert snapshot(host) == before


PIECES = "..|.|/|//|\\|~|sub|linkdir|rootlink|proc|self|root|etc|passwd|link.txt|inside.txt|up|LINK.TXT|..%2f| |\n|\x00|\u200b"
LOOKALIKES = ["\u2025", "\uff0e", "\u2024", "\uff0f", "\u2215"]
hostile = st.lists(st.sampled_from([*PIECES.split("|"), *LOOKALIKES]), min_size=1, max_size=8).map("".join)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(path=hostile | st.text(max_size=30))
def test_whatever_the_path_nothing_outside_is_read_or_changed(host: Path, path: str) -> None:
    outside = {name: value for name, value in snapshot(host).items() if not name.startswith("work/")}
    for call in calls(host / "work", path):
        try:
            said = call()
        except ToolFailure as failure:
            said = str(failure)
        assert SECRET not in said
    assert {name: value for name, value in snapshot(host).items() if not name.startswith("work/")} == outside


@given(st.text(max_size=60))
def test_parts_are_plain_names(path: str) -> None:
    try:
        parts = parts_of(path)
    except PathRefused:
        return
    for part in parts:
        assert part not in ("", ".", "..")
        assert "/" not in part
        assert "\0" not in part


def test_a_link_put_in_the_way_while_reading_is_never_followed(tmp_path: Path) -> None:
    """A folder that turns into a link and back, over and over: every read is of the inside, or fails."""
    outside, work = tmp_path / "outside", tmp_path / "work"
    outside.mkdir()
    (outside / "file.txt").write_text(SECRET)
    (work / "folder").mkdir(parents=True)
    (work / "folder" / "file.txt").write_text("inside")
    done = threading.Event()

    def swap() -> None:
        while not done.is_set():
            os.rename(work / "folder", work / "kept")
            try:
                os.symlink(outside, work / "folder")
                os.unlink(work / "folder")
            except OSError:
                pass
            while (work / "kept").exists():  # a write may have made the folder anew in between
                try:
                    os.rename(work / "kept", work / "folder")
                except OSError:
                    shutil.rmtree(work / "folder", ignore_errors=True)

    swapper = threading.Thread(target=swap)
    swapper.start()
    place = Workspace.at(work)
    seen: set[str] = set()
    try:
        for _ in range(1500):
            try:
                seen.add(place.read("folder/file.txt", max_bytes=100).decode())
            except ToolFailure as failure:
                seen.add(type(failure).__name__)
            try:
                place.write("folder/new.txt", b"new")
            except ToolFailure:
                seen.add("not written")
    finally:
        done.set()
        swapper.join()
    assert SECRET not in seen
    assert "inside" in seen
    assert len(seen) > 1, "the race was never run"
    assert sorted(os.listdir(outside)) == ["file.txt"]


def test_writing_through_a_hard_link_leaves_the_other_name_as_it_was(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (tmp_path / "outside.txt").write_text("before")
    os.link(tmp_path / "outside.txt", work / "same.txt")
    write_file(work).function(path="same.txt", content="after")
    assert (work / "same.txt").read_text() == "after"
    assert (tmp_path / "outside.txt").read_text() == "before"


def test_a_named_pipe_does_not_hold_a_read_up(host: Path) -> None:
    with pytest.raises(ToolFailure, match="not a plain file"):
        read_file(host / "work").function(path="pipe")


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.txt").write_text("old")

    def full(*_: Any) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(ToolFailure, match="No space left"):
        Workspace.at(tmp_path).write("a.txt", b"new")
    monkeypatch.undo()
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"a.txt": "old"}


@pytest.mark.parametrize(
    ("folder", "said"), [("missing", "there is no such folder"), ("/", "a folder of its own"), ("a.txt", "not a folder")]
)
def test_a_workspace_must_be_a_folder(tmp_path: Path, folder: str, said: str) -> None:
    (tmp_path / "a.txt").touch()
    with pytest.raises(UserError, match=said):
        Workspace.at(folder if folder == "/" else tmp_path / folder)


def test_names_in_other_scripts_are_fine(tmp_path: Path) -> None:
    for name in ("naïve.txt", "メモ.txt", "заметки/план.md", "a b.txt", "café…2.txt", ".hidden", "a..b"):
        write_file(tmp_path).function(path=name, content="x")
        assert "x" in read_file(tmp_path).function(path=name)
