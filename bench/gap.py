"""A long prompt arrives while another reply is being generated: how long does that reply stand still?

    python bench/gap.py [--model MODEL] [--prompt-tokens 2000] [--reply-tokens 200] [--rounds 5] [--quick] [--limit-s S]

A stream runs; after a third of its tokens a request with a prompt of 2,000 tokens comes, with the cache off. *Step* is the
median time between two tokens of the running stream before that. *Chunk* is the longest time between two parts of the same
prompt when it is evaluated alone (our server tells of each part it has done), once before and once after; the longer counts.
*Gap* is the longest time between two tokens of the running stream from the request's sending to its first token. What is aimed
at: gap at most 3 steps and one chunk. Every figure is of the same round, the median over the rounds counts, and the worst is
shown beside. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import threading
import time
from itertools import pairwise
from statistics import median
from typing import Any

from _client import Body, Deadline, Reply, stream
from _rounds import judged, machine, run_bench
from _servers import ArmFailed, add_options, end_on_sigterm, ours, setup_of
from _texts import Texts

OFF: Body = {"cache": {"mode": "off"}}
BOUND_STEPS = 3.0


class Arrival:
    """One round: the running stream in a thread of its own, the long prompt in this one."""

    def __init__(self, url: str, texts: Texts, chance: random.Random, deadline: Deadline) -> None:
        self._url, self._texts, self._chance, self._deadline = url, texts, chance, deadline

    def run(self, prompt_tokens: int, reply_tokens: int) -> dict[str, float]:
        long = self._body(prompt_tokens, 4)
        short = self._body(64, reply_tokens)
        alone = stream(self._url, self._body(64, reply_tokens // 3), self._deadline)
        chunks = [_longest_chunk(stream(self._url, long, self._deadline))]
        running, arrived = self._both(short, long, alone.ended_at - alone.sent_at)
        chunks.append(_longest_chunk(stream(self._url, long, self._deadline)))
        return _figures(running, arrived, max(chunks))

    def _body(self, prompt_tokens: int, reply_tokens: int) -> Body:
        content = self._texts.text(prompt_tokens, self._chance)
        forced = self._texts.forced(reply_tokens, self._chance)
        return {"messages": [{"role": "user", "content": content}], **forced.fields(), **OFF}

    def _both(self, short: Body, long: Body, after_s: float) -> tuple[Reply, Reply]:
        replies: list[Reply] = []
        failures: list[Exception] = []

        def run() -> None:
            try:
                replies.append(stream(self._url, short, self._deadline))
            except Exception as error:  # noqa: BLE001 - told to the main thread
                failures.append(error)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        time.sleep(after_s)
        arrived = stream(self._url, long, self._deadline)
        while thread.is_alive():
            thread.join(timeout=0.2)
        if failures:
            raise failures[0]
        return replies[0], arrived


def _longest_chunk(reply: Reply) -> float:
    """Of a prompt that is evaluated alone. The first of the times is when the server took the request, not a part."""
    times = [*reply.prefill_at, reply.token_at[0]]
    if len(times) < 3:
        raise ArmFailed("the server told of no parts of the prompt: is it longer than one chunk?")
    return max(later - earlier for earlier, later in pairwise(times))


def _figures(running: Reply, arrived: Reply, chunk_s: float) -> dict[str, float]:
    began, ended = arrived.sent_at, arrived.token_at[0]
    before = [later - earlier for earlier, later in pairwise(running.token_at) if later <= began]
    during = [later - earlier for earlier, later in pairwise(running.token_at) if later > began and earlier < ended]
    if len(before) < 8 or running.token_at[-1] < ended:
        raise ArmFailed(
            f"the prompt did not fall into the stream ({len(before)} steps before, the stream's end "
            f"{running.token_at[-1] - ended:.2f} s after its first token): give another --reply-tokens"
        )
    step_s, gap_s = median(before), max(during)
    return {
        "step_s": step_s,
        "chunk_s": chunk_s,
        "gap_s": gap_s,
        "tokens_during": float(len(during)),
        "steps_over_chunk": (gap_s - chunk_s) / step_s,
        "of_bound": gap_s / (BOUND_STEPS * step_s + chunk_s),
        "prefill_s": ended - began,
    }


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    add_options(options, peer=False)
    options.add_argument("--quick", action="store_true", help="SmolLM2, three rounds")
    options.add_argument("--prompt-tokens", type=int, default=2000)
    options.add_argument("--reply-tokens", type=int, default=200)
    options.add_argument("--rounds", type=int)
    chosen = options.parse_args()
    end_on_sigterm()
    deadline = Deadline(chosen.limit_s)
    model = "smollm2-135m" if chosen.quick else "qwen2.5-0.5b"
    context = chosen.prompt_tokens + chosen.reply_tokens + 256
    rounds: list[dict[str, float]] = []
    with setup_of(chosen, model=model, context_tokens=context, parallel=2) as setup:
        facts = {"benchmark": "gap", **setup.facts(), "prompt_tokens": chosen.prompt_tokens}
        with ours(setup) as url:
            arrival = Arrival(url, Texts(url, deadline), random.Random(3), deadline)
            for number in range(chosen.rounds or (3 if chosen.quick else 5)):
                rounds.append(arrival.run(chosen.prompt_tokens, chosen.reply_tokens))
                shown = ", ".join(f"{name} {value:.4f}" for name, value in rounds[-1].items())
                print(f"round {number + 1}: {shown}", file=sys.stderr)
    report(rounds, facts)


def report(rounds: list[dict[str, float]], facts: dict[str, Any]) -> None:
    medians = {name: round(median(each[name] for each in rounds), 5) for name in rounds[0]}
    print(f"{'':<20}{'median':>10}{'worst':>10}")
    for name in ("step_s", "chunk_s", "gap_s", "steps_over_chunk", "of_bound"):
        print(f"{name:<20}{medians[name]:>10.4f}{max(each[name] for each in rounds):>10.4f}")
    name = "worst gap over 3 steps and one chunk"
    figures = {name: judged(name, medians["of_bound"], 1.0, at_most=True)}
    worst = round(max(each["of_bound"] for each in rounds), 4)
    print(json.dumps({**facts, **machine(), "rounds": len(rounds), "medians": medians, "worst": worst, "figures": figures}))


if __name__ == "__main__":
    run_bench(main)
