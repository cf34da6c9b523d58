"""The llama.cpp engine, on the low-level C API of llama-cpp-python. One sequence at a time for now.

The KV cache keeps the tokens of the last sequence; a new one reuses their longest common prefix.
"""

from __future__ import annotations

import ctypes
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import llama_cpp.llama_cpp as native
import llguidance
import numpy as np
from numpy.typing import NDArray

from daneel.server.engines import llama_model
from daneel.server.engines.base import (
    EngineInfo,
    EngineLoadError,
    EngineSpec,
    Generate,
    LoadProgress,
    StepOutput,
    StopCause,
    TokenAlternatives,
)
from daneel.server.engines.checks import Limits, check_request
from daneel.server.engines.grammar import GrammarCompiler, GrammarError, Matcher, marked_pieces
from daneel.server.engines.llama_sampler import SamplerChain, alternatives
from daneel.server.engines.prefix import common_prefix_length

_SEQ = 0  # the one sequence id


def load(spec: EngineSpec, on_progress: LoadProgress) -> LlamaCppEngine:
    """Load the GGUF at `spec.model_path`. Raises `EngineLoadError`."""
    if spec.model_path is None:
        raise EngineLoadError("the engine llama.cpp needs a model file")
    log = llama_model.LogLines()
    try:
        native.llama_backend_init()
        model = llama_model.load_model(spec, on_progress, log)
        context_tokens = llama_model.choose_context_tokens(model, spec.context_tokens)
        context = llama_model.make_context(model, spec, context_tokens, log)
        info = llama_model.describe(model, Path(spec.model_path), context_tokens)
        return LlamaCppEngine(model, context, info, chunk_tokens=spec.prefill_chunk_tokens, log=log)
    except BaseException:
        log.close()
        raise


@dataclass(slots=True)
class _Sequence:
    """The running request. `prompt_ids[done:]` is still to be evaluated; then `last_id` is, one token a step."""

    request: Generate
    sampler: SamplerChain
    matcher: Matcher | None
    cached_tokens: int
    cache_miss: str | None
    done: int
    started_at: float
    first_token_at: float | None = None
    last_id: int = -1
    num_generated: int = 0


class LlamaCppEngine:
    """See `base.Engine`."""

    max_sequences = 1

    def __init__(self, model: Any, context: Any, info: EngineInfo, *, chunk_tokens: int, log: llama_model.LogLines) -> None:
        self.info = info
        self._model = model
        self._context = context
        self._vocab = native.llama_model_get_vocab(model)
        self._memory = native.llama_get_memory(context)
        self._log = log
        self._chunk_tokens = chunk_tokens
        self._batch = native.llama_batch_init(chunk_tokens, 0, 1)
        self._limits = Limits(len(info.pieces), info.context_tokens)
        self._eog_ids = frozenset(info.eog_ids)
        self._grammars = GrammarCompiler(self._grammar_tokenizer, len(info.pieces))
        self._kv_ids: list[int] = []
        self._sequence: _Sequence | None = None

    def tokenize(self, text: str) -> list[int]:
        return llama_model.tokenize(self._vocab, text)

    def check(self, request: Generate) -> None:
        check_request(request, self._limits)
        if request.grammar is not None:
            self._grammars.matcher(request.grammar)

    def admit(self, request: Generate) -> None:
        if self._sequence is not None:
            raise RuntimeError("the engine runs one sequence at a time")
        started_at = time.monotonic()
        matcher = self._grammars.matcher(request.grammar) if request.grammar is not None else None
        cached_tokens, cache_miss = self._reuse_prefix(request)
        sampler = SamplerChain(
            request.sampling,
            prompt_ids=request.prompt_ids,
            num_vocab=self._limits.num_vocab,
            window=self._limits.context_tokens,
        )
        self._sequence = _Sequence(request, sampler, matcher, cached_tokens, cache_miss, cached_tokens, started_at)

    def cancel(self, request_id: int) -> None:
        if self._sequence is not None and self._sequence.request.request_id == request_id:
            self._release(self._sequence)

    def step(self) -> list[StepOutput]:
        sequence = self._sequence
        if sequence is None:
            return []
        try:
            return [self._step(sequence)]
        except GrammarError as error:
            return [self._finish(sequence, [], None, "error", str(error))]

    def close(self) -> None:
        if self._sequence is not None:
            self._release(self._sequence)
        native.llama_batch_free(self._batch)
        native.llama_free(self._context)
        native.llama_model_free(self._model)
        self._log.close()

    # One step

    def _step(self, sequence: _Sequence) -> StepOutput:
        prompt_ids = sequence.request.prompt_ids
        if sequence.done < len(prompt_ids):
            chunk = prompt_ids[sequence.done : sequence.done + self._chunk_tokens]
            sequence.done += len(chunk)
        else:
            chunk = [sequence.last_id]
        prefilled = sequence.done == len(prompt_ids)
        if error := self._decode(chunk, want_logits=prefilled):
            return self._finish(sequence, [], None, "error", error)
        if not prefilled:
            return self._output(sequence, [], None)
        return self._sample(sequence, row=len(chunk) - 1)

    def _sample(self, sequence: _Sequence, row: int) -> StepOutput:
        sampling = sequence.request.sampling
        logits = self._logits(row)
        raw = logits.copy() if sampling.logprobs is not None else None
        if sequence.matcher is not None:
            sequence.matcher.mask(logits)
        token_id = sequence.sampler.sample(self._context, row)
        logprobs = None
        if raw is not None:
            logprobs = [alternatives(raw, token_id, sampling.logprobs or 0)]
        sequence.last_id = token_id
        sequence.num_generated += 1
        if sequence.first_token_at is None:
            sequence.first_token_at = time.monotonic()
        ended = token_id in self._eog_ids or token_id in sequence.request.stop_ids
        if sequence.matcher is not None and not ended:
            sequence.matcher.accept(token_id)
            ended = sequence.matcher.done
        if ended:
            return self._finish(sequence, [token_id], logprobs, "stop")
        full = len(self._kv_ids) >= self._limits.context_tokens
        if full or sequence.num_generated >= sequence.request.max_tokens:
            return self._finish(sequence, [token_id], logprobs, "length")
        return self._output(sequence, [token_id], logprobs)

    def _decode(self, token_ids: list[int], *, want_logits: bool) -> str | None:
        """Evaluate tokens behind those in the KV cache. Returns what went wrong, `None` when nothing did."""
        batch = self._batch
        batch.n_tokens = len(token_ids)
        for index, token_id in enumerate(token_ids):
            batch.token[index] = token_id
            batch.pos[index] = len(self._kv_ids) + index
            batch.n_seq_id[index] = 1
            batch.seq_id[index][0] = _SEQ
            batch.logits[index] = want_logits and index == len(token_ids) - 1
        code = native.llama_decode(self._context, batch)
        if code == 0:
            self._kv_ids += token_ids
            return None
        # some of the tokens may be in the cache, some not: nothing in it can be trusted
        self._clear()
        detail = (self._log.errors() or ["no reason given"])[-1]
        return f"llama.cpp could not evaluate {len(token_ids)} tokens (code {code}): {detail}"

    def _logits(self, row: int) -> NDArray[np.float32]:
        pointer = native.llama_get_logits_ith(self._context, row)
        return np.ctypeslib.as_array(pointer, shape=(self._limits.num_vocab,))

    # The KV cache

    def _reuse_prefix(self, request: Generate) -> tuple[int, str | None]:
        """Keep the common prefix with the tokens in the KV cache; how many that is, and why not more.

        At least one token of the prompt is left to evaluate, since its logits are needed.
        """
        prompt_ids, kv_ids = request.prompt_ids, self._kv_ids
        if not request.use_cache:
            self._clear()
            return 0, "off"
        if not kv_ids:
            return 0, "cold"
        common = common_prefix_length(prompt_ids, kv_ids)
        miss = None
        if common < min(len(prompt_ids), len(kv_ids)):
            miss = f"token {common} differs: {self._text(kv_ids[common])} before, {self._text(prompt_ids[common])} now"
        keep = min(common, len(prompt_ids) - 1)
        if keep < len(kv_ids):
            if not native.llama_memory_seq_rm(self._memory, _SEQ, keep, -1):
                # recurrent and sliding-window memories cannot go back
                self._clear()
                return 0, "this model's memory cannot go back to an earlier token"
            del kv_ids[keep:]
        return keep, miss

    def _clear(self) -> None:
        native.llama_memory_clear(self._memory, True)
        self._kv_ids.clear()

    def _text(self, token_id: int) -> str:
        return repr(self.info.pieces[token_id].decode(errors="replace"))

    # Outputs

    def _output(
        self,
        sequence: _Sequence,
        token_ids: list[int],
        logprobs: list[TokenAlternatives] | None,
        finish: StopCause | None = None,
        error: str | None = None,
    ) -> StepOutput:
        now = time.monotonic()
        first_token_at = sequence.first_token_at or now
        return StepOutput(
            request_id=sequence.request.request_id,
            token_ids=token_ids,
            cached_tokens=sequence.cached_tokens,
            prefill_done=sequence.done - sequence.cached_tokens,
            prefill_total=len(sequence.request.prompt_ids) - sequence.cached_tokens,
            logprobs=logprobs,
            finish=finish,
            error=error,
            prefill_ms=(first_token_at - sequence.started_at) * 1000,
            decode_ms=(now - first_token_at) * 1000,
            cache_miss=sequence.cache_miss,
        )

    def _finish(
        self,
        sequence: _Sequence,
        token_ids: list[int],
        logprobs: list[TokenAlternatives] | None,
        cause: StopCause,
        error: str | None = None,
    ) -> StepOutput:
        output = self._output(sequence, token_ids, logprobs, cause, error)
        self._release(sequence)
        return output

    def _release(self, sequence: _Sequence) -> None:
        sequence.sampler.close()
        self._sequence = None
        if not sequence.request.use_cache:
            self._clear()

    def _grammar_tokenizer(self) -> Any:
        """llguidance's tokenizer over this vocabulary; it tokenizes forced text by calling llama.cpp itself."""
        tokenizer_type: Any = llguidance.LLTokenizer  # `from_llamacpp` is missing in its type stub
        return tokenizer_type.from_llamacpp(
            tokens=marked_pieces(self.info.pieces, self.info.special_ids),
            vocab_ptr=self._vocab,
            tokenize_fptr=ctypes.cast(native._lib.llama_tokenize, ctypes.c_void_p).value,
            eos_token=self.info.eog_ids,
        )
