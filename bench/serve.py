"""What serving costs: our server over HTTP against a bare loop around llama.cpp's `llama_decode`, in one run.

Both arms have the same weights, prompt tokens, threads (number and waiting policy) and greedy sampling, and generate the
same number of tokens. They take turns, so that a busy machine disturbs them alike; of each figure the median over the
rounds counts. The prefix cache is off. What is left between the arms is everything the server adds: its engine process,
detokenising, parsing, events, HTTP.

The figure that matters is the ratio, ours over bare. Tokens per second are this machine's, now, and compare with nothing
else. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from daneel.server.engines.waiting import spin_shortly

spin_shortly()  # as our engine's process does; read when llama.cpp is loaded

import httpx2
import llama_cpp
import llama_cpp.llama_cpp as native

from daneel.cli.local_server import LocalServer
from daneel.server.engines.base import EngineSpec
from daneel.server.engines.llama_model import LogLines, choose_num_threads, load_model, make_context
from daneel.server.models import resolve

WORDS = "the quick brown fox jumps over the lazy dog while the clock in the hall strikes and nobody counts "


@dataclass(frozen=True)
class Timing:
    """Seconds to the first token and to the last, and how many there were."""

    first_s: float
    last_s: float
    num_tokens: int

    @property
    def decode_tokens_per_s(self) -> float:
        return (self.num_tokens - 1) / (self.last_s - self.first_s)


class BareLoop:
    """The least that generates: prefill in chunks, then sample and decode one token at a time."""

    def __init__(self, path: Path, context_tokens: int, threads: int) -> None:
        self._log = LogLines()
        spec = EngineSpec(engine="llama.cpp", model_path=str(path), num_threads=threads)
        self._chunk = spec.prefill_chunk_tokens
        self._model = load_model(spec, lambda _: None, self._log)
        self._context = make_context(self._model, spec, context_tokens, self._log)

    def run(self, prompt_ids: list[int], num_tokens: int) -> Timing:
        context, memory = self._context, native.llama_get_memory(self._context)
        native.llama_memory_clear(memory, True)
        chain = native.llama_sampler_chain_init(native.llama_sampler_chain_default_params())
        native.llama_sampler_chain_add(chain, native.llama_sampler_init_greedy())
        started = time.perf_counter()
        for start in range(0, len(prompt_ids), self._chunk):
            self._decode(prompt_ids[start : start + self._chunk])
        token = native.llama_sampler_sample(chain, context, -1)
        first_s = time.perf_counter() - started
        for _ in range(num_tokens - 1):
            self._decode([token])
            token = native.llama_sampler_sample(chain, context, -1)
        last_s = time.perf_counter() - started
        native.llama_sampler_free(chain)
        return Timing(first_s, last_s, num_tokens)

    def _decode(self, ids: list[int]) -> None:
        tokens = (native.llama_token * len(ids))(*ids)  # named: the batch only points to it
        batch = native.llama_batch_get_one(tokens, len(ids))
        if status := native.llama_decode(self._context, batch):
            raise SystemExit(f"llama_decode failed: {status}")


class Server:
    """Our server, asked as any client asks it: one streamed chat completion."""

    def __init__(self, url: str, prompt: str) -> None:
        self._url = f"{url}/chat/completions"
        self._body = {
            "messages": [{"role": "user", "content": prompt}],
            "temperature": 0,
            "cache": {"mode": "off"},
            "stream": True,
            "stream_options": {"include_usage": True},
            "include": ["prompt_token_ids"],
        }

    def run(self, num_tokens: int) -> tuple[Timing, list[int]]:
        """The timing, and the ids of the prompt as the server rendered it."""
        first_s = last_s = 0.0
        prompt_ids: list[int] = []
        usage: dict[str, Any] = {}
        started = time.perf_counter()
        for event in self._events({**self._body, "max_tokens": num_tokens}):
            if "error" in event:
                raise SystemExit(f"the server failed: {event['error']['message']}")
            usage = event.get("usage") or usage
            prompt_ids = (event.get("daneel") or {}).get("prompt_token_ids") or prompt_ids
            for choice in event["choices"]:
                if choice["delta"].get("content"):
                    last_s = time.perf_counter() - started
                    first_s = first_s or last_s
        return Timing(first_s, last_s, usage["completion_tokens"]), prompt_ids

    def _events(self, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
        with httpx2.Client(timeout=600, trust_env=False) as client, client.stream("POST", self._url, json=body) as response:
            if response.status_code != 200:
                raise SystemExit(f"the server answered {response.status_code}: {response.read().decode()}")
            for line in response.iter_lines():
                if line.startswith("data: ") and line != "data: [DONE]":
                    yield json.loads(line.removeprefix("data: "))


def main() -> None:
    options = argparse.ArgumentParser(description="Our server against a bare llama_decode loop.")
    options.add_argument("--model", default="smollm2-135m")
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--prompt-words", type=int, default=200)
    options.add_argument("--tokens", type=int, default=64)
    options.add_argument("--threads", type=int, help="of the engine and of the loop; by default the physical cores")
    chosen = options.parse_args()
    prompt = "Continue this text:\n" + (WORDS * (chosen.prompt_words // len(WORDS.split()) + 1))
    ours, bare = [], []
    threads = choose_num_threads(chosen.threads)
    with LocalServer(chosen.model, extra_args=["--threads", str(threads)]) as url:
        server = Server(url, prompt)
        warm, prompt_ids = server.run(chosen.tokens)
        loop = BareLoop(Path(resolve(chosen.model).path), len(prompt_ids) + chosen.tokens + 8, threads)
        loop.run(prompt_ids, warm.num_tokens)
        for _ in range(chosen.rounds):
            ours.append(server.run(chosen.tokens)[0])
            bare.append(loop.run(prompt_ids, ours[-1].num_tokens))
    if ours[0].num_tokens < chosen.tokens / 2:
        raise SystemExit(f"the model stopped after {ours[0].num_tokens} tokens: too few to time")
    report(chosen.model, len(prompt_ids), threads, ours, bare)


def report(model: str, num_prompt_tokens: int, threads: int, ours: list[Timing], bare: list[Timing]) -> None:
    figures = {
        "decode_tokens_per_s": [[timing.decode_tokens_per_s for timing in arm] for arm in (ours, bare)],
        "prefill_tokens_per_s": [[num_prompt_tokens / timing.first_s for timing in arm] for arm in (ours, bare)],
        "whole_request_per_s": [[1 / timing.last_s for timing in arm] for arm in (ours, bare)],
    }
    result: dict[str, Any] = {
        "benchmark": "serve",
        "model": model,
        "llama_cpp_python": llama_cpp.__version__,
        "machine": platform.machine(),
        "threads": threads,
        "rounds": len(ours),
        "prompt_tokens": num_prompt_tokens,
        "completion_tokens": ours[0].num_tokens,
    }
    print(f"{'median of ' + str(len(ours)) + ' rounds':<24}{'ours':>10}{'bare':>10}{'ratio':>8}")
    for name, (our_values, bare_values) in figures.items():
        # round by round, so that a slow moment meets both sides of a ratio
        ratio = median(a / b for a, b in zip(our_values, bare_values, strict=True))
        result[name] = {"ours": round(median(our_values), 2), "bare": round(median(bare_values), 2), "ratio": round(ratio, 3)}
        print(f"{name:<24}{median(our_values):>10.2f}{median(bare_values):>10.2f}{ratio:>8.2f}")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
