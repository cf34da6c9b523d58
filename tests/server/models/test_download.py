import errno
import hashlib
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.file_server import FileServer, Served

from daneel.errors import UserError
from daneel.server.models.download import UnavailableError, fetch
from daneel.server.models.progress import Silent, SourceError

DATA = random.Random(7).randbytes(600_000)
SHA256 = hashlib.sha256(DATA).hexdigest()


def get(url: str, target: Path, *, sha256: str | None = SHA256, max_bytes: int = 10**7, progress: object = None) -> list[float]:
    pauses: list[float] = []
    fetch(url, target, sha256=sha256, max_bytes=max_bytes, label="x", progress=progress or Silent(), pause=pauses.append)  # type: ignore[arg-type]
    return pauses


def test_a_file_arrives_whole_and_nothing_else_is_left(tmp_path: Path) -> None:
    with FileServer({"/f": Served(DATA)}) as server:
        get(f"{server.url}/f", tmp_path / "f")
    assert (tmp_path / "f").read_bytes() == DATA
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


def test_a_connection_cut_every_64_kb_only_costs_more_connections(tmp_path: Path) -> None:
    with FileServer({"/f": Served(DATA, cut_after=64_000)}) as server:
        pauses = get(f"{server.url}/f", tmp_path / "f")
    assert (tmp_path / "f").read_bytes() == DATA
    assert pauses == []
    starts = [int((request.range or "bytes=0-")[6:-1]) for request in server.requests]
    assert starts[0] == 0
    assert len(starts) >= len(DATA) // 64_000
    assert starts == sorted(set(starts))


@settings(max_examples=15)
@given(cuts=st.lists(st.integers(0, len(DATA)), max_size=5), ranges=st.booleans())
def test_any_cuts_with_or_without_ranges(tmp_path_factory: pytest.TempPathFactory, cuts: list[int], ranges: bool) -> None:
    left = list(cuts)
    answer = lambda: Served(DATA, cut_after=left.pop() if left else None, ranges=ranges)  # noqa: E731
    target = tmp_path_factory.mktemp("cuts") / "f"
    with FileServer({"/f": answer}) as server:
        # at most five barren connections may come in a row, which is more than one call bears
        for _ in range(2):
            try:
                get(f"{server.url}/f", target)
                break
            except UnavailableError:
                continue
    assert target.read_bytes() == DATA


def test_a_later_call_goes_on_from_the_part(tmp_path: Path) -> None:
    (tmp_path / "f.part").write_bytes(DATA[:1000])
    with FileServer({"/f": Served(DATA)}) as server:
        get(f"{server.url}/f", tmp_path / "f")
    assert [request.range for request in server.requests] == ["bytes=1000-"]
    assert (tmp_path / "f").read_bytes() == DATA


def test_a_whole_part_is_not_fetched_again(tmp_path: Path) -> None:
    (tmp_path / "f.part").write_bytes(DATA)
    with FileServer({"/f": Served(DATA)}) as server:
        get(f"{server.url}/f", tmp_path / "f")
    assert (tmp_path / "f").read_bytes() == DATA
    assert len(server.requests) == 1


@pytest.mark.parametrize("part", [b"\0" * 1000, b"\0" * len(DATA), b"\0" * (len(DATA) + 5)])
def test_a_corrupt_part_is_thrown_away_and_fetched_once_more(tmp_path: Path, part: bytes) -> None:
    (tmp_path / "f.part").write_bytes(part)
    with FileServer({"/f": Served(DATA)}) as server:
        get(f"{server.url}/f", tmp_path / "f")
    assert (tmp_path / "f").read_bytes() == DATA


def test_a_server_that_resumes_elsewhere_is_asked_from_the_start(tmp_path: Path) -> None:
    (tmp_path / "f.part").write_bytes(DATA[:1000])
    answers = [Served(DATA, range_shift=7), Served(DATA)]
    with FileServer({"/f": lambda: answers.pop(0)}) as server:
        get(f"{server.url}/f", tmp_path / "f")
    assert [request.range for request in server.requests] == ["bytes=1000-", None]
    assert (tmp_path / "f").read_bytes() == DATA


def test_a_wrong_hash_is_tried_twice_and_leaves_nothing(tmp_path: Path) -> None:
    with FileServer({"/f": Served(b"other")}) as server, pytest.raises(SourceError, match="hash"):
        get(f"{server.url}/f", tmp_path / "f")
    assert len(server.requests) == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("status", "kind"), [(401, UnavailableError), (403, UnavailableError), (404, SourceError)])
def test_a_refusal_ends_it_at_once_with_its_status(tmp_path: Path, status: int, kind: type[Exception]) -> None:
    with FileServer({"/f": Served(b"", status=status)}) as server, pytest.raises(kind, match=str(status)):
        get(f"{server.url}/f", tmp_path / "f")
    assert len(server.requests) == 1


def test_a_server_in_trouble_is_asked_again_with_longer_pauses(tmp_path: Path) -> None:
    answers = [Served(b"", status=503), Served(b"", status=500), Served(DATA)]
    with FileServer({"/f": lambda: answers.pop(0)}) as server:
        assert get(f"{server.url}/f", tmp_path / "f") == [1.0, 2.0]
    with FileServer({"/f": Served(b"", status=503)}) as server, pytest.raises(UnavailableError, match="503"):
        get(f"{server.url}/f", tmp_path / "g")
    assert len(server.requests) == 4


def test_nobody_listening_is_said(tmp_path: Path) -> None:
    with FileServer({}) as server:
        url = server.url
    with pytest.raises(UnavailableError, match=r"127\.0\.0\.1"):
        get(f"{url}/f", tmp_path / "f")


@pytest.mark.parametrize("headers", [{}, {"Content-Length": "10"}])
def test_more_than_expected_is_refused(tmp_path: Path, headers: dict[str, str]) -> None:
    with FileServer({"/f": Served(DATA, headers=headers)}) as server, pytest.raises(SourceError, match=r"bytes|hash"):
        get(f"{server.url}/f", tmp_path / "f", max_bytes=1000)
    assert not (tmp_path / "f").exists()


def test_a_file_url(tmp_path: Path) -> None:
    source = tmp_path / "with space.bin"
    source.write_bytes(DATA)
    (tmp_path / "f.part").write_bytes(DATA[:100])
    get(source.as_uri(), tmp_path / "f")
    assert (tmp_path / "f").read_bytes() == DATA
    with pytest.raises(SourceError, match="cannot read"):
        get((tmp_path / "none").as_uri(), tmp_path / "g")


class FullDisk(Silent):
    """Raises what a write to a full disk raises, when the write would happen."""

    def update(self, label: str, done_bytes: int, total_bytes: int | None) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_is_one_clear_sentence_and_what_came_is_kept(tmp_path: Path) -> None:
    with FileServer({"/f": Served(DATA)}) as server:
        with pytest.raises(UserError, match="the disk is full at"):
            get(f"{server.url}/f", tmp_path / "f", progress=FullDisk())
        assert [path.name for path in tmp_path.iterdir()] == ["f.part"]
        get(f"{server.url}/f", tmp_path / "f")
    assert (tmp_path / "f").read_bytes() == DATA
