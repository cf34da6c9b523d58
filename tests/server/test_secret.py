"""The server's secret: made once, kept, and refused when others may know it or it is no secret."""

from __future__ import annotations

import stat
import threading
from pathlib import Path

import pytest

from daneel.errors import UserError
from daneel.server.secret import SECRET_BYTES, read_or_make_secret


def test_it_is_made_once_and_read_from_then_on(tmp_path: Path) -> None:
    path = tmp_path / "cache" / "server.secret"
    secret = read_or_make_secret(path)
    assert len(secret) == SECRET_BYTES
    assert read_or_make_secret(path) == secret
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(path.parent.iterdir()) == [path]
    assert read_or_make_secret(tmp_path / "other.secret") != secret


def test_servers_that_start_together_have_the_same(tmp_path: Path) -> None:
    path, found = tmp_path / "server.secret", []
    threads = [threading.Thread(target=lambda: found.append(read_or_make_secret(path))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(found)) == 1


def test_one_that_others_may_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "server.secret"
    read_or_make_secret(path)
    path.chmod(0o644)
    with pytest.raises(UserError, match=r"mode 0644.*delete it"):
        read_or_make_secret(path)


@pytest.mark.parametrize(("content", "words"), [(b"", "0 bytes"), (b"short", "5 bytes"), (b"x" * 40, "more than 32 bytes")])
def test_one_of_another_size_is_refused(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "server.secret"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(UserError, match=words):
        read_or_make_secret(path)


def test_a_place_where_none_can_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"file/server\.secret cannot be read or made"):
        read_or_make_secret(tmp_path / "file" / "server.secret")
