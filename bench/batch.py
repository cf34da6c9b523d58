"""Streams over HTTP against a bare loop around `llama_decode`, in one run: one stream, and 8 at a time.

    python bench/batch.py [--model MODEL] [--batch 1 8] [--threads N] [--prompt-tokens 128] [--reply-tokens 128] [--rounds 5]
                          [--quick] [--limit-s S]

Both arms have the same weights, prompts, threads and samplers and make the same tokens (`_texts.py`); the cache is off and the
arms take turns. The bare loop fills the sequences one after the other and then decodes all of them together, a token each a
step: a server can at best do the same. *Decode* counts only while all streams run: from the last one's first token to the first
one's last. *Whole* is from the start to the last token, prefill and HTTP included. What is left between the arms is everything
the server adds: its processes, detokenising, parsing, events, HTTP, and the client, which has the same cores. Aimed at, of the
bare loop's decode: 0.95 for one stream with one thread, 0.90 for one with more, 0.90 for 8. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from statistics import median
from typing import Any

from _bare import BareLoop, BareTiming
from _client import Body, Deadline, Reply, ask, stream, together
from _rounds import judged, machine, ratio_of, run_bench
from _servers import ArmFailed, add_options, end_on_sigterm, ours, setup_of
from _texts import Forced, Texts


def ours_once(url: str, prompts: list[str], forced: list[Forced], deadline: Deadline) -> dict[str, float]:
    """Tokens per second of all streams together."""
    bodies: list[Body] = [
        {"messages": _messages(prompt), "cache": {"mode": "off"}, **each.fields()}
        for prompt, each in zip(prompts, forced, strict=True)
    ]
    replies: list[Reply] = together(lambda body: stream(url, body, deadline), bodies)
    for reply, each in zip(replies, forced, strict=True):
        if reply.completion_tokens != each.num_tokens or len(reply.token_at) != each.num_tokens:
            said = f"{reply.completion_tokens} tokens in {len(reply.token_at)} events"
            raise ArmFailed(f"a reply of {each.num_tokens} tokens came as {said}")
    began = min(reply.sent_at for reply in replies)
    opened = max(reply.token_at[0] for reply in replies)
    closed = min(reply.token_at[-1] for reply in replies)
    inside = sum(opened < at <= closed for reply in replies for at in reply.token_at)
    if inside < 4 * len(replies):
        raise ArmFailed("the streams did not run at the same time for long enough: give a longer --reply-tokens")
    whole_s = max(reply.token_at[-1] for reply in replies) - began
    return {"decode": inside / (closed - opened), "whole": sum(each.num_tokens for each in forced) / whole_s}


def bare_once(timing: BareTiming, sequences: int) -> dict[str, float]:
    whole_s = timing.prefill_s + timing.decode_s
    return {
        "decode": sequences * timing.num_steps / timing.decode_s,
        "whole": sequences * (timing.num_steps + 1) / whole_s,
    }


def _messages(prompt: str) -> list[Body]:
    return [{"role": "user", "content": prompt}]


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    add_options(options, peer=False)
    options.add_argument("--batch", type=int, nargs="+", default=[1, 8], help="streams at a time")
    options.add_argument("--prompt-tokens", type=int, default=128)
    options.add_argument("--reply-tokens", type=int, default=128)
    options.add_argument("--rounds", type=int)
    options.add_argument("--quick", action="store_true", help="SmolLM2, three rounds")
    chosen = options.parse_args()
    end_on_sigterm()
    deadline, chance = Deadline(chosen.limit_s), random.Random(5)
    model = "smollm2-135m" if chosen.quick else "qwen2.5-0.5b"
    context, most = chosen.prompt_tokens + chosen.reply_tokens + 64, max(chosen.batch)
    runs: dict[int, list[tuple[dict[str, float], dict[str, float]]]] = {size: [] for size in chosen.batch}
    with setup_of(chosen, model=model, context_tokens=context, parallel=most) as setup, ours(setup) as url:
        facts = {"benchmark": "batch", **setup.facts()}
        texts = Texts(url, deadline)
        prompts = [texts.text(chosen.prompt_tokens, chance) for _ in range(most)]
        forced = [texts.forced(chosen.reply_tokens, chance) for _ in range(most)]
        ids = [ask(url, "/render", {"messages": _messages(prompt)}, deadline)["token_ids"] for prompt in prompts]
        loop = BareLoop(setup.model_path, threads=setup.threads, sequences=most, context_tokens=context)
        loop.run(ids[:1], forced[:1])
        ours_once(url, prompts[:1], forced[:1], deadline)
        for number in range(chosen.rounds or (3 if chosen.quick else 5)):
            for size in chosen.batch:
                mine = ours_once(url, prompts[:size], forced[:size], deadline)
                bare = bare_once(loop.run(ids[:size], forced[:size]), size)
                runs[size].append((mine, bare))
                shown = f"{mine['decode']:.1f} tokens/s, bare {bare['decode']:.1f}"
                print(f"round {number + 1}, {size} at a time: {shown}", file=sys.stderr)
    report(runs, facts, setup.threads)


def report(runs: dict[int, list[tuple[dict[str, float], dict[str, float]]]], facts: dict[str, Any], threads: int) -> None:
    rows, figures = [], {}
    print(f"{'tokens/s':<10}{'at a time':>10}{'ours':>10}{'bare':>10}{'ratio':>8}")
    for size, rounds in runs.items():
        for name in ("decode", "whole"):
            mine, bare = ([pair[side][name] for pair in rounds] for side in (0, 1))
            row = {"figure": name, "at_a_time": size, "ours": median(mine), "bare": median(bare), "ratio": ratio_of(mine, bare)}
            rows.append({key: round(value, 4) if isinstance(value, float) else value for key, value in row.items()})
            print(f"{name:<10}{size:>10}{row['ours']:>10.1f}{row['bare']:>10.1f}{row['ratio']:>8.3f}")
            if name == "decode":
                bound = 0.95 if size == 1 and threads == 1 else 0.9
                title = f"decode over the bare loop's, {size} at a time, {threads} threads"
                figures[title] = judged(title, row["ratio"], bound, at_most=False)
    print(json.dumps({**facts, **machine(), "rounds": len(next(iter(runs.values()))), "rows": rows, "figures": figures}))


if __name__ == "__main__":
    run_bench(main)
