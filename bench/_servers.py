"""The servers that benches of serving compare: ours, and llama-server as a peer; same model file, threads and context.

Both are children that end with the `with` block that started them, however it ends: an error, Ctrl-C, a kill of the bench.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from daneel.cli.local_server import LocalServer
from daneel.errors import UserError
from daneel.server.engines.llama_model import choose_num_threads
from daneel.server.models import resolve

TEMPLATE = """\
{%- for message in messages -%}
<|im_start|>{{ message.role }}
{{ message.content }}<|im_end|>
{% endfor -%}
{%- if add_generation_prompt -%}
<|im_start|>assistant
{% endif -%}
"""
"""ChatML and nothing else: with the model's own template each server may put in words of its own."""

PEER_READY_S = 300.0
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


class ArmFailed(Exception):
    """An arm did not do its work: there is no figure then. The message says which and why."""


@dataclass(frozen=True)
class Setup:
    """What all arms have in common. A request may have `context_tokens`; each server gets cells for `parallel` such."""

    model: str
    model_path: Path
    threads: int
    context_tokens: int
    parallel: int
    template: Path
    peer: Path | None = None
    peer_args: tuple[str, ...] = ()

    def facts(self) -> dict[str, object]:
        """For the result's JSON, and to tell whether an earlier result is of the same setup. No paths."""
        size = self.model_path.stat().st_size
        return {"model": self.model_path.name, "model_bytes": size, "threads": self.threads, "context": self.context_tokens}


def add_options(options: argparse.ArgumentParser, *, peer: bool = True) -> None:
    """The options that `setup_of` reads."""
    options.add_argument("--model", help="a GGUF file or a name from `daneel models list`")
    options.add_argument("--threads", type=int, help="of every arm; by default the physical cores")
    options.add_argument("--limit-s", type=float, default=3600.0, help="give up after so many seconds (default: %(default)s)")
    if peer:
        options.add_argument("--peer", type=Path, metavar="PATH", help="llama-server's binary; without it that arm is left out")
        options.add_argument("--peer-args", default="", metavar="ARGS", help="more arguments for it, such as --no-repack")


@contextmanager
def setup_of(chosen: argparse.Namespace, *, model: str, context_tokens: int, parallel: int) -> Iterator[Setup]:
    """The common setup; `model` unless the options name one. Raises `SystemExit` when it cannot be had."""
    try:
        found = resolve(chosen.model or model)
    except UserError as error:
        raise SystemExit(str(error)) from error
    peer = getattr(chosen, "peer", None)
    if peer is not None and not os.access(peer, os.X_OK):
        raise SystemExit(f"--peer {peer}: no such program")
    with tempfile.TemporaryDirectory() as folder:
        template = Path(folder, "chatml.jinja")
        template.write_text(TEMPLATE, encoding="utf-8")
        yield Setup(
            model=found.name,
            model_path=Path(found.path),
            threads=choose_num_threads(chosen.threads),
            context_tokens=context_tokens,
            parallel=parallel,
            template=template,
            peer=peer.resolve() if peer is not None else None,
            peer_args=tuple(shlex.split(getattr(chosen, "peer_args", ""))),
        )


@contextmanager
def ours(setup: Setup, *extra: str) -> Iterator[str]:
    """Our server's base URL. Raises `ArmFailed` when it cannot start."""
    cells = setup.context_tokens * setup.parallel
    args = ["--context", str(setup.context_tokens), "--kv-tokens", str(cells), "--parallel", str(setup.parallel)]
    args += ["--threads", str(setup.threads), "--chat-template", str(setup.template), *extra]
    server = LocalServer(setup.model_path, engine="llama.cpp", extra_args=args, on_progress=lambda _: None)
    try:
        url = server.__enter__()
    except UserError as error:
        raise ArmFailed(f"daneel: {error}") from error
    try:
        yield url
    finally:
        server.__exit__(None, None, None)


@contextmanager
def llama_server(setup: Setup) -> Iterator[str]:
    """The peer's base URL: its defaults, but for what the setup fixes. Raises `ArmFailed` when it cannot start."""
    assert setup.peer is not None
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    command = [str(setup.peer), "--model", str(setup.model_path), "--host", "127.0.0.1", "--port", str(port)]
    command += ["--ctx-size", str(setup.context_tokens * setup.parallel), "--parallel", str(setup.parallel)]
    command += ["--threads", str(setup.threads), "--threads-batch", str(setup.threads)]
    command += ["--jinja", "--chat-template-file", str(setup.template), *setup.peer_args]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # the terminal's Ctrl-C is for the bench, which ends the server in its own time
            preexec_fn=_die_with_parent if sys.platform == "linux" else None,
        )
        try:
            _wait_healthy(process, f"http://127.0.0.1:{port}/health", log.fileno())
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            _end(process)


def peer_version(setup: Setup) -> str | None:
    """What the peer says of itself, its first line; `None` without a peer."""
    if setup.peer is None:
        return None
    try:
        said = subprocess.run([setup.peer, "--version"], capture_output=True, text=True, errors="replace", timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SystemExit(f"--peer {setup.peer}: {error}") from error
    if said.returncode:
        raise SystemExit(f"--peer {setup.peer} cannot run here: {_ended_how(said.returncode)}")
    lines = [line for line in (said.stderr + said.stdout).splitlines() if line.strip()]
    return next((line for line in lines if "version" in line), lines[0] if lines else "unknown")


def say_if_no_peer(setup: Setup) -> None:
    if setup.peer is None:
        print("llama-server: this arm is left out; name its binary with --peer PATH", file=sys.stderr)


def end_on_sigterm() -> None:
    """A SIGTERM ends the bench as Ctrl-C does: with its servers."""

    def stop(_number: int, _frame: object) -> NoReturn:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)


def _wait_healthy(process: subprocess.Popen[bytes], url: str, log: int) -> None:
    deadline = time.monotonic() + PEER_READY_S
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    while time.monotonic() < deadline:
        if process.poll() is not None:
            size = os.lseek(log, 0, os.SEEK_END)
            tail = os.pread(log, 2000, max(0, size - 2000)).decode(errors="replace").strip().splitlines()
            raise ArmFailed(f"llama-server ended at its start ({_ended_how(process.returncode)}): {' | '.join(tail[-3:])}")
        try:
            with opener.open(url, timeout=5) as answer:
                if answer.status == 200:
                    return
        except (urllib.error.URLError, OSError):
            pass
        time.sleep(0.1)
    raise ArmFailed(f"llama-server was not ready within {PEER_READY_S:.0f} s")


def _end(process: subprocess.Popen[bytes]) -> None:
    try:
        if process.poll() is None:
            process.terminate()
            process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        pass
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def _ended_how(code: int) -> str:
    return f"exit code {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
