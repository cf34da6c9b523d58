"""Will it fit? Weights, KV cache and buffers against free memory, before anything is loaded.

The KV cache holds, per layer and token, one key and one value for each KV head, two bytes a number (f16). Layers with a
sliding window hold the window only; where the file does not say which layers those are, all are counted in full, so the
figure is an upper bound.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from daneel.errors import UserError
from daneel.server.models.catalogue import Catalogue
from daneel.server.models.gguf_header import GGUFHeader
from daneel.server.models.memory import Memory, memory_now

# llama.cpp's default physical batch; its compute buffer holds the logits of one such batch
_BATCH_TOKENS = 512
_KV_NUMBER_BYTES = 2
_LOGIT_BYTES = 4
_CONTEXT_STEP_TOKENS = 256

# deeper than any model; the header is not trusted
_MAX_LAYERS = 4096

Verdict = Literal["fits", "tight", "too_large"]


@dataclass(frozen=True)
class FitReport:
    """What loading takes and what there is, in bytes, and one sentence for the person.

    `fits`: now. `tight`: only if other programs give memory back. `too_large`: never on this machine.
    `largest_context_tokens` is what would fit now (0: not even the weights do).
    """

    verdict: Verdict
    weights_bytes: int
    kv_bytes: int
    buffer_bytes: int
    memory: Memory
    context_tokens: int
    largest_context_tokens: int
    message: str

    @property
    def needed_bytes(self) -> int:
        """All that loading takes."""
        return self.weights_bytes + self.kv_bytes + self.buffer_bytes


def kv_bytes(header: GGUFHeader, context_tokens: int) -> int:
    """Bytes of KV cache for `context_tokens`; 0 when the header does not describe attention."""
    num_layers = min(max(0, header.num_layers or 0), _MAX_LAYERS)
    heads = _per_layer(header, "attention.head_count_kv", num_layers) or _per_layer(header, "attention.head_count", num_layers)
    if not heads:
        return 0
    sliding = _sliding_layers(header, num_layers)
    window_tokens = min(context_tokens, (header.integer("attention.sliding_window") or 0) + _BATCH_TOKENS)
    own_layers = num_layers - max(0, header.integer("attention.shared_kv_layers") or 0)
    total = 0
    for num_heads, is_sliding in list(zip(heads, sliding, strict=True))[: max(0, own_layers)]:
        tokens = window_tokens if is_sliding else context_tokens
        total += num_heads * _head_numbers(header, is_sliding) * tokens * _KV_NUMBER_BYTES
    return total


def _head_numbers(header: GGUFHeader, is_sliding: bool) -> int:
    """Numbers that one KV head keeps for a token: the key's length and the value's."""
    num_heads = max(_per_layer(header, "attention.head_count", 1) or (1,))
    default = (header.integer("embedding_length") or 0) // max(1, num_heads)
    lengths = [header.integer(f"attention.{kind}_length") or default for kind in ("key", "value")]
    if is_sliding:
        swa = [header.integer(f"attention.{kind}_length_swa") for kind in ("key", "value")]
        lengths = [own or length for own, length in zip(swa, lengths, strict=True)]
    return sum(lengths)


def _per_layer(header: GGUFHeader, suffix: str, num_layers: int) -> tuple[int, ...]:
    """One count a layer: the file gives one for all, or an array. Empty when it gives none or the wrong number."""
    value = header.value(suffix)
    if isinstance(value, int) and not isinstance(value, bool):
        return (max(0, value),) * num_layers
    if isinstance(value, tuple) and len(value) >= num_layers:
        return tuple(max(0, number) if isinstance(number, int) else 0 for number in value[:num_layers])
    return ()


def _sliding_layers(header: GGUFHeader, num_layers: int) -> Sequence[bool]:
    pattern = header.value("attention.sliding_window_pattern")
    if not header.integer("attention.sliding_window"):
        return [False] * num_layers
    if isinstance(pattern, tuple) and len(pattern) >= num_layers:
        return [bool(flag) for flag in pattern[:num_layers]]
    if isinstance(pattern, int) and not isinstance(pattern, bool) and pattern > 0:
        # every `pattern`-th layer attends to everything
        return [layer % pattern < pattern - 1 for layer in range(num_layers)]
    return [False] * num_layers


def assess(
    header: GGUFHeader,
    context_tokens: int,
    *,
    weights_bytes: int | None = None,
    memory: Memory | None = None,
    on_gpu: bool = False,
    entries: Catalogue | None = None,
) -> FitReport:
    """Compare what `context_tokens` of context take with `memory` (None: as it is now). Never raises.

    `weights_bytes` counts all shards (None: this file's). `on_gpu` says that weights go to a GPU, whose memory is not
    known here. `entries` are the models from which a smaller one may be proposed.
    """
    memory = memory or memory_now()
    weights = header.tensor_bytes if weights_bytes is None else weights_bytes
    kv = kv_bytes(header, context_tokens)
    buffers = _BATCH_TOKENS * header.vocabulary_size * _LOGIT_BYTES
    needed = weights + kv + buffers

    def fits_now(tokens: int) -> bool:
        return weights + buffers + kv_bytes(header, tokens) <= memory.available_bytes

    most_tokens = max(context_tokens, header.context_tokens or context_tokens)
    largest = _largest(fits_now, most_tokens)
    verdict: Verdict = "fits" if needed <= memory.available_bytes else "tight"
    if needed > memory.total_bytes:
        verdict = "too_large"
    message = (
        f"about {_gb(needed)} needed ({_gb(weights)} weights, {_gb(kv)} KV cache for {context_tokens:,} tokens, "
        f"{_gb(buffers)} buffers), {_gb(memory.available_bytes)} of {_gb(memory.total_bytes)} free"
    )
    if memory.limited_by == "container":
        message += " in this container"
    message += _advice(verdict, largest, memory, entries)
    if on_gpu:
        message += "; the GPU's own memory is not known to daneel"
    return FitReport(verdict, weights, kv, buffers, memory, context_tokens, largest, message)


def check_fit(
    header: GGUFHeader,
    context_tokens: int,
    *,
    weights_bytes: int | None = None,
    memory: Memory | None = None,
    on_gpu: bool = False,
    entries: Catalogue | None = None,
) -> FitReport:
    """`assess`, but raises `UserError` when it can never fit into main memory (and main memory is where it goes)."""
    report = assess(header, context_tokens, weights_bytes=weights_bytes, memory=memory, on_gpu=on_gpu, entries=entries)
    if report.verdict == "too_large" and not on_gpu:
        raise UserError(f"the model does not fit: {report.message}")
    return report


def _largest(fits: Callable[[int], bool], most_tokens: int) -> int:
    """The largest context that fits, in steps; 0 when none does."""
    if fits(most_tokens):
        return most_tokens
    low, high = 0, most_tokens // _CONTEXT_STEP_TOKENS
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle * _CONTEXT_STEP_TOKENS):
            low = middle
        else:
            high = middle - 1
    return low * _CONTEXT_STEP_TOKENS


def _advice(verdict: Verdict, largest_tokens: int, memory: Memory, entries: Catalogue | None) -> str:
    if verdict == "fits":
        return ": it fits"
    if largest_tokens:
        return f": --context {largest_tokens} would fit"
    smaller = [entry for entry in (entries or {}).values() if entry.size_bytes * 1.3 <= memory.available_bytes]
    if smaller:
        best = max(smaller, key=lambda entry: entry.size_bytes)
        return f": no context would fit; {best.name} ({_gb(best.size_bytes)}) would"
    return ": no context would fit"


def _gb(num_bytes: int) -> str:
    return f"{num_bytes / 1e9:.2f} GB"
