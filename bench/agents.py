"""The shape of agents' requests, replayed: our server, our server with its cache off, and llama-server with its defaults.

    python bench/agents.py [--quick] [--peer PATH] [--peer-args ARGS] [--model MODEL] [--clients 8 4 1] [--off-clients 8]
                           [--rounds N] [--sessions N] [--turns N] [--keep FILE] [--limit-s S]

12 sessions of 8 turns, by 1, 4 and 8 clients at a time. A session begins with one of 3 sets of tools (1,024 tokens) and an
opening of 128; after each reply it waits 0.2 to 1 s, as for a tool, and sends all of it again with a result (lognormal, median
64 tokens, at most 256). Replies have 24 tokens, each tenth 96. All is drawn from one seed; the declarations of tools are text
of the system message, tool results are user messages and the chat template is ChatML for all, so every server reads exactly
the same tokens (`_texts.py`). Each replay begins with a server just started; the arms take turns.

*Total* is the time from the first request to the last reply. *Cached share* is what of the prompts' tokens came from the cache.
The oracle's share is what at best could: of each prompt the longest common token prefix with any request sent before it (and
with the reply, if that was there), but for one token, which must be evaluated.

`--quick`: SmolLM2, 6 sessions of 4 turns, shorter waits, one round of 4 and 1 at a time. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import queue
import random
import sys
import time
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from statistics import median
from typing import Any

from _client import Body, Deadline, Reply, ask, stream, together
from _rounds import Kept, add_keep_option, judged, machine, ratio_of, run_bench, turns
from _servers import (
    ArmFailed,
    Setup,
    add_options,
    end_on_sigterm,
    llama_server,
    ours,
    peer_version,
    say_if_no_peer,
    setup_of,
)
from _texts import Forced, Texts
from daneel.server.engines.prefix import common_prefix_length

OURS, OFF, PEER = "daneel", "daneel, cache off", "llama-server"
CONTEXT_TOKENS = 4096
WARM_UP = {"messages": [{"role": "user", "content": "?"}], "max_tokens": 2, "temperature": 0}
BOUNDS = {8: 0.85, 1: 1.0}
"""Our total over the peer's, by clients at a time."""


@dataclass(frozen=True)
class Shape:
    """The sizes of the replay, in tokens, turns and seconds."""

    sessions: int = 12
    tool_sets: int = 3
    shared_tokens: int = 1024
    opening_tokens: int = 128
    turns: int = 8
    append_median_tokens: int = 64
    append_max_tokens: int = 256
    reply_tokens: int = 24
    long_reply_tokens: int = 96
    long_share: float = 0.1
    wait_s: tuple[float, float] = (0.2, 1.0)
    seed: int = 20


QUICK = Shape(sessions=6, turns=4, wait_s=(0.05, 0.25))
_APPEND_SIGMA = 0.7


@dataclass(frozen=True)
class Step:
    """One turn of a session: all that is sent, the reply that is forced, and the wait before it."""

    messages: list[Body]
    reply: Forced
    wait_s: float


@dataclass(frozen=True)
class Done:
    """One request as it went. Times are seconds since the replay began."""

    session: int
    turn: int
    sent_s: float
    ended_s: float
    first_token_s: float
    prompt_tokens: int
    cached_tokens: int
    source: str | None
    miss: str | None


def plan(texts: Texts, shape: Shape) -> list[list[Step]]:
    """The sessions, drawn from the shape's seed. Replies are known before they are made, so all prompts are."""
    chance = random.Random(shape.seed)
    tool_sets = [texts.text(shape.shared_tokens, chance) for _ in range(shape.tool_sets)]
    sessions = []
    for number in range(shape.sessions):
        messages: list[Body] = [
            {"role": "system", "content": tool_sets[number % shape.tool_sets]},
            {"role": "user", "content": texts.text(shape.opening_tokens, chance)},
        ]
        steps = []
        for turn in range(shape.turns):
            size = shape.long_reply_tokens if chance.random() < shape.long_share else shape.reply_tokens
            reply = texts.forced(size, chance)
            steps.append(Step(list(messages), reply, chance.uniform(*shape.wait_s) if turn else 0.0))
            appended = round(shape.append_median_tokens * chance.lognormvariate(0, _APPEND_SIGMA))
            result = texts.text(max(4, min(shape.append_max_tokens, appended)), chance)
            messages += [{"role": "assistant", "content": reply.text}, {"role": "user", "content": result}]
        sessions.append(steps)
    return sessions


def replay(url: str, sessions: list[list[Step]], clients: int, deadline: Deadline, more: Body) -> list[Done]:
    """All sessions, `clients` at a time, each by one client from its first turn to its last."""
    stream(url, {**WARM_UP, **more}, deadline)
    waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
    for number in range(len(sessions)):
        waiting.put(number)
    done: list[Done] = []
    began = time.perf_counter()

    def client(_number: int) -> None:
        while True:
            try:
                session = waiting.get_nowait()
            except queue.Empty:
                return
            for turn, step in enumerate(sessions[session]):
                time.sleep(step.wait_s)
                reply = stream(url, {"messages": step.messages, **step.reply.fields(), **more}, deadline)
                _check(reply, step, session, turn)
                done.append(_done(reply, session, turn, began))

    together(client, list(range(min(clients, len(sessions)))))
    return done


def _check(reply: Reply, step: Step, session: int, turn: int) -> None:
    # a server may put white space off its reply; what comes back in the next turn is the same for all
    if reply.completion_tokens != step.reply.num_tokens or reply.text.split() != step.reply.text.split():
        said = f"{reply.completion_tokens} tokens, {reply.text[:40]!r}"
        wanted = f"{step.reply.num_tokens} times {step.reply.word!r}"
        raise ArmFailed(f"session {session}, turn {turn}: the reply was to be {wanted}, but is {said}")


def _done(reply: Reply, session: int, turn: int, began: float) -> Done:
    times = reply.sent_at - began, reply.ended_at - began, reply.first_token_s
    return Done(session, turn, *times, reply.prompt_tokens, reply.cached_tokens, reply.source, reply.miss)


def oracle(done: list[Done], prompts: dict[tuple[int, int], list[int]], replies: dict[tuple[int, int], list[int]]) -> list[int]:
    """Of each request, in the order they were sent, the tokens that a perfect cache would not have to evaluate."""
    in_order = sorted(done, key=lambda each: each.sent_s)
    best = []
    for at, request in enumerate(in_order):
        ids = prompts[request.session, request.turn]
        longest = 0
        for earlier in in_order[:at]:
            key = earlier.session, earlier.turn
            known = prompts[key] + replies[key] if earlier.ended_s <= request.sent_s else prompts[key]
            longest = max(longest, common_prefix_length(known, ids))
        best.append(min(longest, len(ids) - 1))
    return best


class Bench:
    """The arms and what they replay."""

    def __init__(self, setup: Setup, shape: Shape, deadline: Deadline) -> None:
        self._setup, self._deadline = setup, deadline
        with ours(setup, "--prompt-cache-size", "0") as url:
            self._sessions = plan(Texts(url, deadline), shape)
            self._prompts = {
                (session, turn): ask(url, "/render", {"messages": step.messages}, deadline)["token_ids"]
                for session, steps in enumerate(self._sessions)
                for turn, step in enumerate(steps)
            }
        self._replies = {
            (session, turn): [step.reply.token_id] * step.reply.num_tokens
            for session, steps in enumerate(self._sessions)
            for turn, step in enumerate(steps)
        }

    def run(self, arm: str, clients: int) -> dict[str, Any]:
        """One replay's figures. Raises `ArmFailed`, naming the arm."""
        print(f"{arm}, {clients} at a time ...", file=sys.stderr)
        try:
            with self._server(arm, clients) as url:
                more: Body = {"cache": {"mode": "off"}} if arm == OFF else {}
                done = replay(url, self._sessions, clients, self._deadline, more)
            figures = self._figures(done)
        except ArmFailed as error:
            raise ArmFailed(f"{arm}, {clients} at a time: {error}") from error
        print(f"  {figures['total_s']:.1f} s, cached share {figures['cached_share']:.3f}", file=sys.stderr)
        return figures

    def _server(self, arm: str, clients: int) -> AbstractContextManager[str]:
        setup = replace(self._setup, parallel=clients)
        if arm == PEER:
            return llama_server(setup)
        return ours(setup, "--prompt-cache-size", "0") if arm == OFF else ours(setup)

    def _figures(self, done: list[Done]) -> dict[str, Any]:
        for each in done:
            if each.prompt_tokens != (wanted := len(self._prompts[each.session, each.turn])):
                raise ArmFailed(f"the server counts {each.prompt_tokens} tokens in a prompt that has {wanted}")
        in_order = sorted(done, key=lambda each: each.sent_s)
        best = oracle(in_order, self._prompts, self._replies)
        prompt_tokens = sum(each.prompt_tokens for each in done)
        short = [
            {**asdict(each), "oracle": could}
            for each, could in zip(in_order, best, strict=True)
            if each.cached_tokens < could - 16
        ]
        return {
            "total_s": max(each.ended_s for each in done),
            "first_token_s": median(each.first_token_s for each in done),
            "prompt_tokens": prompt_tokens,
            "evaluated_tokens": prompt_tokens - sum(each.cached_tokens for each in done),
            "cached_share": sum(each.cached_tokens for each in done) / prompt_tokens,
            "oracle_share": sum(best) / prompt_tokens,
            "below_oracle": short,
        }


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    add_options(options)
    add_keep_option(options)
    options.add_argument("--quick", action="store_true", help="SmolLM2, fewer sessions, one round")
    options.add_argument("--clients", type=int, nargs="+", help="sessions at a time")
    options.add_argument("--off-clients", type=int, nargs="*", help="of these, those that the cache-off arm runs, too")
    options.add_argument("--rounds", type=int)
    options.add_argument("--sessions", type=int)
    options.add_argument("--turns", type=int)
    chosen = options.parse_args()
    end_on_sigterm()
    clients = chosen.clients or ([4, 1] if chosen.quick else [8, 4, 1])
    off = clients[:1] if chosen.off_clients is None else chosen.off_clients
    shape = QUICK if chosen.quick else Shape()
    shape = replace(shape, sessions=chosen.sessions or shape.sessions, turns=chosen.turns or shape.turns)
    model = "smollm2-135m" if chosen.quick else "qwen2.5-0.5b"
    deadline = Deadline(chosen.limit_s)
    with setup_of(chosen, model=model, context_tokens=CONTEXT_TOKENS, parallel=max(clients)) as setup:
        say_if_no_peer(setup)
        version = peer_version(setup)
        facts = {"benchmark": "agents", **setup.facts(), "peer": version, "peer_args": setup.peer_args, "shape": asdict(shape)}
        kept = Kept(chosen.keep, facts)
        bench = Bench(setup, shape, deadline)
        runs: dict[tuple[str, int], list[dict[str, Any]]] = {}
        for at_a_time in clients:
            arms = [OURS, *([PEER] if setup.peer else []), *([OFF] if at_a_time in off else [])]
            for number in range(chosen.rounds or (1 if chosen.quick else 3)):
                for arm in turns(arms, number):
                    run = kept.get((arm, at_a_time, number), lambda arm=arm, n=at_a_time: bench.run(arm, n))
                    runs.setdefault((arm, at_a_time), []).append(run)
    report(runs, clients, facts)


def report(runs: dict[tuple[str, int], list[dict[str, Any]]], clients: list[int], facts: dict[str, Any]) -> None:
    rows = [{"arm": arm, "at_a_time": number, **_medians(each)} for (arm, number), each in runs.items()]
    print(f"{'arm':<20}{'at a time':>10}{'total s':>10}{'first s':>10}{'evaluated':>11}{'cached':>8}{'oracle':>8}")
    for row in rows:
        figures = f"{row['total_s']:>10.1f}{row['first_token_s']:>10.3f}{row['evaluated_tokens']:>11.0f}"
        print(f"{row['arm']:<20}{row['at_a_time']:>10}{figures}{row['cached_share']:>8.3f}{row['oracle_share']:>8.3f}")
    judgements: dict[str, Any] = {}
    for number in clients:
        mine = runs[OURS, number]
        share = min(run["cached_share"] / run["oracle_share"] for run in mine)
        name = f"cached share over the oracle's, {number} at a time"
        judgements[name] = judged(name, share, 0.95, at_most=False)
        totals = [run["total_s"] for run in mine]
        if theirs := runs.get((PEER, number)):
            name = f"total over llama-server's, {number} at a time"
            ratio = ratio_of(totals, [run["total_s"] for run in theirs])
            if number in BOUNDS:
                judgements[name] = judged(name, ratio, BOUNDS[number], at_most=True)
            else:
                print(f"{name}: {ratio:.3f}")
                judgements[name] = {"value": round(ratio, 4)}
        if without := runs.get((OFF, number)):
            name = f"times faster than with the cache off, {number} at a time"
            judgements[name] = judged(name, ratio_of([run["total_s"] for run in without], totals), 3.0, at_most=False)
        _say_short(mine, number)
    print(json.dumps({**facts, **machine(), "rounds": len(runs[OURS, clients[0]]), "rows": rows, "figures": judgements}))


def _medians(runs: list[dict[str, Any]]) -> dict[str, float]:
    return {name: round(median(run[name] for run in runs), 4) for name in runs[0] if name != "below_oracle"}


def _say_short(runs: list[dict[str, Any]], number: int) -> None:
    """Why requests of ours got less from the cache than the oracle, the worst first."""
    short = sorted(
        (each for run in runs for each in run["below_oracle"]), key=lambda each: each["cached_tokens"] - each["oracle"]
    )
    for each in short[:5]:
        got = f"{each['cached_tokens']} of {each['oracle']} tokens that were known"
        print(f"  {number} at a time, session {each['session']}, turn {each['turn']}: {got}; {each['miss']}", file=sys.stderr)


if __name__ == "__main__":
    run_bench(main)
