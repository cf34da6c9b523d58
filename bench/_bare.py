"""The least that generates with llama.cpp: what a server of it can at best be as fast as."""

from __future__ import annotations

from daneel.server.engines.waiting import spin_shortly

spin_shortly()  # as our engine's process does; read when llama.cpp is loaded

import time
from dataclasses import dataclass
from pathlib import Path

import llama_cpp.llama_cpp as native

from _servers import ArmFailed
from _texts import Forced
from daneel.server.engines.base import EngineSpec, Sampling
from daneel.server.engines.llama_batch import LlamaBatch
from daneel.server.engines.llama_model import LogLines, batch_tokens, load_model, make_context
from daneel.server.engines.llama_sampler import SamplerChain


@dataclass(frozen=True)
class BareTiming:
    """Seconds of the prefill of all sequences, and of the decoding of `num_steps` further tokens of each."""

    prefill_s: float
    decode_s: float
    num_steps: int


class BareLoop:
    """Sequences are prefilled one after the other in chunks, then all decoded together, a token each a step."""

    def __init__(self, path: Path, *, threads: int, sequences: int, context_tokens: int) -> None:
        self._log = LogLines()
        spec = EngineSpec("llama.cpp", model_path=str(path), num_threads=threads, num_sequences=sequences)
        self._chunk = spec.prefill_chunk_tokens
        self._model = load_model(spec, lambda _: None, self._log)
        self._context = make_context(self._model, spec, sequences * context_tokens, self._log)
        vocab = native.llama_model_get_vocab(self._model)
        self._num_vocab = int(native.llama_vocab_n_tokens(vocab))
        self._batch = LlamaBatch(self._context, max_tokens=batch_tokens(self._model, spec), num_vocab=self._num_vocab)

    def run(self, prompts: list[list[int]], forced: list[Forced]) -> BareTiming:
        """The first token of each reply is drawn in the prefill. All replies must be equally long."""
        native.llama_memory_clear(native.llama_get_memory(self._context), True)
        chains = [
            SamplerChain(
                Sampling(temperature=0, logit_bias={each.token_id: 100}), prompt_ids=[], num_vocab=self._num_vocab, window=0
            )
            for each in forced
        ]
        num_steps = forced[0].num_tokens - 1
        try:
            began = time.perf_counter()
            drawn = [self._prefill(seq, ids, chains[seq]) for seq, ids in enumerate(prompts)]
            prefilled = time.perf_counter()
            for step in range(num_steps):
                self._batch.clear()
                rows = [
                    self._batch.add(seq, [token], len(prompts[seq]) + step, want_logits=True) for seq, token in enumerate(drawn)
                ]
                self._decode()
                drawn = [chain.sample(self._context, row) for chain, row in zip(chains, rows, strict=True)]
            return BareTiming(prefilled - began, time.perf_counter() - prefilled, num_steps)
        finally:
            for chain in chains:
                chain.close()

    def _prefill(self, seq: int, ids: list[int], chain: SamplerChain) -> int:
        row = 0
        for start in range(0, len(ids), self._chunk):
            self._batch.clear()
            part = ids[start : start + self._chunk]
            row = self._batch.add(seq, part, start, want_logits=start + len(part) == len(ids))
            self._decode()
        return chain.sample(self._context, row)

    def _decode(self) -> None:
        if code := self._batch.decode():
            raise ArmFailed(f"the bare loop: llama_decode failed with code {code}: {(self._log.errors() or ['no reason'])[-1]}")
