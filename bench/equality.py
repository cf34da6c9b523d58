"""Whether the cache changes what a model says: greedy replies read from it, against the same requests alone and cold.

The arms, each with the same prompts:

- `cache`: the prompt was evaluated before; only its last token is now;
- `fork`: other requests with the same beginning ran before; the rest of the prompt is evaluated now;
- `restore`: like `cache`, but in a new engine that finds the sequence on disk;
- `batch`: as many requests at a time as the engine runs, without the cache.

Where a token is evaluated in another batch, other kernels may sum in another order, and where the likeliest two tokens nearly
tie, the other one may come (`docs/determinism.md`). So of each arm is told how many replies are equal
to the cold ones, the largest difference of log-probabilities up to the first token that differs (of the 10 likeliest), and how
near the tie was there. The last line is one JSON object; the exit code is 1 when a difference is larger than `--bound`.
"""

from __future__ import annotations

import argparse
import itertools
import json
import platform
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from daneel.server.engines.waiting import spin_shortly

spin_shortly()  # as our engine's process does; read when llama.cpp is loaded

import llama_cpp

from daneel.server.engines import llama_cpp as engine_module
from daneel.server.engines.base import EngineSpec, Generate, PromptCache, Sampling, StepOutput
from daneel.server.engines.llama_cpp import LlamaCppEngine
from daneel.server.models import resolve

SYSTEM = (
    "You are a helpful assistant who answers in plain words, says when something is not known, and never makes things up. "
    "Keep answers short. When a question has several parts, answer each of them in the order in which they were asked. When "
    "a story is wanted, tell one with a beginning and an end. When a list is wanted, give one thing a line and nothing else. "
    "Do not repeat the question, do not praise it, and do not say what you are about to do before you do it."
)
SUBJECTS = (
    "the sea", "a mountain", "bread", "winter", "a clock", "the moon", "a letter", "rain", "a bridge", "copper",
    "a library", "the heart", "a bicycle", "salt", "a shadow", "paper", "a river", "an echo", "glass", "a seed",
)  # fmt: skip
QUESTIONS = (
    "What is {}?", "Tell me a short story about {}.", "Name three facts about {}.", "Why do people write about {}?",
    "Write a line of verse on {}.", "How would you explain {} to a child?", "What is the opposite of {}?",
    "Describe {} without naming it.", "List words that rhyme or go with {}.", "Who studies {}, and how?",
)  # fmt: skip
SAMPLING = Sampling(temperature=0.0, logprobs=10)


@dataclass(frozen=True)
class Reply:
    """The tokens, and for each the likeliest ones with their log-probabilities."""

    token_ids: list[int]
    logprobs: list[dict[int, float]]
    cached_tokens: int
    source: str | None


@dataclass
class Arm:
    """How replies compare with the cold ones."""

    num_equal: int = 0
    num_replies: int = 0
    max_difference: float = 0.0
    ties: list[float] = field(default_factory=list)

    def add(self, reply: Reply, cold: Reply) -> None:
        self.num_replies += 1
        self.num_equal += reply.token_ids == cold.token_ids
        for at, (token, wanted) in enumerate(zip(reply.token_ids, cold.token_ids, strict=False)):
            here, there = reply.logprobs[at], cold.logprobs[at]
            self.max_difference = max([self.max_difference, *(abs(here[i] - there[i]) for i in here.keys() & there.keys())])
            if token != wanted:
                self.ties.append(there[wanted] - there.get(token, float("-inf")))
                return

    def figures(self) -> dict[str, Any]:
        return {
            "equal": self.num_equal,
            "of": self.num_replies,
            "rate": round(self.num_equal / max(1, self.num_replies), 4),
            "max_logprob_difference": round(self.max_difference, 5),
            "widest_tie_that_fell_the_other_way": round(max(self.ties, default=0.0), 5),
        }


class Bench:
    """Engines of one model, and requests to them."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._path = str(resolve(options.model).path)
        self._numbers = itertools.count(1)

    @contextmanager
    def engine(self, folder: str | None = None) -> Iterator[LlamaCppEngine]:
        spec = EngineSpec(
            "llama.cpp",
            model_path=self._path,
            context_tokens=1024,
            num_threads=self._options.threads,
            num_sequences=self._options.at_a_time,
            prefill_chunk_tokens=self._options.prefill_step_size,
            prompt_cache=PromptCache(folder=folder),
        )
        engine = engine_module.load(spec, lambda _: None)
        try:
            yield engine
        finally:
            engine.close()

    def ask(self, engine: LlamaCppEngine, *prompts: Sequence[int], use_cache: bool) -> list[Reply]:
        """The replies to requests that are admitted together."""
        outputs: dict[int, list[StepOutput]] = {}
        for ids in prompts:
            request = Generate(
                next(self._numbers), list(ids), self._options.tokens, SAMPLING, use_cache=use_cache, keep_cache=use_cache
            )
            engine.admit(request)
            outputs[request.request_id] = []
        while step := engine.step():
            for output in step:
                outputs[output.request_id].append(output)
        return [_reply(each) for each in outputs.values()]


def _reply(outputs: Sequence[StepOutput]) -> Reply:
    if error := outputs[-1].error:
        raise SystemExit(f"a request failed: {error}")
    token_ids = [token_id for output in outputs for token_id in output.token_ids]
    logprobs = [dict(each.top) for output in outputs for each in output.logprobs or []]
    return Reply(token_ids, logprobs, outputs[-1].cached_tokens, outputs[-1].cache_source)


def prompts_of(engine: LlamaCppEngine, number: int) -> list[list[int]]:
    """So many prompts, all of one system message."""
    asked = [question.format(subject) for subject in SUBJECTS for question in QUESTIONS]
    if number > len(asked):
        raise SystemExit(f"there are {len(asked)} prompts, not {number}")
    return [
        engine.tokenize(f"<|im_start|>system\n{SYSTEM}<|im_end|>\n<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n")
        for text in asked[:: len(asked) // number][:number]
    ]


def run(options: argparse.Namespace) -> dict[str, Arm]:
    bench = Bench(options)
    arms = {name: Arm() for name in ("cache", "fork", "restore", "batch")}
    with tempfile.TemporaryDirectory() as folder:
        with bench.engine() as engine:
            prompts = prompts_of(engine, options.prompts)
            cold = []
            for number, prompt in enumerate(prompts):
                cold += bench.ask(engine, prompt, use_cache=False)
                engine.cache.clear()
                _tell(f"cold {number + 1}/{len(prompts)}")
            for at in range(0, len(prompts), options.at_a_time):
                replies = bench.ask(engine, *prompts[at : at + options.at_a_time], use_cache=False)
                for reply, wanted in zip(replies, cold[at:], strict=False):
                    arms["batch"].add(reply, wanted)
                _tell(f"batch {at + len(replies)}/{len(prompts)}")
        with bench.engine(folder) as engine:
            for number, (prompt, wanted) in enumerate(zip(prompts, cold, strict=True)):
                [forked] = bench.ask(engine, prompt, use_cache=True)
                [again] = bench.ask(engine, prompt, use_cache=True)
                _check(again, len(prompt) - 1, "memory")
                arms["cache"].add(again, wanted)
                if number:
                    _check(forked, 16, "memory")
                    arms["fork"].add(forked, wanted)
                _tell(f"cache and fork {number + 1}/{len(prompts)}")
        with bench.engine(folder) as engine:
            for number, (prompt, wanted) in enumerate(zip(prompts, cold, strict=True)):
                [restored] = bench.ask(engine, prompt, use_cache=True)
                _check(restored, len(prompt) - 1, "disk")
                arms["restore"].add(restored, wanted)
                engine.cache.clear()
                _tell(f"restore {number + 1}/{len(prompts)}")
    return arms


def _check(reply: Reply, at_least: int, source: str) -> None:
    """An arm that does not read what it should from the cache tells nothing."""
    if reply.cached_tokens < at_least or reply.source != source:
        raise SystemExit(f"{reply.cached_tokens} tokens came from {reply.source}, not {at_least} from {source}")


def _tell(text: str) -> None:
    print(f"\r{text:<40}", end="", file=sys.stderr)


def main() -> int:
    parser = argparse.ArgumentParser(description="Greedy replies with cache, fork, restore and batch against cold ones.")
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--prompts", type=int, default=200)
    parser.add_argument("--tokens", type=int, default=24)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--prefill-step-size", type=int, default=256)
    parser.add_argument("--at-a-time", type=int, default=8)
    parser.add_argument("--bound", type=float, default=1.0, help="the largest difference of log-probabilities that is in order")
    options = parser.parse_args()
    arms = run(options)
    print(file=sys.stderr)
    for name, arm in arms.items():
        figures = arm.figures()
        print(
            f"{name:<8} {figures['equal']}/{figures['of']} replies equal, log-probabilities differ by at most "
            f"{figures['max_logprob_difference']}, widest tie that fell the other way "
            f"{figures['widest_tie_that_fell_the_other_way']}"
        )
    in_order = all(arm.max_difference <= options.bound for arm in arms.values())
    result = {
        "benchmark": "equality",
        "model": options.model,
        "llama_cpp_python": llama_cpp.__version__,
        "machine": platform.machine(),
        "prompts": options.prompts,
        "tokens": options.tokens,
        "threads": options.threads,
        "at_a_time": options.at_a_time,
        "prefill_step_size": options.prefill_step_size,
        "bound": options.bound,
        "in_order": in_order,
        **{name: arm.figures() for name, arm in arms.items()},
    }
    print(json.dumps(result))
    return 0 if in_order else 1


if __name__ == "__main__":
    sys.exit(main())
