"""The hash of weights is right, remembered, and forgotten when the file changes."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from daneel.server.models import digest
from daneel.server.models.digest import weights_digest
from daneel.server.models.progress import Silent


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DANEEL_CACHE_DIR", str(tmp_path / "cache"))


def _file(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def test_one_file_is_its_own_hash_and_shards_the_hash_of_theirs(tmp_path: Path) -> None:
    first, second = _file(tmp_path / "a", b"one"), _file(tmp_path / "b", b"two")
    ones, twos = hashlib.sha256(b"one").hexdigest(), hashlib.sha256(b"two").hexdigest()
    assert weights_digest([first], Silent()) == ones
    assert weights_digest([first, second], Silent()) == hashlib.sha256((ones + twos).encode()).hexdigest()
    assert weights_digest([second, first], Silent()) != weights_digest([first, second], Silent())


def test_a_file_is_read_once_until_it_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _file(tmp_path / "a", b"one")
    read: list[Path] = []
    original = digest.sha256_of
    monkeypatch.setattr(digest, "sha256_of", lambda path, *rest: (read.append(path), original(path, *rest))[1])
    assert weights_digest([path], Silent()) == weights_digest([path], Silent())
    assert len(read) == 1
    _file(path, b"two")
    os.utime(path, ns=(1, 1))
    assert weights_digest([path], Silent()) == hashlib.sha256(b"two").hexdigest()
    assert len(read) == 2


@pytest.mark.parametrize("damage", [b"", b"[]", b'{"a": 1}', b"\xff", b"[" * 100_000])
def test_a_damaged_memory_is_no_memory(tmp_path: Path, damage: bytes) -> None:
    path = _file(tmp_path / "a", b"one")
    wanted = weights_digest([path], Silent())
    memory = next((tmp_path / "cache").rglob("digests.json"))
    memory.write_bytes(damage)
    assert weights_digest([path], Silent()) == wanted


def test_a_file_that_cannot_be_read_has_no_hash(tmp_path: Path) -> None:
    assert weights_digest([tmp_path / "missing"], Silent()) is None


def test_a_memory_that_cannot_be_written_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where the folder should be")
    assert weights_digest([_file(tmp_path / "a", b"one")], Silent()) == hashlib.sha256(b"one").hexdigest()
