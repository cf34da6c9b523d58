"""The llama.cpp engine, on the low-level C API of llama-cpp-python: all running sequences move together.

    step():   start what can start  ->  one batch of tokens  ->  sample where a sequence's tokens are all evaluated

A batch holds the next token of every sequence that generates and a bounded chunk of what is to be prefilled, so a long prompt
never holds up the others. Sequences share the cells of their common prefix (`kv_cache.py`); one whose prompt begins with what
another is about to evaluate waits for that part, so nothing is evaluated twice. When cells run out, idle ones go, then the
youngest sequence is put back to wait.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Sequence as Tokens
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import llama_cpp.llama_cpp as native
import llguidance

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
    owner_of,
)
from daneel.server.engines.cache_control import CacheControl
from daneel.server.engines.cache_tiers import Tiers
from daneel.server.engines.checks import Limits, check_request
from daneel.server.engines.grammar import GrammarCompiler, GrammarError, Matcher, marked_pieces
from daneel.server.engines.kv_cache import KvCache
from daneel.server.engines.llama_batch import LlamaBatch
from daneel.server.engines.llama_cells import LlamaCells
from daneel.server.engines.llama_sampler import SamplerChain, alternatives
from daneel.server.engines.prefix import MIN_SHARED_TOKENS, common_prefix_length
from daneel.server.engines.prefix_tree import Holder


def load(spec: EngineSpec, on_progress: LoadProgress) -> LlamaCppEngine:
    """Load the GGUF at `spec.model_path`. Raises `EngineLoadError`."""
    if spec.model_path is None:
        raise EngineLoadError("the engine llama.cpp needs a model file")
    log = llama_model.LogLines()
    try:
        native.llama_backend_init()
        model = llama_model.load_model(spec, on_progress, log)
        context_tokens = llama_model.choose_context_tokens(model, spec.context_tokens)
        num_cells = llama_model.choose_num_cells(model, spec, context_tokens)
        context = llama_model.make_context(model, spec, num_cells, log)
        info = llama_model.describe(model, Path(spec.model_path), context_tokens)
        return LlamaCppEngine(model, context, info, spec, num_cells=num_cells, log=log)
    except BaseException:
        log.close()
        raise


@dataclass(eq=False, slots=True)
class _Sequence:
    """One request. `pending` is still to be evaluated: what is left of the prompt, then the token that was drawn last.

    `holder` `None`: it waits, at first or again. `generated` are all tokens drawn.
    """

    request: Generate
    sampler: SamplerChain
    matcher: Matcher | None
    pending: list[int]
    started_at: float
    holder: Holder | None = None
    cached_tokens: int = 0
    cache_source: str | None = None
    cache_miss: str | None = None
    first_token_at: float | None = None
    generated: list[int] = field(default_factory=list)
    prompt_done: int = 0

    @property
    def prefills(self) -> bool:
        return len(self.pending) > 1 or not self.generated

    def wait_again(self) -> None:
        """Without its place in the cells, it has all its tokens before it again."""
        self.holder = None
        self.pending = [*self.request.prompt_ids, *self.generated]


class LlamaCppEngine:
    """See `base.Engine`."""

    def __init__(
        self, model: Any, context: Any, info: EngineInfo, spec: EngineSpec, *, num_cells: int, log: llama_model.LogLines
    ) -> None:
        self.info = info
        self.max_sequences = spec.num_sequences
        self._model = model
        self._context = context
        self._vocab = native.llama_model_get_vocab(model)
        self._log = log
        self._chunk_tokens = spec.prefill_chunk_tokens
        self._limits = Limits(len(info.pieces), info.context_tokens)
        self._batch = LlamaBatch(context, max_tokens=llama_model.batch_tokens(model, spec), num_vocab=self._limits.num_vocab)
        self._rolls_back = rolls_back = llama_model.rolls_back(model)
        scope = [spec.kv_type, info.engine_version, *llama_model.identity(model, Path(spec.model_path or ""))]
        self._tiers = Tiers.open(spec.prompt_cache, scope=scope)
        self._cells = LlamaCells(context, rolls_back=rolls_back)
        self.cache = KvCache(
            self._cells,
            capacity=num_cells,
            max_sequences=llama_model.num_native_sequences(model, spec),
            rolls_back=rolls_back,
            max_idle_tokens=spec.prompt_cache.max_idle_tokens,
            tiers=self._tiers.in_order,
            text_of=self._text,
        )
        self.cache_control = CacheControl(self.cache, self._tiers, llama_model.kv_bytes_per_token(model, spec.kv_type))
        self._eog_ids = frozenset(info.eog_ids)
        self._grammars = GrammarCompiler(self._grammar_tokenizer, len(info.pieces))
        self._sequences: list[_Sequence] = []
        """Admitted, oldest first."""

    def tokenize(self, text: str) -> list[int]:
        return llama_model.tokenize(self._vocab, text)

    def check(self, request: Generate) -> None:
        check_request(request, self._limits)
        if request.grammar is not None:
            self._grammars.matcher(request.grammar)

    def admit(self, request: Generate) -> None:
        if len(self._sequences) >= self.max_sequences:
            raise RuntimeError(f"the engine runs {self.max_sequences} sequences at a time")
        matcher = self._grammars.matcher(request.grammar) if request.grammar is not None else None
        sampler = SamplerChain(
            request.sampling,
            prompt_ids=request.prompt_ids,
            num_vocab=self._limits.num_vocab,
            window=self._limits.context_tokens,
        )
        self._sequences.append(_Sequence(request, sampler, matcher, list(request.prompt_ids), time.monotonic()))

    def cancel(self, request_id: int) -> None:
        for sequence in [each for each in self._sequences if each.request.request_id == request_id]:
            self._release(sequence)

    def step(self) -> list[StepOutput]:
        failed = self._start_waiting()
        rows = self._fill_batch()
        if not rows:
            return failed
        if error := self._decode(rows):
            return failed + [self._finish(sequence, [], None, "error", error) for sequence, _, _ in rows]
        return failed + [self._advance(*row) for row in rows]

    def close(self) -> None:
        for sequence in list(self._sequences):
            self._release(sequence)
        if self._tiers.outlive:
            self.cache.save_all()
            self._tiers.flush()
        self._batch.close()
        native.llama_free(self._context)
        native.llama_model_free(self._model)
        self._log.close()

    # -- starting -------------------------------------------------------------------------------------------------------

    def _start_waiting(self) -> list[StepOutput]:
        """Give sequences that wait their place in the cells, oldest first. Returns those that can never have one."""
        failed: list[StepOutput] = []
        served = {owner_of(each.request.tenant) for each in self._sequences if each.holder is not None}
        held_up: set[str] = set()
        for sequence in [each for each in self._sequences if each.holder is None]:
            tenant = owner_of(sequence.request.tenant)
            if tenant in held_up or self._waits_for_another(sequence):
                continue
            if self._start(sequence):
                served.add(tenant)
            elif tenant in served:
                held_up.add(tenant)  # it may be its own share that is full: others need not wait for that
            else:
                if not served:
                    failed.append(self._finish(sequence, [], None, "error", "the KV cache has no room for this prompt"))
                break  # those behind it must not overtake for ever
        return failed

    def _waits_for_another(self, sequence: _Sequence) -> bool:
        """Whether another is about to evaluate clearly more of this prompt than is known."""
        request = sequence.request
        if not request.use_cache:
            return False
        known = self.cache.longest(request.tenant, sequence.pending)
        for other in self._sequences:
            if other is sequence or other.holder is None or not other.prefills or other.request.tenant != request.tenant:
                continue
            if not other.request.use_cache:
                continue
            planned = other.holder.num_tokens + len(other.pending) - 1
            prompt = other.request.prompt_ids[:planned]
            common = common_prefix_length(prompt, sequence.pending[:-1])
            if not self._rolls_back and (common < planned or not other.request.keep_cache):
                continue  # no state will be kept that this one could go on from
            if common >= known + MIN_SHARED_TOKENS:
                return True
        return False

    def _start(self, sequence: _Sequence) -> bool:
        request, ids = sequence.request, sequence.pending
        reserve = min(len(ids) + 1, self.cache.capacity)
        opened = self.cache.open(request.tenant, ids, use=request.use_cache, keep=request.keep_cache, reserve=reserve)
        if opened is None:
            return False
        sequence.holder = opened.holder
        sequence.pending = ids[opened.num_cached :]
        if not sequence.generated:
            sequence.prompt_done = sequence.cached_tokens = opened.num_cached
            sequence.cache_source, sequence.cache_miss = opened.source, opened.miss
        return True

    # -- one batch ------------------------------------------------------------------------------------------------------

    def _fill_batch(self) -> list[tuple[_Sequence, list[int], int]]:
        """Choose what is evaluated now: (sequence, tokens, row of the last) for each that takes part."""
        self._batch.clear()
        generating = [each for each in self._sequences if each.holder is not None and not each.prefills]
        while generating and not self.cache.room(len(generating), generating[-1].request.tenant):
            self._put_back(generating.pop())
        rows = [self._add(sequence, 1) for sequence in generating]
        left = self._chunk_tokens
        for sequence in [each for each in self._sequences if each.holder is not None and each.prefills]:
            size = min(left, len(sequence.pending))
            if size == len(sequence.pending) > 1 and self._wants_checkpoint(sequence):
                size -= 1  # the state before the last token is kept: the same prompt can be gone on from it, too
            while size and not self.cache.room(size, sequence.request.tenant):
                size //= 2
            if size:
                rows.append(self._add(sequence, size))
                left -= size
        if not rows and len(running := [each for each in self._sequences if each.holder is not None]) > 1:
            self._put_back(running[-1])  # all cells are taken by prompts that are half evaluated
            return self._fill_batch()
        return rows

    def _add(self, sequence: _Sequence, size: int) -> tuple[_Sequence, list[int], int]:
        assert sequence.holder is not None
        tokens = sequence.pending[:size]
        at_end = size == len(sequence.pending)
        row = self._batch.add(sequence.holder.seq, tokens, sequence.holder.num_tokens, want_logits=at_end)
        self.cache.grow(sequence.holder, tokens)  # the cells are taken from now on
        return sequence, tokens, row

    def _wants_checkpoint(self, sequence: _Sequence) -> bool:
        request = sequence.request
        return not self._rolls_back and not sequence.generated and request.use_cache and request.keep_cache

    def _put_back(self, sequence: _Sequence) -> None:
        """Make room: the sequence waits again, and goes on later from what is then still in the cells."""
        assert sequence.holder is not None
        self.cache.close(sequence.holder, keep=sequence.request.use_cache and sequence.request.keep_cache)
        sequence.wait_again()

    def _decode(self, rows: list[tuple[_Sequence, list[int], int]]) -> str | None:
        """Evaluate the batch. Returns what went wrong, `None` when nothing did."""
        code = self._batch.decode()
        if code == 0:
            return None
        # some of the tokens may be in the cells, some not: nothing in them can be trusted
        self._cells.clear()
        self.cache.forget_all()
        for sequence in self._sequences:
            if sequence.holder is not None:
                sequence.wait_again()
        num_tokens = sum(len(tokens) for _, tokens, _ in rows)
        detail = (self._log.errors() or ["no reason given"])[-1]
        return f"llama.cpp could not evaluate {num_tokens} tokens (code {code}): {detail}"

    def _advance(self, sequence: _Sequence, tokens: Tokens[int], row: int) -> StepOutput:
        """What the step did for one sequence."""
        assert sequence.holder is not None
        del sequence.pending[: len(tokens)]
        if not sequence.generated:
            sequence.prompt_done += len(tokens)
            if sequence.request.use_cache:
                self.cache.publish(sequence.holder)
        if sequence.pending:
            if len(sequence.pending) == 1 and self._wants_checkpoint(sequence):
                self.cache.checkpoint(sequence.holder)
            return self._output(sequence, [], None)
        try:
            return self._sample(sequence, row)
        except GrammarError as error:
            return self._finish(sequence, [], None, "error", str(error))

    def _sample(self, sequence: _Sequence, row: int) -> StepOutput:
        request = sequence.request
        logits = self._batch.logits(row)
        raw = logits.copy() if request.sampling.logprobs is not None else None
        if sequence.matcher is not None:
            sequence.matcher.mask(logits)
        token_id = sequence.sampler.sample(self._context, row)
        logprobs = [alternatives(raw, token_id, request.sampling.logprobs or 0)] if raw is not None else None
        sequence.pending = [token_id]
        sequence.generated.append(token_id)
        if sequence.first_token_at is None:
            sequence.first_token_at = time.monotonic()
        ended = token_id in self._eog_ids or token_id in request.stop_ids
        if sequence.matcher is not None and not ended:
            sequence.matcher.accept(token_id)
            ended = sequence.matcher.done
        if ended:
            return self._finish(sequence, [token_id], logprobs, "stop")
        assert sequence.holder is not None
        full = sequence.holder.num_tokens >= min(self._limits.context_tokens, self.cache.capacity)
        if full or len(sequence.generated) >= request.max_tokens:
            return self._finish(sequence, [token_id], logprobs, "length")
        return self._output(sequence, [token_id], logprobs)

    # -- outputs --------------------------------------------------------------------------------------------------------

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
            prefill_done=sequence.prompt_done - sequence.cached_tokens,
            prefill_total=len(sequence.request.prompt_ids) - sequence.cached_tokens,
            logprobs=logprobs,
            finish=finish,
            error=error,
            prefill_ms=(first_token_at - sequence.started_at) * 1000,
            decode_ms=(now - first_token_at) * 1000,
            cache_miss=sequence.cache_miss,
            cache_source=sequence.cache_source,
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
        self._sequences.remove(sequence)
        if sequence.holder is not None:
            keep = sequence.request.use_cache and sequence.request.keep_cache
            self.cache.close(sequence.holder, keep=keep, pin_s=sequence.request.pin_s)
            sequence.holder = None

    def _text(self, token_id: int) -> str:
        return repr(self.info.pieces[token_id].decode(errors="replace"))

    def _grammar_tokenizer(self) -> Any:
        """llguidance's tokenizer over this vocabulary; it tokenizes forced text by calling llama.cpp itself."""
        tokenizer_type: Any = llguidance.LLTokenizer  # `from_llamacpp` is missing in its type stub
        return tokenizer_type.from_llamacpp(
            tokens=marked_pieces(self.info.pieces, self.info.special_ids),
            vocab_ptr=self._vocab,
            tokenize_fptr=ctypes.cast(native._lib.llama_tokenize, ctypes.c_void_p).value,
            eos_token=self.info.eog_ids,
        )
