"""Loading a GGUF with llama.cpp's C API, and what its vocabulary and metadata say.

llama.cpp answers a failed load with a null pointer and log lines; `explain_load_failure` turns the lines into a sentence.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections import deque
from pathlib import Path
from typing import Any

import llama_cpp
import llama_cpp.llama_cpp as native
import psutil

from daneel.server.engines.base import EngineInfo, EngineLoadError, EngineSpec, KvType, LoadProgress

GGUF_MAGIC = b"GGUF"
DEFAULT_CONTEXT_TOKENS = 16_384
"""Long enough for an agent's session; fewer when the model was trained for fewer or memory is short."""
_MIN_CONTEXT_TOKENS = 2_048
_KV_SHARE_OF_FREE_MEMORY = 0.25
_GGML_TYPES: dict[KvType, int] = {"f16": 1, "q4_0": 2, "q8_0": 8}  # ggml.h, ggml_type
_KV_BYTES: dict[KvType, float] = {"f16": 2, "q4_0": 18 / 32, "q8_0": 34 / 32}  # ggml-common.h: bytes of a block, numbers in it
MAX_NATIVE_SEQUENCES = 256  # llama.cpp, LLAMA_MAX_SEQ
NUM_CACHED_SEQUENCES = 56
NUM_CACHED_STATES = 12
"""The same for models with recurrent layers, whose states are megabytes each."""
_SHARD_NAME = re.compile(r"^(?P<stem>.*)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf$")
_LOG_LEVEL_ERROR = 4  # ggml.h, GGML_LOG_LEVEL_ERROR
_LOG_LEVEL_CONTINUED = 5

# What llama.cpp logs, and what it means to the person who chose the file; `{0}` is the first group.
_FAILURES = (
    (re.compile(r"unknown model architecture: '([^']*)'"), "this build of llama.cpp does not know its architecture {0!r}"),
    (re.compile(r"not within the file bounds|corrupted or incomplete|exceeds remaining file size|failed to read"),
     "the file is truncated or damaged: download it again"),
    (re.compile(r"(?:unable|failed) to allocate|out of memory|bad_alloc|cannot allocate"), "there is not enough memory for it"),
    (re.compile(r"unknown pre-tokenizer type: '([^']*)'"), "this build of llama.cpp does not know its pre-tokenizer {0!r}"),
    (re.compile(r"(?:GGUF|gguf).*version"), "its GGUF version is not supported by this build of llama.cpp"),
)  # fmt: skip


_DISCARD = native.llama_log_callback(lambda _level, _text, _user_data: None)


class LogLines:
    """llama.cpp's log: nothing on the terminal, the last error lines kept. Close it before it is dropped: the library has
    one log for the whole process and would call what is gone."""

    def __init__(self) -> None:
        self._errors: deque[str] = deque(maxlen=40)
        self._level = 0
        self._callback = native.llama_log_callback(self._log)
        native.llama_log_set(self._callback, ctypes.c_void_p(0))

    def _log(self, level: int, text: bytes, _user_data: object) -> None:
        if level != _LOG_LEVEL_CONTINUED:
            self._level = level
        if self._level == _LOG_LEVEL_ERROR:
            self._errors.append(text.decode(errors="replace").strip())

    def close(self) -> None:
        native.llama_log_set(_DISCARD, ctypes.c_void_p(0))

    def errors(self) -> list[str]:
        return [line for line in self._errors if line]


def check_files(path: Path) -> None:
    """Raise `EngineLoadError` when `path` is not a readable GGUF or, of a sharded one, not the first of all shards."""
    if match := _SHARD_NAME.match(path.name):
        if int(match["number"]) != 1:
            raise EngineLoadError(
                f"{path} is shard {int(match['number'])}; give the first one, -00001-of-{match['count']}.gguf"
            )
        for number in range(1, int(match["count"]) + 1):
            _check_magic(path.with_name(f"{match['stem']}-{number:05d}-of-{match['count']}.gguf"))
    else:
        _check_magic(path)


def _check_magic(path: Path) -> None:
    try:
        with path.open("rb") as file:
            magic = file.read(len(GGUF_MAGIC))
    except FileNotFoundError:
        raise EngineLoadError(f"there is no model file {path}") from None
    except OSError as error:
        raise EngineLoadError(f"the model file {path} cannot be read: {error.strerror}") from error
    if magic != GGUF_MAGIC:
        raise EngineLoadError(f"{path} is not a GGUF file: it does not begin with {GGUF_MAGIC.decode()}")


def explain_load_failure(path: Path, lines: list[str]) -> EngineLoadError:
    """One sentence from what llama.cpp logged."""
    for pattern, meaning in _FAILURES:
        for line in lines:
            if found := pattern.search(line):
                return EngineLoadError(f"cannot load {path}: {meaning.format(*found.groups())}")
    detail = lines[0] if lines else "llama.cpp gave no reason"
    return EngineLoadError(f"cannot load {path}: {detail}")


def load_model(spec: EngineSpec, on_progress: LoadProgress, log: LogLines) -> Any:
    """The native model, memory-mapped. Raises `EngineLoadError`."""
    path = Path(spec.model_path or "")
    check_files(path)
    params = native.llama_model_default_params()
    params.n_gpu_layers = -1 if spec.gpu_layers == "all" else spec.gpu_layers
    params.use_extra_bufts = not _cpu_has_amx()
    last = [-1]

    def progress(fraction: float, _user_data: object) -> bool:
        percent = int(fraction * 100)
        if percent > last[0]:
            last[0] = percent
            try:
                on_progress(fraction)
            except OSError:
                return False
        return True

    # the callback must outlive the call, so it has a name
    callback = native.llama_progress_callback(progress)
    params.progress_callback = callback
    model = native.llama_model_load_from_file(os.fsencode(path), params)
    if not model:
        raise explain_load_failure(path, log.errors())
    if not native.llama_model_has_decoder(model) or native.llama_model_has_encoder(model):
        raise EngineLoadError(f"cannot serve {path}: it is not a decoder-only text model")
    return model


def _cpu_has_amx() -> bool:
    """Whether llama.cpp would repack weights for Intel's AMX: that path crashes on some machines (ldtilecfg faults in
    `ggml_backend_amx_mul_mat`, llama.cpp issue 20824), and it cannot be turned off apart from the other repacking."""
    try:
        return "amx_int8" in Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace")
    except OSError:
        return False


def choose_context_tokens(model: Any, wanted: int | None) -> int:
    """The context to make, in tokens. Raises `EngineLoadError` when more is wanted than the model was trained for."""
    trained = int(native.llama_model_n_ctx_train(model))
    if wanted is not None:
        if not 1 <= wanted <= trained:
            raise EngineLoadError(f"a context of {wanted} tokens is not possible: this model was trained for {trained}")
        return wanted
    tokens = min(trained, DEFAULT_CONTEXT_TOKENS)
    budget_bytes = psutil.virtual_memory().available * _KV_SHARE_OF_FREE_MEMORY
    while tokens > _MIN_CONTEXT_TOKENS and tokens * kv_bytes_per_token(model) > budget_bytes:
        tokens //= 2
    return tokens


def choose_num_cells(model: Any, spec: EngineSpec, context_tokens: int) -> int:
    """The KV cells that all sequences share: room for one of the longest and its like, where memory allows.

    More would hold more cache, but attention costs what the highest used cell says. Raises `EngineLoadError`.
    """
    if spec.kv_tokens is not None:
        if spec.kv_tokens < context_tokens:
            raise EngineLoadError(
                f"a KV cache of {spec.kv_tokens} tokens holds less than the context of {context_tokens} tokens"
            )
        return spec.kv_tokens
    if spec.num_sequences == 1:
        return context_tokens
    budget_bytes = psutil.virtual_memory().available * _KV_SHARE_OF_FREE_MEMORY
    return 2 * context_tokens if 2 * context_tokens * kv_bytes_per_token(model) <= budget_bytes else context_tokens


def batch_tokens(model: Any, spec: EngineSpec) -> int:
    """The most tokens of one step: a chunk of prefill, and a token of every sequence that generates."""
    return max(spec.prefill_chunk_tokens + spec.num_sequences, num_native_sequences(model, spec))  # llama.cpp wants these


def num_native_sequences(model: Any, spec: EngineSpec) -> int:
    """Sequence ids: for those that run, and for what stays as cache. Where a sequence has a state besides its cells, each id
    takes memory for one from the start."""
    num_cached = NUM_CACHED_SEQUENCES if rolls_back(model) else NUM_CACHED_STATES
    return min(MAX_NATIVE_SEQUENCES, spec.num_sequences + num_cached)


def rolls_back(model: Any) -> bool:
    """Whether a sequence can be cut at any token: not where a state is all that there is of the past."""
    return not (native.llama_model_is_recurrent(model) or native.llama_model_is_hybrid(model))


def identity(model: Any, path: Path) -> list[str]:
    """Which model a saved state fits: its file's name and size, and its number of parameters."""
    return [path.name, str(path.stat().st_size), str(native.llama_model_n_params(model))]


def make_context(model: Any, spec: EngineSpec, num_cells: int, log: LogLines) -> Any:
    """A native context whose sequences share `num_cells`. Raises `EngineLoadError`, most likely for want of memory."""
    params = native.llama_context_default_params()
    params.n_ctx = max(num_cells, batch_tokens(model, spec))
    params.n_seq_max = num_native_sequences(model, spec)
    params.kv_unified = True  # without it, copying part of a sequence aborts the process
    params.swa_full = True  # layers with a sliding window keep what left it, so that a sequence can be cut anywhere
    params.n_batch = params.n_ubatch = batch_tokens(model, spec)
    if spec.kv_type != "f16":
        params.type_k = params.type_v = _GGML_TYPES[spec.kv_type]
        params.flash_attn_type = native.LLAMA_FLASH_ATTN_TYPE_ENABLED  # llama.cpp reads quantised values with it only
    params.n_threads = params.n_threads_batch = choose_num_threads(spec.num_threads)
    context = native.llama_init_from_model(model, params)
    if not context:
        detail = (log.errors() or ["llama.cpp gave no reason"])[-1]
        raise EngineLoadError(f"a context of {num_cells} tokens cannot be made for {spec.model_path}: {detail}")
    return context


def kv_bytes_per_token(model: Any, kv_type: KvType = "f16") -> int:
    """Keys and values of one token, over all layers; an upper bound for models with sliding windows."""
    heads = max(1, native.llama_model_n_head(model))
    width = native.llama_model_n_embd(model) // heads * native.llama_model_n_head_kv(model)
    return int(2 * native.llama_model_n_layer(model) * width * _KV_BYTES[kv_type])


def choose_num_threads(wanted: int | None) -> int:
    """Physical cores this process may use: oversubscribed cores slow ggml down by 10 to 100 times."""
    if wanted is not None:
        return max(1, wanted)
    cores = psutil.cpu_count(logical=False) or os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        cores = min(cores, len(os.sched_getaffinity(0)))
    return max(1, min(cores, _cgroup_cores() or cores))


def _cgroup_cores() -> int | None:
    """The container's CPU quota in whole cores (cgroup v2, `cpu.max` is "quota period" or "max period")."""
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()
    except (OSError, ValueError):
        return None
    return max(1, int(quota) // int(period)) if quota.isdigit() else None


def metadata(model: Any, key: str) -> str | None:
    """A value of the GGUF's metadata as text, `None` when it has no such key."""
    num_bytes = native.llama_model_meta_val_str(model, key.encode(), ctypes.create_string_buffer(1), 1)
    if num_bytes < 0:
        return None
    buffer = ctypes.create_string_buffer(num_bytes + 1)
    native.llama_model_meta_val_str(model, key.encode(), buffer, num_bytes + 1)
    return buffer.raw[:num_bytes].decode(errors="replace")


def token_pieces(vocab: Any) -> list[bytes]:
    """The bytes of every token, special ones as their text."""
    size = 1024
    buffer = ctypes.create_string_buffer(size)
    pieces = []
    for token_id in range(native.llama_vocab_n_tokens(vocab)):
        num_bytes = native.llama_token_to_piece(vocab, token_id, buffer, size, 0, True)
        if num_bytes < 0:  # the buffer is too small: the length wanted, negated
            size = -num_bytes
            buffer = ctypes.create_string_buffer(size)
            num_bytes = native.llama_token_to_piece(vocab, token_id, buffer, size, 0, True)
        pieces.append(ctypes.string_at(buffer, num_bytes))
    return pieces


def special_token_ids(vocab: Any, pieces: list[bytes]) -> list[int]:
    """Control tokens, and added tokens that look like a marker (added runs of white space or HTML-free text are text)."""
    special = []
    for token_id, piece in enumerate(pieces):
        attributes = native.llama_vocab_get_attr(vocab, token_id)
        looks_like_marker = (piece[:1], piece[-1:]) in ((b"<", b">"), (b"[", b"]")) and len(piece) > 2
        if attributes & native.LLAMA_TOKEN_ATTR_CONTROL or (
            attributes & native.LLAMA_TOKEN_ATTR_USER_DEFINED and looks_like_marker
        ):
            special.append(token_id)
    return special


def describe(model: Any, path: Path, context_tokens: int) -> EngineInfo:
    """What the server must know of a loaded model."""
    vocab = native.llama_model_get_vocab(model)
    pieces = token_pieces(vocab)

    def text(token_id: int) -> str:
        return pieces[token_id].decode(errors="replace") if 0 <= token_id < len(pieces) else ""

    quantisation = native.llama_ftype_name(native.llama_model_ftype(model))
    return EngineInfo(
        engine="llama.cpp",
        engine_version=llama_cpp.__version__,
        model_name=metadata(model, "general.name") or path.stem,
        context_tokens=context_tokens,
        pieces=pieces,
        special_ids=special_token_ids(vocab, pieces),
        eog_ids=[token_id for token_id in range(len(pieces)) if native.llama_vocab_is_eog(vocab, token_id)],
        bos_text=text(native.llama_vocab_bos(vocab)),
        eos_text=text(native.llama_vocab_eos(vocab)),
        add_bos=bool(native.llama_vocab_get_add_bos(vocab)),
        chat_template=metadata(model, "tokenizer.chat_template"),
        quantisation=quantisation.decode(errors="replace") if quantisation else None,
        num_parameters=int(native.llama_model_n_params(model)),
    )


def tokenize(vocab: Any, text: str) -> list[int]:
    """Ids of `text`, special tokens recognised, nothing added. Raises `ValueError` on a lone surrogate."""
    data = text.encode()
    capacity = len(data) + 8
    ids = (native.llama_token * capacity)()
    count = native.llama_tokenize(vocab, data, len(data), ids, capacity, False, True)
    if count < 0:
        ids = (native.llama_token * -count)()
        count = native.llama_tokenize(vocab, data, len(data), ids, -count, False, True)
    return list(ids[:count])
