"""How near to the machine's ceiling: prefill against its arithmetic, decode against its memory; llama.cpp and our server.

    python bench/roofline.py [--model MODEL] [--threads N] [--prompt-tokens 512] [--reply-tokens 64] [--rounds 5] [--quick]

The ceilings are measured in the same rounds, with as many threads: floating-point operations per second of numpy's float32
matrix product, and bytes per second read from memory. A token of the prompt costs 2 operations per weight of the layers and the
attention's 4 x layers x width x tokens before it; the output matrix is needed once. A decoded token reads every weight once,
and the keys and values of all tokens before it. (The table of embeddings is not read but looked up, unless it is the output
matrix too.) llama.cpp computes with 8-bit integers where the CPU can, so its prefill could in principle pass that ceiling.

*bare* is a loop around `llama_decode`, *ours* the same over HTTP with the cache off. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import random
import struct
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from _bare import BareLoop, BareTiming
from _client import Body, Deadline, Reply, ask, stream
from _rounds import machine, run_bench
from _servers import ArmFailed, add_options, end_on_sigterm, ours, setup_of
from _texts import Texts
from daneel.server.models.ggml_types import TENSOR_BLOCKS
from daneel.server.models.gguf_header import read_header

HEADER_BYTES = 64 * 2**20


@dataclass(frozen=True)
class Cost:
    """What a model's tokens cost. Bytes and values of weights; `kv_bytes` of one token."""

    read_bytes: int
    layer_values: int
    output_values: int
    kv_bytes: int
    attention_flops: int
    """For each pair of a token and one before it."""

    def prefill_flops(self, num_tokens: int) -> float:
        pairs = num_tokens * num_tokens / 2
        return 2.0 * (self.layer_values * num_tokens + self.output_values) + self.attention_flops * pairs

    def decode_bytes(self, num_before: float) -> float:
        return self.read_bytes + self.kv_bytes * num_before


def cost_of(path: Path) -> Cost:
    """From the file's header. Raises `ArmFailed` where that does not say enough."""
    header = read_header(path)
    with path.open("rb") as file:
        head = file.read(HEADER_BYTES)
    table, output = _tensor(head, "token_embd.weight"), _tensor(head, "output.weight")
    width, layers, heads = (header.integer(key) for key in ("embedding_length", "block_count", "attention.head_count"))
    if table is None or width is None or layers is None or heads is None:
        raise ArmFailed(f"{path.name}: its header does not say how large its parts are")
    kv_heads = header.integer("attention.head_count_kv") or heads
    table_values, table_bytes = table
    return Cost(
        read_bytes=header.tensor_bytes - (table_bytes if output else 0),
        layer_values=header.num_parameters - table_values - (output[0] if output else 0),
        output_values=output[0] if output else table_values,
        kv_bytes=2 * 2 * layers * (width // heads) * kv_heads,
        attention_flops=4 * layers * width,
    )


def _tensor(head: bytes, name: str) -> tuple[int, int] | None:
    """Values and bytes of a tensor, from its entry in the GGUF header: name, number of dimensions, dimensions, type."""
    entry = struct.pack("<Q", len(name)) + name.encode()
    at = head.find(entry)
    if at < 0:
        return None
    at += len(entry)
    (num_dimensions,) = struct.unpack_from("<I", head, at)
    if num_dimensions > 4:
        return None
    *sizes, kind = struct.unpack_from(f"<{num_dimensions}QI", head, at + 4)
    num_values = 1
    for size in sizes:
        num_values *= size
    block_values, block_bytes = TENSOR_BLOCKS.get(kind, (1, 0))
    return num_values, num_values // block_values * block_bytes


def ceilings(threads: int) -> dict[str, float]:
    """Measured in a process of its own. Raises `ArmFailed`."""
    command = [sys.executable, str(Path(__file__).with_name("_ceiling.py")), str(threads)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise ArmFailed(f"the ceilings could not be measured: {done.stderr.strip().splitlines()[-1:]}")
    found: dict[str, float] = json.loads(done.stdout)
    return found


def fractions(cost: Cost, ceiling: dict[str, float], bare: BareTiming, reply: Reply, num_prompt: int) -> dict[str, float]:
    """One round's figures."""
    depth = num_prompt + bare.num_steps / 2
    prefill_flops = cost.prefill_flops(num_prompt)
    decode_bytes = cost.decode_bytes(depth) * bare.num_steps
    served_s = reply.token_at[-1] - reply.token_at[0]
    return {
        "gflops_per_s": ceiling["flops_per_s"] / 1e9,
        "gb_per_s": ceiling["bytes_per_s"] / 1e9,
        "prefill_ceiling_tokens_per_s": num_prompt * ceiling["flops_per_s"] / prefill_flops,
        "decode_ceiling_tokens_per_s": ceiling["bytes_per_s"] / cost.decode_bytes(depth),
        "prefill_of_ceiling_bare": prefill_flops / bare.prefill_s / ceiling["flops_per_s"],
        "prefill_of_ceiling_ours": prefill_flops / reply.first_token_s / ceiling["flops_per_s"],
        "decode_of_ceiling_bare": decode_bytes / bare.decode_s / ceiling["bytes_per_s"],
        "decode_of_ceiling_ours": decode_bytes / served_s / ceiling["bytes_per_s"],
    }


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    add_options(options, peer=False)
    options.add_argument("--prompt-tokens", type=int, default=512)
    options.add_argument("--reply-tokens", type=int, default=64)
    options.add_argument("--rounds", type=int)
    options.add_argument("--quick", action="store_true", help="SmolLM2, three rounds")
    chosen = options.parse_args()
    end_on_sigterm()
    deadline, chance = Deadline(chosen.limit_s), random.Random(9)
    model = "smollm2-135m" if chosen.quick else "qwen2.5-0.5b"
    context = chosen.prompt_tokens + chosen.reply_tokens + 64
    rounds: list[dict[str, float]] = []
    with setup_of(chosen, model=model, context_tokens=context, parallel=1) as setup, ours(setup) as url:
        cost = cost_of(setup.model_path)
        facts = {"benchmark": "roofline", **setup.facts(), "read_bytes": cost.read_bytes, "layer_values": cost.layer_values}
        texts = Texts(url, deadline)
        messages = [{"role": "user", "content": texts.text(chosen.prompt_tokens, chance)}]
        forced = texts.forced(chosen.reply_tokens, chance)
        ids = ask(url, "/render", {"messages": messages}, deadline)["token_ids"]
        body: Body = {"messages": messages, "cache": {"mode": "off"}, **forced.fields()}
        loop = BareLoop(setup.model_path, threads=setup.threads, sequences=1, context_tokens=context)
        loop.run([ids], [forced])
        for number in range(chosen.rounds or (3 if chosen.quick else 5)):
            ceiling = ceilings(setup.threads)
            bare, reply = loop.run([ids], [forced]), stream(url, body, deadline)
            rounds.append(fractions(cost, ceiling, bare, reply, len(ids)))
            shown = ", ".join(f"{name} {value:.3g}" for name, value in rounds[-1].items())
            print(f"round {number + 1}: {shown}", file=sys.stderr)
    report(rounds, facts)


def report(rounds: list[dict[str, float]], facts: dict[str, Any]) -> None:
    medians = {name: round(median(each[name] for each in rounds), 4) for name in rounds[0]}
    for name, value in medians.items():
        print(f"{name:<32}{value:>10.3f}")
    print(json.dumps({**facts, **machine(), "rounds": len(rounds), "medians": medians}))


if __name__ == "__main__":
    run_bench(main)
