"""A task of twelve steps that writes to a ledger, its scripted model, and a process that is killed in the middle of it.

The model has no memory but the conversation it is sent: what is done, and what it has to look up, it reads from there. So a run
that was rebuilt wrongly goes another way, and the ledger shows what was done twice or not at all.

As a program (`python -m tests.support.twelve_steps`) it reads jobs from standard input, a JSON object a line, does each in a
process of its own, and answers with a line when that process is gone. `kill_at` is the moment at which it kills itself: moments
are before and after each write to the store, each effect on the ledger and each reply of the model.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from daneel import Harness, tool
from daneel.harness.loop import run
from daneel.harness.reply import Reply
from daneel.harness.resume import resume
from daneel.harness.run_record import Run
from daneel.harness.safety.policy import SafetyPolicy
from daneel.harness.transcript import TranscriptStore
from daneel.wire.messages import FunctionCall, Message, ToolCall

NUM_STEPS = 12
KINDS = ("note", "note", "note", "pair", "looks", "look", "bad", "empty", "twice", "fails")

Moment = Callable[[], None]


class Model:
    """The scripted model of one seed; the other half of `ChatClient`."""

    is_daneel = True

    def __init__(self, seed: int, moment: Moment = lambda: None) -> None:
        draw = random.Random(seed)
        self.plan = [draw.choice(KINDS) for _ in range(NUM_STEPS)]
        self._moment = moment

    @property
    def expected(self) -> list[str]:
        """The ledger when all is done once."""
        keys: list[str] = []
        for number, kind in enumerate(self.plan):
            writes = {"pair": 2, "look": 0, "looks": 0, "fails": 0}.get(kind, 1)
            keys += [f"s{number}{letter}" for letter in "ab"[:writes]]
        return keys

    def chat(self, messages: Sequence[dict[str, Any]], **_: Any) -> Reply:
        self._moment()
        reply = self._reply(list(messages))
        self._moment()
        return reply

    def _reply(self, messages: list[dict[str, Any]]) -> Reply:
        results, unknown, seen = _read(messages)
        for number, kind in enumerate(self.plan):
            keys = [f"s{number}{letter}" for letter in ("ab" if kind == "pair" else "a")]
            unsure = [key for key in keys if key in unknown]
            if unsure:
                # it may have been done: look first, then do what the ledger lacks
                missing = [key for key in unsure if seen is not None and key not in seen]
                if seen is None:
                    return _calls(("look", {"why": f"s{number}?"}))
                if missing:
                    return _calls(*(("note", {"key": key}) for key in missing))
                continue
            if all(key in results for key in keys):
                continue
            told = [message for message in messages if f"s{number}" in str(message.get("content"))]
            return self._step(number, kind, keys, told, messages)
        return Reply(Message(role="assistant", content=f"Done: {', '.join(self.expected)}"), "stop")

    def _step(self, number: int, kind: str, keys: list[str], told: list[Any], messages: list[dict[str, Any]]) -> Reply:
        if kind == "look":
            return _calls(("look", {"why": keys[0]}))
        if kind == "looks":
            return _calls(("look", {"why": keys[0]}), ("look", {"why": f"s{number}x"}))
        if kind == "fails":
            return _calls(("fail", {"key": keys[0]}))
        if kind == "bad" and "bad" not in str(messages[-1].get("content")):
            return _calls(("note", {"bad": "bad"}))
        if kind == "empty" and messages[-1]["role"] != "user":
            return Reply(Message(role="assistant", content=""), "stop")
        if kind == "twice":
            return _calls(("note", {"key": keys[0]}), ("look", {"why": f"s{number}x"}))
        return _calls(*(("note", {"key": key}) for key in keys))


def _read(messages: list[dict[str, Any]]) -> tuple[set[str], set[str], str | None]:
    """Keys with a result, keys whose outcome is not known, and the ledger if it was looked at since the last of those."""
    asked: dict[str, dict[str, Any]] = {}
    results: set[str] = set()
    unknown: set[str] = set()
    seen: str | None = None
    for message in messages:
        for call in message.get("tool_calls", ()):
            asked[call["id"]] = json.loads(call["function"]["arguments"])
        if message["role"] != "tool":
            continue
        arguments = asked[message["tool_call_id"]]
        key = arguments.get("key") or arguments.get("why")
        if "was interrupted while note" in message["content"]:
            unknown.add(key)
            seen = None
        elif key:
            results.add(key)
            if "why" in arguments:
                seen = message["content"]
            else:
                unknown.discard(key)
    return results, unknown, seen


def _calls(*named: tuple[str, dict[str, Any]]) -> Reply:
    # the same ids every time, as some servers give them
    calls = [
        ToolCall(id=f"call{number}", function=FunctionCall(name, json.dumps(arguments)), type="function", index=number)
        for number, (name, arguments) in enumerate(named)
    ]
    return Reply(Message(role="assistant", content=None, tool_calls=calls), "tool_calls")


def harness(ledger: Path, moment: Moment = lambda: None) -> Harness:
    """The task's harness. Its tools are the same whatever `moment` does."""

    @tool(effects="write")
    def note(key: str) -> str:
        """Write a key into the ledger."""
        moment()
        with ledger.open("a") as file:
            file.write(f"{key}\n")
        moment()
        return f"noted {key}"

    @tool(effects="read", parallel=True)
    def look(why: str) -> str:
        """What the ledger holds."""
        moment()
        return ledger.read_text() if ledger.exists() else "nothing"

    @tool
    def fail(key: str) -> str:
        """Never works."""
        raise ValueError(f"no {key}")

    allowed = SafetyPolicy(allow=["read", "write"])
    return Harness(tools=[note, look, fail], system="Do the twelve steps.", max_turns=60, safety=allowed)


class KilledStore(TranscriptStore):
    """A store with a moment before and after each write."""

    moment: Moment = staticmethod(lambda: None)

    def write(self, sql: str, values: tuple[Any, ...], *, durable: bool) -> int:
        self.moment()
        changed = super().write(sql, values, durable=durable)
        self.moment()
        return changed


def moments_until(kill_at: int | None) -> tuple[Moment, Callable[[], int]]:
    """A moment that kills this process when it comes for the `kill_at`-th time, and how often it has come."""
    count = 0

    def moment() -> None:
        nonlocal count
        count += 1
        if count == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    return moment, lambda: count


def play(job: dict[str, Any]) -> tuple[Run, int]:
    """Run the task, or go on with it (`resume`), and count the moments."""
    moment, count = moments_until(job.get("kill_at"))
    with KilledStore(Path(job["store"])) as store:
        store.moment = moment
        held = harness(Path(job["ledger"]), moment)
        model = Model(job["seed"], moment)
        if job.get("resume"):
            return resume(store, "last", held, client=model), count()
        return run(held, "Go.", client=model, transcript=store, seed=job["seed"]), count()


def main() -> None:
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                play(json.loads(line))
                code = 0
            finally:
                os._exit(code)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


if __name__ == "__main__":
    main()
