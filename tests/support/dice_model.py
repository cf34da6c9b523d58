"""A scripted model whose trials are decided by seed and harness alone, however they are run, and a harness file for it."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.scripted_server import Reply, calls, text

FILE = '''
import os
from pathlib import Path
from daneel import Harness, goal, tool

folder = Path(__file__).parent / "pids"
folder.mkdir(exist_ok=True)
(folder / str(os.getpid())).touch()

@tool
def roll() -> str:
    """Roll the dice"""
    return "rolled"

A = Harness(tools=[roll], system="A")
B = Harness(tools=[roll], system="B")

@goal(prompt="Roll until it is good.")
def lucky(trial):
    return trial.answer == "good"
'''


def write_file(folder: Path) -> Path:
    """The harness file. Each process that loads it leaves its id in `pids/`."""
    file = folder / "dice.py"
    file.write_text(FILE)
    return file


def dice(request: dict[str, Any]) -> Reply:
    """None to three rolls, then "good" or "bad", by the request's seed and system prompt."""
    chance = random.Random(f"{request['seed']} {request['messages'][0]['content']}")
    num_rolls = chance.randrange(4)
    answer = "good" if chance.random() < 0.7 else "bad"
    num_done = sum(message["role"] == "tool" for message in request["messages"])
    return calls(("roll", {})) if num_done < num_rolls else text(answer)


class Gate:
    """A script that holds every reply, from a request of a given number on, until it is opened."""

    def __init__(self, script: Callable[[dict[str, Any]], Reply]) -> None:
        self._script = script
        self._lock = threading.Lock()
        self._num_requests = 0
        self._closes_at: int | None = None
        self._open = threading.Event()
        self._open.set()
        self._closed = threading.Event()

    def __call__(self, request: dict[str, Any]) -> Reply:
        with self._lock:
            self._num_requests += 1
            if self._closes_at is not None and self._num_requests >= self._closes_at:
                self._closes_at = None
                self._open.clear()
                self._closed.set()
        assert self._open.wait(120), "nobody opened the gate"
        return self._script(request)

    def close_after(self, num_requests: int) -> None:
        """Close when so many more requests have come."""
        with self._lock:
            self._closed.clear()
            self._closes_at = self._num_requests + num_requests

    @contextmanager
    def closed(self) -> Iterator[None]:
        """Within it, the gate is closed, with at least one request waiting; open again at its end."""
        try:
            assert self._closed.wait(120), "too few requests came"
            yield
        finally:
            self.open()

    def open(self) -> None:
        with self._lock:
            self._closes_at = None
        self._open.set()


def living_workers(file: Path, *, but: int) -> list[int]:
    """The processes that loaded the file and live, apart from this one and `but`."""
    found = [int(entry.name) for entry in (file.parent / "pids").iterdir()]
    return [pid for pid in found if pid not in (os.getpid(), but) and _lives(pid)]


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True
