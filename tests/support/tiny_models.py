"""Language models of a few thousand random numbers, as GGUF files that llama.cpp loads: one of each kind of memory.

Their vocabulary is the 256 bytes. The weights are scaled such that what was long before matters for what is said next, and the
order of sums hardly: what such a model says is a check of the cells that it has said it from.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.support.gguf_writer import string, value

WIDTH, HEADS, KV_HEADS, FEED_FORWARD, LAYERS = 64, 4, 2, 96, 4
CONTEXT_TOKENS = 2048
WINDOW = 16
"""How far a layer with a sliding window looks back, in tokens."""

INNER, STATE, SSM_HEADS, CONVOLUTION = 64, 16, 4, 4
"""Of the recurrent layers: their width, numbers of state for each of it, heads, and the reach of the convolution."""

NUM_VOCAB = 3 + 256
END_ID = 2
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
_F32 = 0  # ggml.h, GGML_TYPE_F32
_ALIGNMENT = 32

Tensors = dict[str, NDArray[np.float32]]


def write_llama(path: Path, *, context_tokens: int = CONTEXT_TOKENS) -> Path:
    """Attention over all that was before: a memory that can be cut at any token."""
    weights = _Weights(1)
    tensors = weights.ends()
    for layer in range(LAYERS):
        tensors |= weights.attention(layer) | weights.feed_forward(layer)
    return _write(path, "llama", {"context_length": context_tokens}, tensors)


def write_gemma3(path: Path) -> Path:
    """Gemma's layers: five of six look back no further than a window, the sixth over everything."""
    weights = _Weights(2)
    tensors = weights.ends(embedding=8.0 / WIDTH**0.5)  # llama.cpp multiplies Gemma's by the root of the width
    for layer in range(6):
        tensors |= weights.attention(layer) | weights.feed_forward(layer)
        head = WIDTH // HEADS
        tensors |= {
            f"blk.{layer}.attn_q_norm.weight": np.ones(head, np.float32),
            f"blk.{layer}.attn_k_norm.weight": np.ones(head, np.float32),
            f"blk.{layer}.post_attention_norm.weight": np.ones(WIDTH, np.float32),
            f"blk.{layer}.post_ffw_norm.weight": np.ones(WIDTH, np.float32),
        }
    facts = {"block_count": 6, "attention.sliding_window": WINDOW, "attention.key_length": WIDTH // HEADS,
             "attention.value_length": WIDTH // HEADS}  # fmt: skip
    return _write(path, "gemma3", facts, tensors)


def write_falcon_h1(path: Path) -> Path:
    """Attention and a recurrent state (Mamba 2) side by side in every layer: a memory that cannot be cut."""
    weights = _Weights(3)
    tensors = weights.ends()
    for layer in range(LAYERS):
        tensors |= weights.attention(layer) | weights.feed_forward(layer) | weights.recurrent(layer)
        tensors[f"blk.{layer}.ffn_norm"] = tensors.pop(f"blk.{layer}.ffn_norm.weight")  # llama.cpp's name for it here
    return _write(path, "falcon-h1", _recurrent_facts(), tensors)


def write_mamba2(path: Path) -> Path:
    """A recurrent state and nothing else."""
    weights = _Weights(4)
    tensors = weights.ends()
    for layer in range(LAYERS):
        tensors |= weights.recurrent(layer)
        tensors[f"blk.{layer}.attn_norm.weight"] = np.ones(WIDTH, np.float32)
    return _write(path, "mamba2", _recurrent_facts(), tensors)


def _recurrent_facts() -> dict[str, Any]:
    return {
        "ssm.conv_kernel": CONVOLUTION,
        "ssm.inner_size": INNER,
        "ssm.state_size": STATE,
        "ssm.time_step_rank": SSM_HEADS,
        "ssm.group_count": 1,
    }


class _Weights:
    """Random tensors by name. A matrix from `inputs` to `outputs` numbers has the shape (outputs, inputs)."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)

    def matrix(self, outputs: int, inputs: int, scale: float = 1.0) -> NDArray[np.float32]:
        return (self._random.standard_normal((outputs, inputs)) * scale / np.sqrt(inputs)).astype(np.float32)

    def ends(self, embedding: float = 8.0) -> Tensors:
        return {
            "token_embd.weight": self.matrix(NUM_VOCAB, WIDTH, scale=embedding),
            "output.weight": self.matrix(NUM_VOCAB, WIDTH, scale=4.0),
            "output_norm.weight": np.ones(WIDTH, np.float32),
        }

    def attention(self, layer: int) -> Tensors:
        """Queries and keys large enough that attention singles out tokens."""
        narrow = WIDTH // HEADS * KV_HEADS
        return {
            f"blk.{layer}.attn_norm.weight": np.ones(WIDTH, np.float32),
            f"blk.{layer}.attn_q.weight": self.matrix(WIDTH, WIDTH, scale=1.5),
            f"blk.{layer}.attn_k.weight": self.matrix(narrow, WIDTH, scale=1.5),
            f"blk.{layer}.attn_v.weight": self.matrix(narrow, WIDTH),
            f"blk.{layer}.attn_output.weight": self.matrix(WIDTH, WIDTH, scale=1.5),
        }

    def feed_forward(self, layer: int) -> Tensors:
        return {
            f"blk.{layer}.ffn_norm.weight": np.ones(WIDTH, np.float32),
            f"blk.{layer}.ffn_gate.weight": self.matrix(FEED_FORWARD, WIDTH),
            f"blk.{layer}.ffn_up.weight": self.matrix(FEED_FORWARD, WIDTH),
            f"blk.{layer}.ffn_down.weight": self.matrix(WIDTH, FEED_FORWARD),
        }

    def recurrent(self, layer: int) -> Tensors:
        """A Mamba 2 block: one projection in for gate, input, state's two and time steps; one out."""
        convolved = INNER + 2 * STATE
        return {
            f"blk.{layer}.ssm_in.weight": self.matrix(INNER + convolved + SSM_HEADS, WIDTH, scale=2.0),
            f"blk.{layer}.ssm_conv1d.weight": self.matrix(convolved, CONVOLUTION),
            f"blk.{layer}.ssm_conv1d.bias": np.zeros(convolved, np.float32),
            f"blk.{layer}.ssm_dt.bias": np.full(SSM_HEADS, -2.0, np.float32),
            f"blk.{layer}.ssm_a": -self._random.uniform(0.1, 1.0, (SSM_HEADS, 1)).astype(np.float32),
            f"blk.{layer}.ssm_d": np.ones((SSM_HEADS, 1), np.float32),
            f"blk.{layer}.ssm_norm.weight": np.ones((1, INNER), np.float32),
            f"blk.{layer}.ssm_out.weight": self.matrix(WIDTH, INNER, scale=2.0),
        }


def _write(path: Path, architecture: str, facts: dict[str, Any], tensors: Tensors) -> Path:
    metadata: dict[str, Any] = {
        "general.architecture": architecture,
        "general.name": f"Tiny {architecture}",
        "general.file_type": 0,
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))],
        "tokenizer.ggml.scores": [0.0] * NUM_VOCAB,
        "tokenizer.ggml.unknown_token_id": 0,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": END_ID,
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.ggml.add_space_prefix": False,
        "tokenizer.chat_template": CHAT_TEMPLATE,
    }
    common = {
        "block_count": LAYERS,
        "context_length": CONTEXT_TOKENS,
        "embedding_length": WIDTH,
        "feed_forward_length": FEED_FORWARD,
        "attention.head_count": HEADS,
        "attention.head_count_kv": KV_HEADS,
        "attention.layer_norm_rms_epsilon": 1e-5,
        "vocab_size": NUM_VOCAB,
    }
    metadata |= {f"{architecture}.{key}": item for key, item in (common | facts).items()}
    kinds = [2, 3, 3, *[6] * 256]  # llama.h, llama_token_type: unknown, control, byte
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata) + 1)
    head += b"".join(string(key) + value(item) for key, item in metadata.items())
    head += string("tokenizer.ggml.token_type") + struct.pack("<IIQ", 9, 5, len(kinds)) + struct.pack(f"<{len(kinds)}i", *kinds)
    body = b""
    for name, tensor in tensors.items():
        head += string(name) + struct.pack("<I", tensor.ndim)
        head += b"".join(struct.pack("<Q", size) for size in reversed(tensor.shape))
        head += struct.pack("<IQ", _F32, len(body))
        body += tensor.tobytes() + b"\0" * (-tensor.nbytes % _ALIGNMENT)
    path.write_bytes(head + b"\0" * (-len(head) % _ALIGNMENT) + body)
    return path
