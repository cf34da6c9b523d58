"""Runs that were killed at any moment go on and reach the same end; nothing that changes something is done twice unasked."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.twelve_steps import Model, play

from daneel import Harness, tool
from daneel.errors import UserError
from daneel.harness.client_errors import ContextOverflow, ErrorInStream, RequestCancelled, ServerBusy, ServerUnreachable
from daneel.harness.loop import run
from daneel.harness.past import Diverged
from daneel.harness.peer import error_data, error_from, reply_data, reply_from
from daneel.harness.reply import Reply
from daneel.harness.resume import resume
from daneel.harness.safety.policy import SafetyPolicy
from daneel.harness.transcript import TranscriptStore
from daneel.wire.error_body import PeerError
from daneel.wire.messages import (
    CallError,
    CompletionTokensDetails,
    FailedToolCall,
    FunctionCall,
    Message,
    PromptTokensDetails,
    Repair,
    ToolCall,
    Usage,
    Warning,
)

ROOT = Path(__file__).parents[2]
WHOLE = [pytest.mark.exhaustive, pytest.mark.timeout(1800)]


class KillStage:
    """Processes that do a job and are killed in it, forked from one that has imported everything."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.support.twelve_steps"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)

    def do(self, **job: Any) -> int:
        """The job's exit code; -9 when it was killed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(job, default=str) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def close(self) -> None:
        self._process.communicate()


@pytest.fixture(scope="module")
def stage() -> Iterator[KillStage]:
    stage = KillStage()
    yield stage
    stage.close()


def killed_and_resumed(stage: KillStage, folder: Path, seed: int, kills: list[int]) -> None:
    """A run that is killed at the first moment, its resumption at the second, and so on; then it is left alone."""
    folder.mkdir()
    job: dict[str, Any] = {"store": folder / "t.db", "ledger": folder / "ledger", "seed": seed}
    for number, kill_at in enumerate(kills):
        code = stage.do(**job, kill_at=kill_at, resume=number > 0)
        if code == 0:
            break
        assert code == -9
        with TranscriptStore(job["store"]) as store:
            if not store.runs():
                return  # before the first row: there is nothing to go on with, and nothing was done
            if store.find("last").state == "answered":
                break  # it was killed behind its last write
            assert store.find("last").state == "interrupted"
    with TranscriptStore(job["store"]) as store:
        if store.find("last").state == "interrupted":
            play({**job, "resume": True})
        row = store.find("last")
        events = [event.event for event in store.events(row.id)]
    model = Model(seed)
    assert row.state == "answered"
    assert row.outcome["answer"] == f"Done: {', '.join(model.expected)}"
    assert sorted((folder / "ledger").read_text().split()) == sorted(model.expected)
    messages = [event.data["message"] for event in events if event.kind == "message"]
    answered = [message["tool_call_id"] for message in messages if message["role"] == "tool"]
    asked = [call["id"] for message in messages for call in message.get("tool_calls", ())]
    assert answered == asked
    assert len(set(asked)) == len(asked)


def num_moments(folder: Path, seed: int) -> int:
    """How many moments the task has when nobody kills it; and that it is done then."""
    folder.mkdir()
    finished, count = play({"store": folder / "t.db", "ledger": folder / "ledger", "seed": seed})
    assert finished.stop_reason == "answered"
    assert (folder / "ledger").read_text().split() == Model(seed).expected
    return count


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("step", [pytest.param(47, id="sampled"), pytest.param(1, id="whole", marks=WHOLE)])
def test_a_run_killed_at_any_moment_reaches_the_same_end(stage: KillStage, tmp_path: Path, seed: int, step: int) -> None:
    for kill_at in range(1 + 7 * seed % step, num_moments(tmp_path / "whole", seed) + 1, step):
        killed_and_resumed(stage, tmp_path / str(kill_at), seed, [kill_at])


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("step", [pytest.param(131, id="sampled"), pytest.param(11, id="whole", marks=WHOLE)])
def test_a_resumed_run_may_be_killed_again(stage: KillStage, tmp_path: Path, seed: int, step: int) -> None:
    for kill_at in range(5 + seed, num_moments(tmp_path / "whole", seed), step):
        killed_and_resumed(stage, tmp_path / str(kill_at), seed, [kill_at, 1 + kill_at % 13, 1 + kill_at % 7])


class Script:
    """A client that gives these replies, one after another; an exception among them is raised."""

    is_daneel = True

    def __init__(self, *replies: Reply | BaseException) -> None:
        self.replies = list(replies)
        self.requests: list[list[dict[str, Any]]] = []

    def chat(self, messages: Any, **_: Any) -> Reply:
        self.requests.append(list(messages))
        reply = self.replies.pop(0)
        if isinstance(reply, BaseException):
            raise reply
        return reply


def answer(content: str) -> Reply:
    return Reply(Message("assistant", content), "stop")


def call(name: str, **arguments: Any) -> Reply:
    calls = [ToolCall(id="c", function=FunctionCall(name, json.dumps(arguments)), type="function", index=0)]
    return Reply(Message("assistant", None, tool_calls=calls), "tool_calls")


ALLOWED = SafetyPolicy(allow=["read", "write"])


class Post:
    """A tool that sends letters and is interrupted, as by Ctrl-C, in the sending of its first."""

    def __init__(self, effects: Any = "write") -> None:
        self.sent: list[str] = []
        self.interrupts = True

        @tool(effects=effects)
        def send(letter: str) -> str:
            """Send a letter."""
            self.sent.append(letter)
            if self.interrupts:
                raise KeyboardInterrupt
            return f"sent {letter}"

        self.harness = Harness(tools=[send], safety=ALLOWED)


def interrupted(store: TranscriptStore, post: Post) -> str:
    """The id of a run that was interrupted while its letter was being sent."""
    finished = run(post.harness, "Send it.", client=Script(call("send", letter="A")), transcript=store)
    assert finished.stop_reason == "cancelled"
    post.interrupts = False
    return finished.id


@pytest.fixture
def store(tmp_path: Path) -> Iterator[TranscriptStore]:
    with TranscriptStore(tmp_path / "t.db") as store:
        yield store


def test_the_model_is_told_that_an_outcome_is_not_known(store: TranscriptStore) -> None:
    post = Post()
    run_id = interrupted(store, post)
    client = Script(answer("I do not know."))
    resumed = resume(store, run_id, post.harness, client=client)
    assert (resumed.id, resumed.stop_reason, resumed.turns) == (run_id, "answered", 2)
    assert post.sent == ["A"]
    assert "Nobody knows whether it had its effect" in client.requests[0][-1]["content"]
    assert [event.kind for event in resumed.events] == ["resumed", "unknown_outcome"]
    assert store.find(run_id).state == "answered"


def test_a_call_is_made_again_when_that_is_decided(store: TranscriptStore) -> None:
    post = Post()
    asked: list[str] = []
    run_id = interrupted(store, post)
    client = Script(answer("Sent."))
    resumed = resume(
        store, run_id, post.harness, client=client, decide=lambda attempt: bool(asked.append(str(attempt.name))) or True
    )
    assert post.sent == ["A", "A"]
    assert asked == ["send"]
    assert client.requests[0][-1]["content"] == "sent A"
    assert [event.kind for event in resumed.events] == ["resumed", "rerun"]


@pytest.mark.parametrize("effects", [(), "read"])
def test_what_only_reads_is_done_again_unasked(store: TranscriptStore, effects: Any) -> None:
    post = Post(effects)
    run_id = interrupted(store, post)
    client = Script(answer("Sent."))
    resume(store, run_id, post.harness, client=client)
    assert post.sent == ["A", "A"]


def test_several_pauses_one_after_another(store: TranscriptStore) -> None:
    post = Post()
    run_id = interrupted(store, post)
    for failure, state in ((ServerUnreachable("gone"), "invalid"), (KeyboardInterrupt(), "cancelled")):
        assert resume(store, run_id, post.harness, client=Script(failure)).stop_reason == state
        assert store.find(run_id).state == state
    client = Script(call("send", letter="B"), answer("Sent."))
    resumed = resume(store, run_id, post.harness, client=client)
    assert (resumed.stop_reason, resumed.turns, post.sent) == ("answered", 3, ["A", "B"])
    assert [record.name for record in resumed.calls] == ["send", "send"]
    assert [event.kind for event in resumed.events].count("resumed") == 3
    roles = [message["role"] for message in resumed.messages]
    assert roles == ["user", "assistant", "tool", "assistant", "tool", "assistant"]
    kept = [row.event.data["message"] for row in store.events(run_id) if row.event.kind == "message"]
    assert kept == resumed.messages


def test_limits_and_usage_count_over_all_attempts(store: TranscriptStore) -> None:
    post = Post()
    limited = post.harness.with_changes(max_turns=3, max_calls={"send": 1}, timeout_s=1000.0)
    usage = Usage(100, 10, 110, PromptTokensDetails(50), CompletionTokensDetails())
    first = replace(call("send", letter="A"), usage=usage)
    post.interrupts = False
    run_id = run(limited, "Go.", client=Script(first, KeyboardInterrupt()), transcript=store).id
    store.write("UPDATE events SET at = at + 100 WHERE seq > 4", (), durable=False)
    resumed = resume(store, run_id, limited, client=Script(call("send", letter="B"), call("send", letter="C")))
    assert (resumed.stop_reason, resumed.turns, post.sent) == ("turn_limit", 3, ["A"])
    assert resumed.usage.prompt_tokens == 100
    assert resumed.usage.cached_tokens == 50
    assert 100 < resumed.duration_s < 200


def test_what_was_said_over_the_wire_comes_back_whole() -> None:
    """Every field of a reply that the loop looks at is on record."""
    failed = FailedToolCall("f", 0, "send", "<tool_call>{", CallError("malformed", "no end", 12), "hermes", (3, 9))
    reply = Reply(
        Message("assistant", "Hi", "Hm", tool_calls=[], failed_tool_calls=[failed], repairs=[Repair("c", "fenced_json", "x")]),
        "stop",
        usage=Usage(1, 2, 3, PromptTokensDetails(1), CompletionTokensDetails(1, 1)),
        cached_tokens=1,
        warnings=[Warning("top_k", "ignored", "not sent")],
        reasoning_field="reasoning_content",
        refusal="no",
        server="http://a",
        model="m",
        notes=["odd"],
        num_retries=1,
        ttft_s=0.5,
        duration_s=1.5,
        daneel={"cache": {}},
    )
    assert reply_from(json.loads(json.dumps(reply_data(reply)))) == reply
    for error in (
        ServerUnreachable("gone"),
        ContextOverflow("too long", status=400, error=PeerError("too long", "t", "c")),
        ServerBusy("busy", status=503, error=PeerError("busy")),
        ErrorInStream("broke", error=PeerError("inside")),
        RequestCancelled("stopped"),
    ):
        back = error_from(json.loads(json.dumps(error_data(error))))
        assert (type(back), str(back)) == (type(error), str(error))
        assert getattr(back, "error", None) == getattr(error, "error", None)
        assert getattr(back, "status", None) == getattr(error, "status", None)
    with pytest.raises(UserError, match="cannot be read"):
        reply_from({"message": {"role": "assistant"}})


def test_a_run_that_is_over_or_running_is_left_alone(store: TranscriptStore) -> None:
    post = Post()
    done = run(post.harness, "Go.", client=Script(answer("Yes.")), transcript=store)
    with pytest.raises(UserError, match="is over \\(answered\\)"):
        resume(store, done.id, post.harness, client=Script())
    store.begin("now", {})
    with pytest.raises(UserError, match="is running"):
        resume(store, "now", post.harness, client=Script())


def test_only_one_gets_a_run(store: TranscriptStore) -> None:
    post = Post()
    row = store.find(interrupted(store, post))
    store.reopen(row)
    with pytest.raises(UserError, match="another process"):
        store.reopen(row)


def test_another_harness_is_refused_and_the_difference_named(store: TranscriptStore) -> None:
    post = Post()
    run_id = interrupted(store, post)
    other = post.harness.with_changes(system="Hurry.", max_turns=5)
    with pytest.raises(UserError) as refused:
        resume(store, run_id, other, client=Script())
    for part in (post.harness.fingerprint(), other.fingerprint(), "max_turns, system", "--anyway"):
        assert part in str(refused.value)
    assert store.find(run_id).state == "cancelled"
    resumed = resume(store, run_id, post.harness.with_changes(max_turns=5), client=Script(answer("Yes.")), anyway=True)
    assert resumed.stop_reason == "answered"


def test_a_harness_that_makes_other_calls_cannot_go_on(store: TranscriptStore) -> None:
    post = Post()
    run_id = interrupted(store, post)
    before = store.events(run_id)
    with pytest.raises(Diverged, match="cannot be rebuilt"):
        resume(store, run_id, post.harness.with_changes(tools=[]), client=Script(answer("Yes.")), anyway=True)
    assert store.find(run_id).state == "cancelled"
    assert store.events(run_id) == before
    assert post.sent == ["A"]


def test_a_server_of_the_other_kind_is_refused(store: TranscriptStore) -> None:
    post = Post()
    run_id = interrupted(store, post)
    foreign = Script(answer("Yes."))
    foreign.is_daneel = False
    with pytest.raises(UserError, match="the other kind"):
        resume(store, run_id, post.harness, client=foreign)


def test_a_call_that_was_refused_is_refused_again_in_the_same_words(store: TranscriptStore) -> None:
    post = Post()

    class No:
        def ask(self, request: Any, /) -> bool:
            return False

    class Yes:
        def ask(self, request: Any, /) -> bool:
            raise AssertionError("asked again")

    asking = post.harness.with_changes(safety=SafetyPolicy())
    script = Script(call("send", letter="A"), KeyboardInterrupt())
    run_id = run(asking, "Go.", client=script, transcript=store, approver=No()).id
    client = Script(answer("As you like."))
    resumed = resume(store, run_id, asking, client=client, approver=Yes())
    assert resumed.stop_reason == "answered"
    assert "said no" in client.requests[0][-1]["content"]
    assert post.sent == []


class Said:
    """An inbox: what is said at each stop, in order; None ends the process there."""

    def __init__(self, *said: str | None) -> None:
        self.said = list(said)

    def take(self) -> list[str]:
        return []

    def wait(self, stop: Any) -> list[str]:
        if not self.said:
            return []
        said = self.said.pop(0)
        if said is None:
            raise SystemExit
        return [said]


def test_a_conversation_goes_on(store: TranscriptStore) -> None:
    post = Post()
    post.interrupts = False
    replies = [call("send", letter="A"), answer("Sent."), KeyboardInterrupt(), call("send", letter="B"), answer("Again.")]
    with pytest.raises(SystemExit):
        run(
            post.harness,
            "Send A.",
            client=Script(*replies),
            inbox=Said("And?", "Send B.", None),
            transcript=store,
        )
    store.write("UPDATE runs SET process = '1 long ago'", (), durable=False)
    client = Script(answer("C it is."))
    resumed = resume(store, "last", post.harness, client=client, inbox=Said("Now C."))
    assert (resumed.stop_reason, resumed.answer, resumed.turns) == ("answered", "C it is.", 5)
    assert post.sent == ["A", "B"]
    said = [message["content"] for message in client.requests[0] if message["role"] == "user"]
    assert said == ["Send A.", "And?", "Send B.", "Now C."]
    kept = [row.event.data["message"] for row in store.events(resumed.id) if row.event.kind == "message"]
    assert kept == resumed.messages


def test_a_conversation_without_anybody_ends_with_the_answer_that_is_due(store: TranscriptStore) -> None:
    post = Post()
    post.interrupts = False
    with pytest.raises(SystemExit):
        run(
            post.harness,
            "Send A.",
            client=Script(answer("Why?"), SystemExit()),
            inbox=Said("I say so."),
            transcript=store,
        )
    store.write("UPDATE runs SET process = '1 long ago'", (), durable=False)
    resumed = resume(store, "last", post.harness, client=Script(answer("Well then.")))
    assert (resumed.stop_reason, resumed.answer) == ("answered", "Well then.")


def test_what_runs_at_the_same_time_is_on_record_as_it_ends(store: TranscriptStore) -> None:
    """One of two calls has ended, the other is interrupted: only of this one the outcome is not known."""
    kept: list[str] = []

    @tool(effects="write", parallel=True)
    def quick() -> str:
        """Quick."""
        kept.append("quick")
        return "quick is done"

    @tool(effects="write", parallel=True)
    def slow() -> str:
        """Slow."""
        while not any(row.event.kind == "result" for row in store.events(store.find("last").id)):
            time.sleep(0.001)
        kept.append("slow")
        if len(kept) == 2:
            os.kill(os.getpid(), signal.SIGINT)
            ended.wait(30)
        return "slow is done"

    ended = threading.Event()
    held = Harness(tools=[slow, quick], safety=ALLOWED)
    both = [
        ToolCall(id=name, function=FunctionCall(name, "{}"), type="function", index=index)
        for index, name in enumerate(("slow", "quick"))
    ]
    reply = Reply(Message("assistant", None, tool_calls=both), "tool_calls")
    cancelled = run(held, "Both.", client=Script(reply), transcript=store)
    ended.set()
    assert cancelled.stop_reason == "cancelled"
    client = Script(answer("Done."))
    resumed = resume(store, cancelled.id, held, client=client)
    told = [message["content"] for message in client.requests[0] if message["role"] == "tool"]
    assert "Nobody knows" in told[0]
    assert "quick is done" in told[1]
    assert (resumed.stop_reason, kept) == ("answered", ["quick", "slow"])


def test_a_conversation_goes_on_in_which_a_tool_was_interrupted(store: TranscriptStore) -> None:
    post = Post()
    replies = [call("send", letter="A"), call("send", letter="B")]
    inbox = Said("Leave it. Send B.")

    class Second(Script):
        def chat(self, messages: Any, **_: Any) -> Reply:
            reply = super().chat(messages)
            post.interrupts = len(self.requests) == 1
            return reply

    with pytest.raises(SystemExit):
        run(post.harness, "Send A.", client=Second(*replies, SystemExit()), inbox=inbox, transcript=store)
    assert post.sent == ["A", "B"]
    store.write("UPDATE runs SET process = '1 long ago'", (), durable=False)
    live = Script(answer("B is sent."))
    resumed = resume(store, "last", post.harness, client=live, decide=lambda _: True)
    assert (resumed.stop_reason, resumed.answer, post.sent) == ("answered", "B is sent.", ["A", "B"])
    told = [message["content"] for message in live.requests[0] if message["role"] == "tool"]
    assert "interrupted this call" in told[0]
    assert "sent B" in told[1]
