"""An engine that says what a script tells it, so that any model output can be forced: for tests, demos and bug reports.

It keeps the rules of a real engine: prefill in chunks, a prompt cache with tenants and tiers, several sequences a step,
`max_tokens`. Grammars and sampling are ignored.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from pathlib import Path

from daneel.server.engines import byte_tokenizer
from daneel.server.engines.base import (
    EngineInfo,
    EngineSpec,
    Generate,
    LoadProgress,
    PromptCache,
    StepOutput,
    StopCause,
    TokenAlternatives,
)
from daneel.server.engines.cache_control import CacheControl
from daneel.server.engines.cache_tiers import Tiers
from daneel.server.engines.checks import Limits, check_request
from daneel.server.engines.counted_cells import BYTES_PER_TOKEN, CountedCells
from daneel.server.engines.kv_cache import KvCache, Opened
from daneel.server.engines.prefix import MIN_SHARED_TOKENS, common_prefix_length
from daneel.server.engines.script import Script, ScriptEntry, load_script

DEFAULT_CONTEXT_TOKENS = 32_768

_NUM_KEPT = 64
CRASH_EXIT_CODE = 13

CHAT_TEMPLATE = """\
{%- if tools -%}
<|im_start|>system
{% if messages and messages[0].role == "system" %}{{ messages[0].content }}

{% endif %}Tools, one JSON object a line:
{% for tool in tools %}{{ tool | tojson }}
{% endfor %}Call a tool like this: <tool_call>{"name": "...", "arguments": {}}</tool_call><|im_end|>
{% endif -%}
{%- for message in messages -%}
{%- if message.role == "system" and tools and loop.first -%}
{%- elif message.role == "tool" -%}
<|im_start|>user
<tool_response>
{{ message.content }}
</tool_response><|im_end|>
{% else -%}
<|im_start|>{{ message.role }}
{{ message.content or "" }}
{%- for call in message.tool_calls or [] -%}
{%- set function = call.function or call %}
<tool_call>{"name": {{ function.name | tojson }}, "arguments": {{ function.arguments | tojson }}}</tool_call>
{%- endfor -%}
<|im_end|>
{% endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
<|im_start|>assistant
{% endif -%}
"""


def load(spec: EngineSpec, on_progress: LoadProgress) -> ScriptedEngine:
    """An engine that follows the script at `spec.script_path`, if any. Raises `EngineLoadError`."""
    entries = load_script(Path(spec.script_path)) if spec.script_path is not None else []
    on_progress(1.0)
    return ScriptedEngine(
        entries,
        spec.context_tokens or DEFAULT_CONTEXT_TOKENS,
        chunk_tokens=spec.prefill_chunk_tokens,
        max_sequences=spec.num_sequences,
        kv_tokens=spec.kv_tokens,
        prompt_cache=spec.prompt_cache,
    )


@dataclass(slots=True)
class _Sequence:
    request: Generate
    entry: ScriptEntry
    steps: list[list[int]]
    opened: Opened | None = None
    done: int = 0
    started_at: float = field(default_factory=time.monotonic)
    first_token_at: float | None = None
    generated: list[int] = field(default_factory=list)

    @property
    def cached_tokens(self) -> int:
        return self.opened.num_cached if self.opened is not None else 0


class ScriptedEngine:
    """See `base.Engine`."""

    def __init__(
        self,
        entries: list[ScriptEntry],
        context_tokens: int,
        *,
        chunk_tokens: int,
        max_sequences: int = 8,
        kv_tokens: int | None = None,
        prompt_cache: PromptCache = PromptCache(),
    ) -> None:
        self.max_sequences = max_sequences
        self.info = EngineInfo(
            engine="scripted",
            engine_version="1",
            model_name="scripted",
            context_tokens=context_tokens,
            pieces=byte_tokenizer.PIECES,
            special_ids=byte_tokenizer.SPECIAL_IDS,
            eog_ids=byte_tokenizer.EOG_IDS,
            bos_text="",
            eos_text=byte_tokenizer.END,
            add_bos=False,
            chat_template=CHAT_TEMPLATE,
        )
        self._script = Script(entries)
        self._chunk_tokens = chunk_tokens
        self._limits = Limits(len(self.info.pieces), context_tokens)
        self._running: dict[int, _Sequence] = {}
        self._cells = CountedCells()
        self._tiers = Tiers.open(prompt_cache, scope=["scripted"])
        self.cache = KvCache(
            self._cells,
            capacity=max(kv_tokens, context_tokens) if kv_tokens is not None else _NUM_KEPT * context_tokens,
            max_sequences=max_sequences + _NUM_KEPT,
            max_idle_tokens=prompt_cache.max_idle_tokens,
            tiers=self._tiers.in_order,
            text_of=lambda token_id: repr(self.info.pieces[token_id].decode(errors="replace")),
        )
        self.cache_control = CacheControl(self.cache, self._tiers, BYTES_PER_TOKEN)

    def tokenize(self, text: str) -> list[int]:
        return byte_tokenizer.encode(text)

    def check(self, request: Generate) -> None:
        check_request(request, self._limits)
        for token_id in request.script_ids or []:
            if not 0 <= token_id < self._limits.num_vocab:
                raise ValueError(f"script token id {token_id} is not in the vocabulary of {self._limits.num_vocab} tokens")

    def admit(self, request: Generate) -> None:
        if request.script_ids is not None:
            entry = ScriptEntry(text="")
            steps = [[token_id] for token_id in request.script_ids]
            if not steps or steps[-1][0] not in self.info.eog_ids:
                steps.append([byte_tokenizer.END_ID])
        else:
            found = self._script.take(byte_tokenizer.decode(request.prompt_ids))
            entry = found or ScriptEntry()
            steps = found.steps() if found else []
        self._running[request.request_id] = _Sequence(request, entry, steps)

    def cancel(self, request_id: int) -> None:
        if sequence := self._running.pop(request_id, None):
            self._release(sequence)

    def step(self) -> list[StepOutput]:
        self._start_waiting()
        sequences = [sequence for sequence in self._running.values() if sequence.opened is not None]
        self.cache.room(len(sequences) * self._chunk_tokens)
        delay_ms = max((self._delay_ms(sequence) for sequence in sequences), default=0.0)
        if delay_ms > 0:
            time.sleep(delay_ms / 1000)
        return [self._step(sequence) for sequence in sequences]

    def close(self) -> None:
        for request_id in list(self._running):
            self.cancel(request_id)
        if self._tiers.outlive:
            self.cache.save_all()
            self._tiers.flush()

    def _start_waiting(self) -> None:
        """Give sequences their place in the cache; one whose prompt another is about to evaluate waits for that."""
        for sequence in self._running.values():
            request = sequence.request
            if sequence.opened is None and not self._waits_for_another(sequence):
                ids = request.prompt_ids
                sequence.opened = self.cache.open(
                    request.tenant, ids, use=request.use_cache, keep=request.keep_cache, reserve=len(ids) + 1
                )
                sequence.done = sequence.cached_tokens

    def _waits_for_another(self, sequence: _Sequence) -> bool:
        request = sequence.request
        if not request.use_cache:
            return False
        known = self.cache.longest(request.tenant, request.prompt_ids)
        return any(
            common_prefix_length(other.request.prompt_ids, request.prompt_ids[:-1]) >= known + MIN_SHARED_TOKENS
            for other in self._running.values()
            if other.opened is not None
            and other.done < len(other.request.prompt_ids)
            and other.request.use_cache
            and other.request.tenant == request.tenant
        )

    def _delay_ms(self, sequence: _Sequence) -> float:
        prefilling = sequence.done < len(sequence.request.prompt_ids)
        return sequence.entry.prefill_delay_ms if prefilling else sequence.entry.delay_ms

    def _step(self, sequence: _Sequence) -> StepOutput:
        num_prompt = len(sequence.request.prompt_ids)
        if sequence.done < num_prompt:
            chunk = sequence.request.prompt_ids[sequence.done : sequence.done + self._chunk_tokens]
            sequence.done += len(chunk)
            self._grow(sequence, chunk)
            if sequence.request.use_cache and sequence.opened is not None:
                self.cache.publish(sequence.opened.holder)
            if sequence.done < num_prompt:
                return self._output(sequence, [])
        return self._say(sequence)

    def _say(self, sequence: _Sequence) -> StepOutput:
        request = sequence.request
        if sequence.first_token_at is None:
            sequence.first_token_at = time.monotonic()
        if not sequence.steps:
            if sequence.entry.crash:
                os._exit(CRASH_EXIT_CODE)
            if sequence.entry.finish == "length":
                return self._end(sequence, [], "length")
            return self._end(sequence, [], "error", "the script is exhausted, or no line of it fits the prompt")
        room = min(request.max_tokens, self._limits.context_tokens - len(request.prompt_ids)) - len(sequence.generated)
        token_ids = sequence.steps.pop(0)[:room]
        ends = (*self.info.eog_ids, *request.stop_ids)
        end = next((index for index, token_id in enumerate(token_ids) if token_id in ends), None)
        if end is not None:
            token_ids = token_ids[: end + 1]
        sequence.generated += token_ids
        self._grow(sequence, token_ids)
        if end is not None:
            return self._end(sequence, token_ids, "stop")
        if len(token_ids) >= room or (not sequence.steps and sequence.entry.finish == "length"):
            return self._end(sequence, token_ids, "length")
        return self._output(sequence, token_ids)

    def _end(self, sequence: _Sequence, token_ids: list[int], cause: StopCause, error: str | None = None) -> StepOutput:
        self._running.pop(sequence.request.request_id)
        self._release(sequence)
        return self._output(sequence, token_ids, cause, error)

    def _grow(self, sequence: _Sequence, token_ids: list[int]) -> None:
        if sequence.opened is not None:
            self._cells.grow(sequence.opened.holder.seq, len(token_ids))
            self.cache.grow(sequence.opened.holder, token_ids)

    def _release(self, sequence: _Sequence) -> None:
        request = sequence.request
        if sequence.opened is not None:
            keep = request.use_cache and request.keep_cache
            self.cache.close(sequence.opened.holder, keep=keep, pin_s=request.pin_s)

    def _output(
        self, sequence: _Sequence, token_ids: list[int], cause: StopCause | None = None, error: str | None = None
    ) -> StepOutput:
        now = time.monotonic()
        first_token_at = sequence.first_token_at or now
        certain = [TokenAlternatives(0.0, [(token_id, 0.0)]) for token_id in token_ids]
        return StepOutput(
            request_id=sequence.request.request_id,
            token_ids=token_ids,
            cached_tokens=sequence.cached_tokens,
            prefill_done=sequence.done - sequence.cached_tokens,
            prefill_total=len(sequence.request.prompt_ids) - sequence.cached_tokens,
            logprobs=certain if sequence.request.sampling.logprobs is not None else None,
            finish=cause,
            error=error,
            prefill_ms=(first_token_at - sequence.started_at) * 1000,
            decode_ms=(now - first_token_at) * 1000,
            cache_miss=sequence.opened.miss if sequence.opened is not None else None,
            cache_source=sequence.opened.source if sequence.opened is not None else None,
        )
