"""The transcript store: whole rows whatever happens, and what is read back."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from daneel.errors import UserError
from daneel.harness import transcript_export as export
from daneel.harness.run_record import Event, Run, RunUsage
from daneel.harness.transcript import TranscriptStore, default_path


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
import sys
from pathlib import Path
from daneel.harness.run_record import Event
from daneel.harness.transcript import TranscriptStore
store = TranscriptStore(Path(sys.argv[1]))
kept = store.begin(sys.argv[2], {})
n = 0
while True:
    n += 1
    kept.append(Event("call", 1, {"n": n, "padding": "x" * 3000}), durable=n % 5 == 0)
    print(n, flush=True)
"""


@pytest.mark.parametrize("kills", [pytest.param(4), pytest.param(100, marks=pytest.mark.exhaustive)])
def test_a_kill_loses_no_event_that_was_acknowledged(tmp_path: Path, kills: int) -> None:
    path = tmp_path / "t.db"
    for number in range(kills):
        run_id = f"run{number}"
        writer = subprocess.Popen([sys.executable, "-c", KILLED, str(path), run_id], stdout=subprocess.PIPE, text=True)
        assert writer.stdout is not None
        for _ in range(3 + 7 * number % 40):
            acknowledged = int(writer.stdout.readline())
        writer.send_signal(signal.SIGKILL)
        acknowledged = max([acknowledged, *(int(line) for line in writer.stdout.read().split("\n")[:-1] if line)])
        writer.wait()
        writer.stdout.close()
        with TranscriptStore(path) as store:
            assert store.find(run_id).state == "interrupted"
            numbers = [row.event.data["n"] for row in store.events(run_id)]
            assert numbers == list(range(1, len(numbers) + 1))
            assert len(numbers) >= acknowledged


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
