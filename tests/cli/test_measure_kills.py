"""`daneel measure` and its workers, killed at random: no trial is lost, none stored twice, the numbers are a serial run's."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest
from tests.support.dice_model import Gate, dice, living_workers, write_file
from tests.support.scripted_server import ScriptedServer

from daneel.bench.record import Trial
from daneel.bench.store import TrialStore

DANEEL = [sys.executable, "-m", "daneel", "measure"]
BASE_SEED = "17"


def result_of(trial: Trial) -> tuple[object, ...]:
    """What does not depend on when and where a trial ran."""
    what = (trial.harness, trial.goal, trial.index, trial.attempt, trial.seed)
    return (*what, trial.stop_reason, trial.achieved, trial.turns, trial.calls, trial.answer, trial.prompt_tokens)


def serial_results(file: Path, server: ScriptedServer, num_trials: int) -> tuple[list[Trial], dict[str, object]]:
    options = ["--server", server.url, "--trials", str(num_trials), "--seed", BASE_SEED, "--json"]
    done = subprocess.run([*DANEEL, str(file), *options], capture_output=True, check=True, text=True)
    found = json.loads(done.stdout)
    with TrialStore() as store:
        return store.trials(found["measurement"]), {name: arm["numbers"] for name, arm in found["harnesses"].items()}


class Killer:
    """Kills the measurement or one of its workers, and goes on with it when it was the measurement."""

    def __init__(self, file: Path, server: ScriptedServer, gate: Gate, chance: random.Random, first: list[str]) -> None:
        self._file = file
        self._gate = gate
        self._chance = chance
        self._server = server
        self._process = self._start(first)
        self.num_killed = {"the measurement": 0, "a worker": 0}

    def _start(self, arguments: list[str]) -> subprocess.Popen[str]:
        command = [*DANEEL, *arguments, "--server", self._server.url, "--parallel", "3", "--json"]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def kill_after(self, num_requests: int, whom: str) -> None:
        """Kill while replies are being waited for, or a moment later, at any point of a trial's end."""
        self._gate.close_after(num_requests)
        with self._gate.closed():
            pid = self._process.pid if whom == "the measurement" else self._chance.choice(self._workers())
            if self._chance.random() < 0.5:
                self._kill(pid)
                pid = 0
        if pid:
            time.sleep(self._chance.random() * 0.05)
            self._kill(pid)
        self.num_killed[whom] += 1
        if whom == "the measurement":
            self._process.communicate()
            self._process = self._start(["--resume", "last"])

    def _workers(self) -> list[int]:
        deadline = time.monotonic() + 120
        while not (found := living_workers(self._file, but=self._process.pid)):
            assert time.monotonic() < deadline, "no worker lives"
            time.sleep(0.02)
        return found

    def _kill(self, pid: int) -> None:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)

    def finish(self) -> dict[str, object]:
        """Wait for the end; what it printed."""
        self._gate.open()
        out, err = self._process.communicate(timeout=600)
        assert self._process.returncode == 0, err
        return json.loads(out)


def check_kills(tmp_path: Path, *, num_trials: int, num_kills: int, seed: int) -> None:
    file = write_file(tmp_path)
    chance = random.Random(seed)
    gate = Gate(dice)
    with ScriptedServer(gate) as server:
        expected, numbers = serial_results(file, server, num_trials)
        killer = Killer(file, server, gate, chance, [str(file), "--trials", str(num_trials), "--seed", BASE_SEED])
        # every second kill is the measurement's; so many requests apart that all of them come before the end
        apart = max(2, num_trials * 2 // (num_kills + 2))
        for number, whom in zip(range(num_kills), (("a worker", "the measurement")[n % 2] for n in count()), strict=False):
            killer.kill_after(chance.randint(2 if number else 1, apart), whom)
        found = killer.finish()
    assert sum(killer.num_killed.values()) == num_kills
    with TrialStore() as store:
        stored = store.trials(str(found["measurement"]))
        assert next(plan.id for plan in store.plans()) == found["measurement"]
    assert len(stored) == num_trials * 2, "as many rows as trials"
    assert len({(trial.harness, trial.index) for trial in stored}) == num_trials * 2, "none twice"
    assert sorted(map(result_of, stored)) == sorted(map(result_of, expected))
    assert {name: numbers_of(arm) for name, arm in found["harnesses"].items()} == {
        name: numbers_of({"numbers": given}) for name, given in numbers.items()
    }


def numbers_of(arm: dict[str, object]) -> dict[str, object]:
    """All but the seconds."""
    return {name: value for name, value in dict(arm["numbers"]).items() if "duration" not in name}


def test_kills_lose_no_trial_and_repeat_none(tmp_path):
    check_kills(tmp_path, num_trials=8, num_kills=3, seed=1)


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(3))
def test_ten_kills_in_a_run_of_200_trials(tmp_path, seed):
    check_kills(tmp_path, num_trials=100, num_kills=10, seed=seed)
