"""A restart with a prompt cache on disk: do sessions go on as if nothing had happened?

    python bench/restart.py [--model MODEL] [--sessions 5] [--turns 3] [--prefix-tokens 1024] [--rounds N] [--quick]
                             [--threads N] [--limit-s S]

5 sessions of 3 turns are held one after the other, greedily; replies are the model's own and come back as its text, as clients
send them. Then the last turn of each is sent again (*warm*), the server is stopped and started with the same folder, and sent
once more (*restored*), each followed by the same prompt with the cache off (*cold*). Aimed at: of the tokens that the warm
requests had from the cache, at least 95 % come from the disk after the restart; the time to the first token is at most a tenth
of the cold one (median over the sessions of their ratios); the replies are the warm ones, byte for byte.

`--quick`: SmolLM2, one round. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from dataclasses import dataclass
from statistics import median
from typing import Any

from _client import Body, Deadline, Reply, stream
from _rounds import judged, machine, run_bench
from _servers import Setup, add_options, end_on_sigterm, ours, setup_of
from _texts import Texts

REPLY_TOKENS, OPENING_TOKENS, APPEND_TOKENS = 32, 64, 64


@dataclass(frozen=True)
class Sent:
    """The last turn of one session in all its forms."""

    warm: Reply
    restored: Reply
    cold: Reply


def hold(url: str, texts: Texts, chance: random.Random, turns: int, prefix_tokens: int, deadline: Deadline) -> list[Body]:
    """One session; the messages of its last request."""
    messages: list[Body] = [
        {"role": "system", "content": texts.text(prefix_tokens, chance)},
        {"role": "user", "content": texts.text(OPENING_TOKENS, chance)},
    ]
    for _ in range(turns - 1):
        reply = stream(url, _body(messages), deadline)
        messages += [
            {"role": "assistant", "content": reply.text},
            {"role": "user", "content": texts.text(APPEND_TOKENS, chance)},
        ]
    stream(url, _body(messages), deadline)
    return messages


def _body(messages: list[Body]) -> Body:
    return {"messages": list(messages), "temperature": 0, "max_tokens": REPLY_TOKENS}


def one_round(setup: Setup, chosen: argparse.Namespace, number: int, deadline: Deadline) -> list[Sent]:
    """Everything once, with a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        with ours(setup, "--prompt-cache-dir", folder) as url:
            texts, chance = Texts(url, deadline), random.Random(number)
            sessions = [hold(url, texts, chance, chosen.turns, chosen.prefix_tokens, deadline) for _ in range(chosen.sessions)]
            warm = [stream(url, _body(messages), deadline) for messages in sessions]
        print(f"round {number + 1}: {chosen.sessions} sessions held, the server starts again", file=sys.stderr)
        with ours(setup, "--prompt-cache-dir", folder) as url:
            # the weights are read in
            stream(url, {**_body([{"role": "user", "content": "?"}]), "cache": {"mode": "off"}}, deadline)
            both = [
                (stream(url, _body(messages), deadline), stream(url, {**_body(messages), "cache": {"mode": "off"}}, deadline))
                for messages in sessions
            ]
    return [Sent(before, *after) for before, after in zip(warm, both, strict=True)]


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    add_options(options, peer=False)
    options.add_argument("--quick", action="store_true", help="SmolLM2, one round")
    options.add_argument("--sessions", type=int, default=5)
    options.add_argument("--turns", type=int, default=3)
    options.add_argument("--prefix-tokens", type=int, default=1024)
    options.add_argument("--rounds", type=int)
    chosen = options.parse_args()
    end_on_sigterm()
    deadline = Deadline(chosen.limit_s)
    model = "smollm2-135m" if chosen.quick else "qwen2.5-0.5b"
    context = chosen.prefix_tokens + 128 + chosen.turns * (REPLY_TOKENS + APPEND_TOKENS + 16)
    sent: list[Sent] = []
    with setup_of(chosen, model=model, context_tokens=context, parallel=2) as setup:
        facts = {"benchmark": "restart", **setup.facts(), "sessions": chosen.sessions, "turns": chosen.turns}
        for number in range(chosen.rounds or (1 if chosen.quick else 3)):
            sent += one_round(setup, chosen, number, deadline)
    report(sent, facts)


def report(sent: list[Sent], facts: dict[str, Any]) -> None:
    print(f"{'prompt':>8}{'warm':>7}{'restored':>10}  {'source':<12}{'warm s':>9}{'restored s':>12}{'cold s':>9}  reply")
    for each in sent:
        warm, restored, cold = each.warm, each.restored, each.cold
        counts = f"{warm.prompt_tokens:>8}{warm.cached_tokens:>7}{restored.cached_tokens:>10}  {restored.source or '-':<12}"
        times = f"{warm.first_token_s:>9.3f}{restored.first_token_s:>12.3f}{cold.first_token_s:>9.3f}"
        print(f"{counts}{times}  {'the same' if restored.text == warm.text else 'ANOTHER'}")
        if restored.cached_tokens < warm.cached_tokens:
            print(f"  restored fewer than were warm: {restored.miss}", file=sys.stderr)
    from_disk = sum(each.restored.cached_tokens for each in sent if each.restored.source == "disk")
    share = from_disk / max(1, sum(each.warm.cached_tokens for each in sent))
    first = median(each.restored.first_token_s / each.cold.first_token_s for each in sent)
    same = sum(each.restored.text == each.warm.text for each in sent) / len(sent)
    figures = {
        name: judged(name, value, bound, at_most=at_most)
        for name, value, bound, at_most in (
            ("share of the prefix restored from disk", share, 0.95, False),
            ("time to the first token over the cold one", first, 0.1, True),
            ("replies that are the warm ones", same, 1.0, False),
        )
    }
    print(json.dumps({**facts, **machine(), "requests": len(sent), "figures": figures}))


if __name__ == "__main__":
    run_bench(main)
