"""Trials of one goal, started together: how long until the last of them has its first token? Our server and llama-server.

    python bench/trials.py [--quick] [--peer PATH] [--peer-args ARGS] [--model MODEL] [--trials 8] [--rounds N] [--limit-s S]

8 requests with the same prompt, 2,000 tokens of system prompt and tools and a goal of 32, are sent at the same moment to a
server that has not seen them. Both servers run for the whole bench and take turns; each round has a prompt of its own, the same
for both, of exactly the same tokens (`_texts.py`).

`--quick`: SmolLM2, two rounds, or one where that took long. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from contextlib import ExitStack
from statistics import median
from typing import Any

from _client import Body, Deadline, Reply, stream, together
from _rounds import judged, machine, ratio_of, run_bench, turns
from _servers import ArmFailed, add_options, end_on_sigterm, llama_server, ours, peer_version, say_if_no_peer, setup_of
from _texts import Forced, Texts

OURS, PEER = "daneel", "llama-server"
PREFIX_TOKENS, GOAL_TOKENS, REPLY_TOKENS = 2000, 32, 8
BOUND = 0.25
QUICK_S = 150.0


def together_once(url: str, messages: list[Body], forced: Forced, number: int, deadline: Deadline) -> dict[str, Any]:
    """So many trials at once. Seconds from the first request to the last first token, and to the last reply's end."""
    body = {"messages": messages, **forced.fields()}
    replies: list[Reply] = together(lambda seed: stream(url, {**body, "seed": seed}, deadline), list(range(number)))
    began = min(reply.sent_at for reply in replies)
    return {
        "last_first_token_s": max(reply.token_at[0] for reply in replies) - began,
        "first_first_token_s": min(reply.token_at[0] for reply in replies) - began,
        "total_s": max(reply.ended_at for reply in replies) - began,
        "prompt_tokens": replies[0].prompt_tokens,
        "cached_tokens": [reply.cached_tokens for reply in replies],
    }


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    add_options(options)
    options.add_argument("--quick", action="store_true", help="SmolLM2, two rounds")
    options.add_argument("--trials", type=int, default=8)
    options.add_argument("--rounds", type=int)
    options.add_argument("--prefix-tokens", type=int, default=PREFIX_TOKENS)
    chosen = options.parse_args()
    end_on_sigterm()
    model = "smollm2-135m" if chosen.quick else "qwen2.5-0.5b"
    rounds = chosen.rounds or (2 if chosen.quick else 3)
    deadline = Deadline(chosen.limit_s)
    context = chosen.prefix_tokens + 256
    with setup_of(chosen, model=model, context_tokens=context, parallel=chosen.trials) as setup, ExitStack() as stack:
        say_if_no_peer(setup)
        facts = {"benchmark": "trials", **setup.facts(), "peer": peer_version(setup), "peer_args": setup.peer_args}
        urls = {OURS: stack.enter_context(ours(setup))}
        if setup.peer is not None:
            urls[PEER] = stack.enter_context(llama_server(setup))
        texts, chance = Texts(urls[OURS], deadline), random.Random(7)
        for url in urls.values():  # the weights are read in
            warm = [{"role": "user", "content": texts.text(16, chance)}]
            together_once(url, warm, texts.forced(REPLY_TOKENS, chance), 1, deadline)
        runs: dict[str, list[dict[str, Any]]] = {arm: [] for arm in urls}
        began = time.monotonic()
        for number in range(rounds):
            each_s = (time.monotonic() - began) / max(1, number)
            if chosen.quick and each_s * (number + 1) > QUICK_S:
                print(f"no more rounds: this machine needs {each_s:.0f} s for one", file=sys.stderr)
                break
            messages = [
                {"role": "system", "content": texts.text(chosen.prefix_tokens, chance)},
                {"role": "user", "content": texts.text(GOAL_TOKENS, chance)},
            ]
            forced = texts.forced(REPLY_TOKENS, chance)
            for arm in turns(list(urls), number):
                try:
                    runs[arm].append(together_once(urls[arm], messages, forced, chosen.trials, deadline))
                except ArmFailed as error:
                    raise ArmFailed(f"{arm}, round {number + 1}: {error}") from error
                last_s = runs[arm][-1]["last_first_token_s"]
                print(f"round {number + 1}, {arm}: the last first token after {last_s:.2f} s", file=sys.stderr)
            if len(counts := {each[-1]["prompt_tokens"] for each in runs.values()}) > 1:
                raise ArmFailed(f"the servers count the same prompt differently: {sorted(counts)} tokens")
    report(runs, {**facts, "trials": chosen.trials, "rounds": len(runs[OURS])})


def report(runs: dict[str, list[dict[str, Any]]], facts: dict[str, Any]) -> None:
    rows = []
    print(f"{'arm':<16}{'first first':>13}{'last first':>13}{'total':>13}  cached tokens of the last round")
    for arm, each in runs.items():
        names = ("first_first_token_s", "last_first_token_s", "total_s")
        figures = {name: round(median(run[name] for run in each), 4) for name in names}
        rows.append({"arm": arm, **figures, "cached_tokens": each[-1]["cached_tokens"]})
        times = "".join(f"{figures[name]:>13.3f}" for name in names)
        print(f"{arm:<16}{times}  {each[-1]['cached_tokens']}")
    judgements = {}
    if PEER in runs:
        mine, theirs = ([run["last_first_token_s"] for run in runs[arm]] for arm in (OURS, PEER))
        name = "time to the last first token over llama-server's"
        judgements[name] = judged(name, ratio_of(mine, theirs), BOUND, at_most=True)
    print(json.dumps({**facts, **machine(), "rows": rows, "figures": judgements}))


if __name__ == "__main__":
    run_bench(main)
