"""An engine that says what a script tells it, so that any model output can be forced: for tests, demos and bug reports.

It keeps the rules of a real engine: prefill in chunks, reuse of prefixes, several sequences a step, `max_tokens`. Grammars
and sampling are ignored.
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
    StepOutput,
    StopCause,
    TokenAlternatives,
)
from daneel.server.engines.checks import Limits, check_request
from daneel.server.engines.prefix import common_prefix_length
from daneel.server.engines.script import Script, ScriptEntry, load_script

DEFAULT_CONTEXT_TOKENS = 32_768
_MAX_REMEMBERED = 64
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
    )


@dataclass(slots=True)
class _Sequence:
    request: Generate
    entry: ScriptEntry
    steps: list[list[int]]
    cached_tokens: int
    done: int
    started_at: float = field(default_factory=time.monotonic)
    first_token_at: float | None = None
    generated: list[int] = field(default_factory=list)


class ScriptedEngine:
    """See `base.Engine`."""

    def __init__(self, entries: list[ScriptEntry], context_tokens: int, *, chunk_tokens: int, max_sequences: int = 8) -> None:
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
        self._remembered: list[tuple[str, list[int]]] = []
        """Token ids of earlier sequences, oldest first: what a real engine would have in its KV cache."""

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
        cached_tokens = self._common_prefix(request) if request.use_cache else 0
        self._running[request.request_id] = _Sequence(request, entry, steps, cached_tokens, cached_tokens)

    def cancel(self, request_id: int) -> None:
        if sequence := self._running.pop(request_id, None):
            self._remember(sequence)

    def step(self) -> list[StepOutput]:
        sequences = list(self._running.values())
        delay_ms = max((self._delay_ms(sequence) for sequence in sequences), default=0.0)
        if delay_ms > 0:
            time.sleep(delay_ms / 1000)
        return [self._step(sequence) for sequence in sequences]

    def close(self) -> None:
        self._running.clear()

    def _delay_ms(self, sequence: _Sequence) -> float:
        prefilling = sequence.done < len(sequence.request.prompt_ids)
        return sequence.entry.prefill_delay_ms if prefilling else sequence.entry.delay_ms

    def _step(self, sequence: _Sequence) -> StepOutput:
        num_prompt = len(sequence.request.prompt_ids)
        if sequence.done < num_prompt:
            sequence.done = min(num_prompt, sequence.done + self._chunk_tokens)
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
        if end is not None:
            return self._end(sequence, token_ids, "stop")
        if len(token_ids) >= room or (not sequence.steps and sequence.entry.finish == "length"):
            return self._end(sequence, token_ids, "length")
        return self._output(sequence, token_ids)

    def _end(self, sequence: _Sequence, token_ids: list[int], cause: StopCause, error: str | None = None) -> StepOutput:
        self._running.pop(sequence.request.request_id)
        self._remember(sequence)
        return self._output(sequence, token_ids, cause, error)

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
            cache_miss=None if sequence.cached_tokens else "cold",
            cache_source="memory" if sequence.cached_tokens else None,
        )

    def _common_prefix(self, request: Generate) -> int:
        own = [known for tenant, known in self._remembered if tenant == request.tenant]
        longest = max((common_prefix_length(request.prompt_ids, known) for known in own), default=0)
        return min(longest, len(request.prompt_ids) - 1)

    def _remember(self, sequence: _Sequence) -> None:
        request = sequence.request
        if request.use_cache and request.keep_cache:
            self._remembered.append((request.tenant, request.prompt_ids[: sequence.done] + sequence.generated))
        del self._remembered[:-_MAX_REMEMBERED]
