"""What an engine is: token ids in, token ids out, never text. One `step()` moves every running sequence.

An engine lives in its own process (`engine_process.py`) and is driven by the scheduler there. All structs here cross the
process boundary as msgpack.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, Protocol

from msgspec import Struct

from daneel.errors import UserError

if TYPE_CHECKING:
    from daneel.server.engines.cache_control import CacheControl

StopCause = Literal["stop", "length", "cancelled", "error"]
KvType = Literal["f16", "q8_0", "q4_0"]


class EngineLoadError(UserError):
    """The model could not be loaded. The message is one sentence that says why."""


class PromptCache(Struct, frozen=True):
    """Where sequences are kept that left the KV cells: at most `max_entries` of `max_bytes` in host memory, then on a disk.

    `folder` `None`: no disk. `scope` is mixed into what authenticates its files: the template, say. `max_idle_tokens`: how much
    that no request uses may stay in the cells (`None`: as much as there is room for).
    """

    max_entries: int = 256
    max_bytes: int = 2**30
    folder: str | None = None
    max_disk_bytes: int = 8 * 2**30
    scope: str = ""
    max_idle_tokens: int | None = None


class EngineSpec(Struct, frozen=True):
    """What to load and how. `gpu_layers` "all" or a number; `None` elsewhere lets the engine choose (and report).

    `num_sequences`: how many may run at a time. `kv_tokens`: the KV cells that they and what is kept of others share;
    `kv_type`: the numbers of which keys and values are made.
    """

    engine: str
    model_path: str | None = None
    gpu_layers: int | Literal["all"] = "all"
    context_tokens: int | None = None
    num_threads: int | None = None
    prefill_chunk_tokens: int = 256
    num_sequences: int = 8
    kv_tokens: int | None = None
    kv_type: KvType = "f16"
    prompt_cache: PromptCache = PromptCache()
    script_path: str | None = None


LoadProgress = Callable[[float], None]
"""Called with the loaded fraction, 0 to 1. Raises `OSError` when nobody waits for the model any more."""


class Sampling(Struct, frozen=True):
    """How the next token is drawn. `temperature` 0 is greedy. `top_k` 0, `top_p` 1, `min_p` 0, `repetition_penalty` 1: off.

    The order is llama.cpp's: grammar mask, logit bias, penalties, top-k, top-p, min-p, temperature, draw. The repetition
    penalty sees the prompt and the generated tokens (as in transformers and vLLM), presence and frequency penalties the
    generated tokens only (as OpenAI defines them). Without a `seed` a random one is drawn; only its low 32 bits count.
    `logprobs` is the number of alternatives to report beside each sampled token's own (0: only its own); `None`: none.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    seed: int | None = None
    logit_bias: dict[int, float] = {}
    logprobs: int | None = None


class Generate(Struct, frozen=True):
    """One sequence to generate. `grammar` is llguidance's Lark text. `script_ids`: scripted engine only, what to emit.

    `stop_ids` end the generation as the model's own end tokens do (and are reported as the last id, too). `tenant`: whose
    request it is; cached tokens are only ever shared within one. Higher `priority` goes first. `use_cache`: read from the
    cache; `keep_cache`: leave what was evaluated there, for `pin_s` seconds whatever else happens.
    """

    request_id: int
    prompt_ids: list[int]
    max_tokens: int
    sampling: Sampling
    grammar: str | None = None
    use_cache: bool = True
    script_ids: list[int] | None = None
    stop_ids: list[int] = []
    tenant: str = ""
    priority: int = 0
    keep_cache: bool = True
    pin_s: float = 0.0


def private_room(tenant: str, name: str) -> str:
    """A tenant's name for requests that share with each other and with nobody else; it counts as the tenant's in all quotas."""
    return f"{tenant}/{name}"


def owner_of(tenant: str) -> str:
    """Whose quota it is: the tenant itself, or that of a private room."""
    return tenant.partition("/")[0]


class TokenAlternatives(Struct, frozen=True):
    """Log-probability of a sampled token and of the likeliest alternatives (id, logprob), before any mask or temperature."""

    logprob: float
    top: list[tuple[int, float]]


class StepOutput(Struct, frozen=True, array_like=True):
    """What one step did for one sequence. The scheduler sends one without tokens as soon as it has accepted a request.

    `token_ids` are the newly generated ids; an end-of-generation id, if one was sampled, is the last. `finish` is set on the
    sequence's last output. `prefill_done` of `prefill_total` uncached prompt tokens are evaluated; `cached_tokens` were
    read from the KV cache. `cache_source` says from where, `cache_miss` why not more of them (`None`: all that could be were).
    Times are milliseconds, set on the last output.
    """

    request_id: int
    token_ids: list[int]
    cached_tokens: int
    prefill_done: int
    prefill_total: int
    logprobs: list[TokenAlternatives] | None = None
    finish: StopCause | None = None
    error: str | None = None
    queue_ms: float = 0.0
    prefill_ms: float = 0.0
    decode_ms: float = 0.0
    cache_miss: str | None = None
    cache_source: str | None = None


class EngineInfo(Struct, frozen=True):
    """What the server must know of a loaded model.

    `pieces[i]` is the bytes of token `i` (special tokens as their text). `special_ids` are control tokens and added tokens
    that look like a marker (`<...>`, `[...]`): grammars refer to them by id. `eog_ids` end a generation. `chat_template` is
    the model's own, if its file holds one.
    """

    engine: str
    engine_version: str
    model_name: str
    context_tokens: int
    pieces: list[bytes]
    special_ids: list[int]
    eog_ids: list[int]
    bos_text: str
    eos_text: str
    add_bos: bool
    chat_template: str | None
    weights_sha256: str | None = None
    quantisation: str | None = None
    num_parameters: int | None = None


class Engine(Protocol):
    """A batch engine. `step()` is the system: it moves every admitted sequence by one decode or one chunk of prefill."""

    info: EngineInfo

    @property
    def cache_control(self) -> CacheControl:
        """Its prompt cache. Only for the thread that steps the engine."""
        ...

    @property
    def max_sequences(self) -> int:
        """How many sequences may be admitted at a time."""
        ...

    def tokenize(self, text: str) -> list[int]:
        """Ids of `text`, special tokens recognised, nothing added in front. Callable from another thread during a step."""
        ...

    def check(self, request: Generate) -> None:
        """Raise `ValueError` (one clear sentence) when `request` can never run. Callable from another thread during a step."""
        ...

    def admit(self, request: Generate) -> None:
        """Take a checked sequence. At most `max_sequences` at a time."""
        ...

    def cancel(self, request_id: int) -> None:
        """Drop a sequence; unknown ids are ignored. Takes effect before the next step."""
        ...

    def step(self) -> list[StepOutput]:
        """Move all admitted sequences once. Empty only when none is admitted."""
        ...

    def close(self) -> None: ...
