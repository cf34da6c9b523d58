"""The transcript store: whole rows whatever happens, and what is read back."""

from __future__ import annotations

import errno
import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.twelve_steps import Model, harness

from daneel.bench.known import run_of
from daneel.errors import UserError
from daneel.harness import transcript_export as export
from daneel.harness.loop import run
from daneel.harness.recorder import is_durable
from daneel.harness.run_record import Event, Run, RunUsage
from daneel.harness.transcript import ByteKeeper, TranscriptStore, default_path

ROOT = Path(__file__).parents[2]


def finished(run_id: str) -> Run:
    return Run(run_id, "answered", "yes", 2, [], RunUsage(10, 5), [], [], 1.5)


def keep(store: TranscriptStore, run_id: str, *, end: bool = True) -> None:
    kept = store.labelled(goal="g").begin(run_id, {"harness": "h"})
    kept.append(Event("message", 0, {"message": {"role": "user", "content": "Hi"}}), durable=False)
    kept.append(Event("reply", 1, {"message": {"role": "assistant", "content": "yes"}}), durable=True)
    kept.append(Event("message", 1, {"message": {"role": "assistant", "content": "yes"}}), durable=False)
    if end:
        kept.end(finished(run_id))


def test_what_is_kept_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "t.db"
    with TranscriptStore(path) as store:
        keep(store, "aaa1")
    with TranscriptStore(path) as store:
        (run,) = store.runs()
        assert (run.id, run.state, run.about) == ("aaa1", "answered", {"harness": "h", "goal": "g"})
        assert run.outcome["turns"] == 2
        events = store.events("aaa1")
        assert [(row.seq, row.event.kind, row.event.turn) for row in events] == [
            (1, "message", 0),
            (2, "reply", 1),
            (3, "message", 1),
        ]


def test_runs_are_found_by_the_start_of_their_id(tmp_path: Path) -> None:
    with TranscriptStore(tmp_path / "t.db") as store:
        with pytest.raises(UserError, match="no run"):
            store.find("last")
        for run_id in ("aaa1", "aab2", "aab"):
            keep(store, run_id)
        assert [run.id for run in store.runs(limit=2)] == ["aab", "aab2"]
        assert store.find("aaa").id == "aaa1"
        assert store.find("aab").id == "aab"
        assert store.find("last").id == "aab"
        for wrong in ("x", "", "a"):
            with pytest.raises(UserError):
                store.find(wrong)


def test_a_run_without_an_end_is_running_or_interrupted(tmp_path: Path) -> None:
    with TranscriptStore(tmp_path / "t.db") as store:
        keep(store, "mine", end=False)
        assert store.find("mine").state == "running"
        gone = subprocess.run(
            [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True, check=True
        )
        store.write("UPDATE runs SET process = ?", (gone.stdout.strip(),), durable=False)
        assert store.find("mine").state == "interrupted"
        # another process that has the number now is not the one that began the run
        store.write("UPDATE runs SET process = ?", (f"{os.getpid()} long ago",), durable=False)
        assert store.find("mine").state == "interrupted"


KILLED = """
import os, sys
from pathlib import Path
from daneel.harness.run_record import Event
from daneel.harness.transcript import TranscriptStore

def write(run_id, acknowledge):
    kept = TranscriptStore(Path(sys.argv[1])).begin(run_id, {})
    n = 0
    while True:
        n += 1
        kept.append(Event("call", 1, {"n": n, "padding": "x" * 3000}), durable=n % 5 == 0)
        os.write(acknowledge, b"%d\\n" % n)

for run_id in sys.stdin:  # a process for each, forked from this one, which has imported everything
    pid = os.fork()
    if pid == 0:
        write(run_id.strip(), 1)
    os.write(1, b"pid %d\\n" % pid)
    os.waitpid(pid, 0)
    os.write(1, b"gone\\n")
"""


@pytest.mark.parametrize(
    "kills", [pytest.param(20), pytest.param(500, marks=[pytest.mark.exhaustive, pytest.mark.timeout(1800)])]
)
def test_a_kill_loses_no_event_that_was_acknowledged(tmp_path: Path, kills: int) -> None:
    path = tmp_path / "t.db"
    TranscriptStore(path).close()
    command = [sys.executable, "-c", KILLED, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writers:
        assert writers.stdin is not None
        assert writers.stdout is not None
        for number in range(kills):
            print(f"run{number}", file=writers.stdin, flush=True)
            lines = iter(writers.stdout.readline, "gone\n")
            pid, acknowledged = 0, 0
            for line in lines:
                if line.startswith("pid"):
                    pid = int(line.split()[1])
                else:
                    acknowledged = int(line)
                if pid and acknowledged >= 3 + 7 * number % 40:
                    os.kill(pid, signal.SIGKILL)
                    break
            acknowledged = max([acknowledged, *(int(line) for line in lines if not line.startswith("pid"))])
            with TranscriptStore(path) as store:
                assert store.find(f"run{number}").state == "interrupted"
                numbers = [row.event.data["n"] for row in store.events(f"run{number}")]
                assert numbers == list(range(1, len(numbers) + 1))
                assert len(numbers) >= acknowledged


class FailingStore(TranscriptStore):
    """A store whose `fail_at`-th write fails, and `times - 1` after it, as on a disk that is full or broken."""

    count = 0
    fail_at = 0
    times = 1
    error: Exception = sqlite3.OperationalError("database or disk is full")

    def write(self, sql: str, values: tuple[Any, ...], *, durable: bool) -> int:
        self.count += 1
        if self.fail_at <= self.count < self.fail_at + self.times:
            raise self.error
        return super().write(sql, values, durable=durable)


@pytest.mark.parametrize(
    "error", [sqlite3.OperationalError("disk I/O error"), OSError(errno.ENOSPC, "No space left on device")]
)
@pytest.mark.parametrize("times", [1, 3, 10_000])
@pytest.mark.parametrize("step", [pytest.param(9), pytest.param(1, marks=[pytest.mark.exhaustive, pytest.mark.timeout(1800)])])
def test_a_write_that_fails_is_reported_whichever_it_is(tmp_path: Path, error: Exception, times: int, step: int) -> None:
    """ENOSPC and EIO at the n-th write: the run goes on, says it once, and writes everything as soon as there is room."""
    num_writes = 1
    while True:
        folder = tmp_path / f"{num_writes}"
        with FailingStore(folder / "t.db") as store:
            store.fail_at, store.times, store.error = num_writes, times, error
            held, model = harness(folder / "ledger"), Model(1)
            finished = run(held, "Go.", client=model, transcript=store)
            failed = [event for event in finished.events if event.kind == "transcript_failed"]
            assert (finished.stop_reason, (folder / "ledger").read_text().split()) == ("answered", model.expected)
            if store.count < num_writes:
                assert failed == []
                break
            assert len(failed) == 1
            assert str(error) in failed[0].data["error"]
            kept = [row.event.kind for row in store.events(finished.id)]
            if num_writes > 1 and times == 1 and store.count > num_writes:
                # there was room again: nothing is missing
                assert kept.count("transcript_failed") == 1
                assert [kind for kind in kept if kind != "transcript_failed"][-1] == "stop"
                assert store.find(finished.id).state == "answered"
            if times == 10_000:
                assert len(kept) == max(0, num_writes - 2)
        num_writes += step if num_writes > 9 else 1


FULL_DISK = """
import resource, sys
from pathlib import Path
from tests.support.twelve_steps import Model, harness
from daneel.harness.loop import run
from daneel.harness.transcript import TranscriptStore

folder = Path(sys.argv[1])
store = TranscriptStore(folder / "t.db")
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), -1))
finished = run(harness(folder / "ledger"), "Go.", client=Model(1), transcript=store)
print(finished.stop_reason, sum(event.kind == "transcript_failed" for event in finished.events), finished.id)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no limit on the size of a file there")
@pytest.mark.parametrize(
    "step", [pytest.param(90_000), pytest.param(4_096, marks=[pytest.mark.exhaustive, pytest.mark.timeout(1800)])]
)
def test_a_file_that_cannot_grow_is_reported_wherever_that_is(tmp_path: Path, step: int) -> None:
    """The system's own refusal: the run goes on and says so, and what was kept is whole and has no gap."""
    for size in range(40_000, 10_000_000, step):
        folder = tmp_path / str(size)
        folder.mkdir()
        said = subprocess.run(
            [sys.executable, "-c", FULL_DISK, str(folder), str(size)], capture_output=True, text=True, check=True, cwd=ROOT
        )
        reason, failures, run_id = said.stdout.split()
        assert reason == "answered", said.stderr
        with TranscriptStore(folder / "t.db") as store:
            sequence = [row.seq for row in store.events(run_id)] if store.runs() else []
            assert sequence == list(range(1, len(sequence) + 1))
            if failures == "0":
                assert store.find(run_id).state == "answered"
                assert size > 40_000, "the first limit was too wide to fail at"
                return
    raise AssertionError("it never fitted")


def test_several_threads_and_stores_write_at_once(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    TranscriptStore(path).close()

    def write(number: int) -> None:
        with TranscriptStore(path) as store:
            keep(store, f"run{number}")

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with TranscriptStore(path) as store:
        assert {run.state for run in store.runs()} == {"answered"}
        assert [len(store.events(run.id)) for run in store.runs()] == [3] * 8


def test_a_store_that_cannot_be_opened(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(UserError, match="cannot open the transcript store"):
        TranscriptStore(tmp_path / "file" / "t.db")
    (tmp_path / "t.db").write_bytes(b"not a database, but long enough to look at" * 10)
    with pytest.raises(UserError, match="cannot open the transcript store"):
        TranscriptStore(tmp_path / "t.db")


def test_a_store_of_a_newer_layout_is_left_alone(tmp_path: Path) -> None:
    database = sqlite3.connect(tmp_path / "t.db")
    database.execute("PRAGMA user_version = 99")
    database.close()
    with pytest.raises(UserError, match="newer daneel"):
        TranscriptStore(tmp_path / "t.db")


def test_a_store_of_the_first_layout_is_taken_over(tmp_path: Path) -> None:
    database = sqlite3.connect(tmp_path / "t.db")
    database.executescript(
        "CREATE TABLE runs (id TEXT PRIMARY KEY, started_at REAL NOT NULL, pid INTEGER NOT NULL, about TEXT NOT NULL,"
        " ended_at REAL, stop_reason TEXT, outcome TEXT) STRICT;"
        "CREATE TABLE events (run_id TEXT NOT NULL REFERENCES runs (id), seq INTEGER NOT NULL, at REAL NOT NULL,"
        " kind TEXT NOT NULL, turn INTEGER NOT NULL, data TEXT NOT NULL, PRIMARY KEY (run_id, seq)) STRICT, WITHOUT ROWID;"
        f"INSERT INTO runs VALUES ('old', 1.0, {os.getpid()}, '{{}}', NULL, NULL, NULL);"
        "INSERT INTO events VALUES ('old', 1, 1.0, 'message', 0, '{}');"
        "PRAGMA user_version = 1;"
    )
    database.close()
    with TranscriptStore(tmp_path / "t.db") as store:
        assert store.find("old").state == "running"
        assert [row.event.kind for row in store.events("old")] == ["message"]
        assert store.server_bytes("old") == []
        keep(store, "new")


def test_where_turns_need_not_outlive_the_machine_the_disk_is_waited_for_at_a_run_s_ends_only(tmp_path: Path) -> None:
    class Watched(TranscriptStore):
        def write(self, sql, values, *, durable):
            if durable:
                waited.append(sql.split()[0])
            return super().write(sql, values, durable=durable)

    for durable_turns, expected in ((True, ["INSERT", "INSERT", "UPDATE"]), (False, ["INSERT", "UPDATE"])):
        waited: list[str] = []
        with Watched(tmp_path / f"{durable_turns}.db", durable_turns=durable_turns) as store:
            kept = store.begin("aaa1", {})
            kept.append(Event("reply", 1, {}), durable=True)
            kept.append(Event("message", 1, {}), durable=False)
            kept.end(run_of("done"))
        assert waited == expected


def test_runs_are_found_by_how_their_id_starts_and_by_nothing_else(tmp_path: Path) -> None:
    with TranscriptStore(tmp_path / "t.db") as store:
        for run_id in ("ab", "abc", "a%c", "b_1"):
            store.begin(run_id, {})
        assert [store.find(asked).id for asked in ("ab", "abc", "a%", "b_", "last")] == ["ab", "abc", "a%c", "b_1", "b_1"]
        for asked, said in (("a", "3 runs"), ("%", "no run"), ("b%", "no run"), ("", "no run")):
            with pytest.raises(UserError, match=said):
                store.find(asked)


def test_what_the_server_sent_is_kept_beside_its_reply(tmp_path: Path) -> None:
    keeper = ByteKeeper()
    with TranscriptStore(tmp_path / "t.db") as store:
        kept = replace(store.labelled(), keeper=keeper).begin("aaa1", {})
        for turn, pieces in ((1, [b"data: ", b"\xff\n"]), (2, []), (3, [b"three"])):
            for piece in pieces:
                keeper.add(piece)
            kept.append(Event("request", turn, {}), durable=False)
            kept.append(Event("reply", turn, {}), durable=True)
        assert store.server_bytes("aaa1") == [b"data: \xff\n", b"three"]
        assert store.server_bytes("aaa1", turn=3) == [b"three"]
        assert store.server_bytes("aaa1", turn=2) == []


def test_what_changes_something_is_on_the_disk_before_it_runs() -> None:
    assert is_durable(Event("reply", 1, {}))
    assert is_durable(Event("call", 1, {"effects": ["write"]}))
    assert is_durable(Event("call", 1, {"effects": ["network", "read"]}))
    assert not is_durable(Event("call", 1, {"effects": ["read"]}))
    assert not is_durable(Event("call", 1, {"effects": []}))
    assert not is_durable(Event("message", 1, {}))


def test_where_it_lies(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DANEEL_DATA_DIR", str(tmp_path))
    assert default_path() == tmp_path / "transcripts.db"
    monkeypatch.delenv("DANEEL_DATA_DIR")
    assert default_path().parent.name == "daneel"
    assert os.path.isabs(default_path())


def test_exports(tmp_path: Path) -> None:
    with TranscriptStore(tmp_path / "t.db") as store:
        keep(store, "aaa1")
        run, events = store.find("aaa1"), store.events("aaa1")
    lines = [json.loads(line) for line in export.jsonl(run, events)]
    assert [line["kind"] for line in lines] == ["run", "message", "reply", "message"]
    assert json.loads(export.openai(run, events)) == {
        "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "yes"}]
    }
    assert export.as_object(run, events)["state"] == "answered"


def test_failed_calls_become_text_in_the_plain_dialect() -> None:
    failed = {"id": "f1", "position": 0, "name": None, "raw": "<tool_call>{", "error": {}, "format": "hermes"}
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "", "failed_tool_calls": [failed], "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "f1", "content": "Error: not read"},
        {"role": "tool", "tool_call_id": "c1", "content": "3"},
        {"role": "assistant", "content": "3"},
    ]
    assert export.plain_messages(messages) == [
        messages[0],
        {"role": "assistant", "content": "<tool_call>{", "tool_calls": [call]},
        messages[3],
        {"role": "user", "content": "Error: not read"},
        messages[4],
    ]
    assert export.plain_messages(messages[:3])[-1] == {"role": "user", "content": "Error: not read"}


@pytest.mark.parametrize("damaged", ["{", "[]", "null", ""])
def test_what_was_damaged_is_named_in_one_sentence(tmp_path, damaged):
    path = tmp_path / "transcripts.db"
    with TranscriptStore(path) as store:
        store.begin("run1", {}).append(Event("stop", 1, {}), durable=True)
        with sqlite3.connect(path) as db:
            db.execute("UPDATE events SET data = ?", (damaged,))
        with pytest.raises(UserError, match="event 1 of run run1 cannot be read"):
            store.events("run1")
        with sqlite3.connect(path) as db:
            db.execute("UPDATE runs SET about = ?", (damaged,))
        with pytest.raises(UserError, match="about run run1 cannot be read"):
            store.runs()
