"""Reads the header of a GGUF file: metadata, tensor sizes, shards. Never the weights, and never trusting the file.

The layout is that of ggml's docs/gguf.md: magic, version, tensor count, key count, keys with typed values, tensor
infos, padding, data. A file from outside may claim anything, so every count and length is checked against the bytes that
are really there before it is believed.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from daneel.errors import UserError
from daneel.server.models.ggml_types import FILE_TYPES, TENSOR_BLOCKS

MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_MAX_KEYS = 65_536
_MAX_TENSORS = 1_000_000
_MAX_DIMENSIONS = 4
_MAX_KEY_BYTES = 65_535
_MAX_STRING_BYTES = 64 * 2**20
_MAX_STRINGS_IN_ARRAY = 16_000_000
_MAX_NESTING = 2
# longer arrays (vocabularies, merges, scores) are counted and skipped
_MAX_KEPT_VALUES = 8192
_MAX_ALIGNMENT = 2**20
_STRING, _ARRAY = 8, 9
_SCALARS: dict[int, str] = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}

Scalar = int | float | bool | str


@dataclass(frozen=True)
class SkippedArray:
    """An array that was too long to keep, or that held strings nobody asked for: only its length is known."""

    num_values: int


Value = Scalar | tuple[Scalar, ...] | SkippedArray


class GGUFError(UserError):
    """The file is not a GGUF that can be loaded; the message names the file and says why."""


@dataclass(frozen=True)
class GGUFHeader:
    """What the header says. Sizes in bytes; counts per layer where the format allows one value per layer.

    `tensor_bytes` and `num_parameters` are this file's own: for a sharded model, one shard's. `file_bytes` is the size the
    file must have at least.
    """

    version: int
    metadata: Mapping[str, Value]
    num_tensors: int
    tensor_bytes: int
    num_parameters: int
    file_bytes: int

    def _text(self, key: str) -> str | None:
        value = self.metadata.get(key)
        return value if isinstance(value, str) else None

    def _number(self, key: str) -> int | None:
        value = self.metadata.get(key)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def integer(self, suffix: str) -> int | None:
        """The integer under `ARCHITECTURE.suffix`, or None."""
        return self._number(f"{self.architecture}.{suffix}")

    def value(self, suffix: str) -> Value | None:
        """The value under `ARCHITECTURE.suffix`, or None."""
        return self.metadata.get(f"{self.architecture}.{suffix}")

    @property
    def architecture(self) -> str:
        """For example `qwen2`; empty in a shard that holds only tensors."""
        return self._text("general.architecture") or ""

    @property
    def name(self) -> str | None:
        """The name its makers gave the model."""
        return self._text("general.name")

    @property
    def chat_template(self) -> str | None:
        """The model's own jinja template."""
        return self._text("tokenizer.chat_template")

    @property
    def quantisation(self) -> str | None:
        """For example `Q4_K_M`."""
        number = self._number("general.file_type")
        return None if number is None else FILE_TYPES.get(number, f"type {number}")

    @property
    def context_tokens(self) -> int | None:
        """The context the model was trained for."""
        return self.integer("context_length")

    @property
    def num_layers(self) -> int | None:
        """Transformer blocks."""
        return self.integer("block_count")

    @property
    def vocabulary_size(self) -> int:
        """Tokens of the vocabulary; 0 when the file holds none."""
        tokens = self.metadata.get("tokenizer.ggml.tokens")
        if isinstance(tokens, SkippedArray):
            return tokens.num_values
        return len(tokens) if isinstance(tokens, tuple) else 0

    @property
    def shard(self) -> tuple[int, int]:
        """Which shard this is, counted from 1, and how many there are; (1, 1) for a whole file."""
        count = self._number("split.count") or 1
        return ((self._number("split.no") or 0) + 1, count) if count > 1 else (1, 1)


def read_header(path: Path, *, keep: frozenset[str] = frozenset()) -> GGUFHeader:
    """Parse the header of `path`, and check that the file is long enough for the tensors it lists.

    Arrays of strings under the keys in `keep` are kept whole. Raises `GGUFError` when the file is missing, is not a GGUF, is
    cut short or is malformed.
    """
    try:
        with path.open("rb") as file:
            return _Reader(file, path, keep).read()
    except FileNotFoundError:
        raise GGUFError(f"no such file: {path}") from None
    except OSError as error:
        raise GGUFError(f"cannot read {path}: {error.strerror or error}") from error


class _Reader:
    """One pass over the header, bounds first."""

    def __init__(self, file: BinaryIO, path: Path, keep: frozenset[str]) -> None:
        self._file = file
        self._path = path
        self._keep = keep
        self._size = os.fstat(file.fileno()).st_size
        self._field = "magic"

    def read(self) -> GGUFHeader:
        version = self._start()
        num_tensors = self._count("tensor count", _MAX_TENSORS)
        num_keys = self._count("key count", _MAX_KEYS)
        metadata: dict[str, Value] = {}
        for index in range(num_keys):
            self._field = f"key {index + 1} of {num_keys}"
            key = self._string(_MAX_KEY_BYTES)
            if key in metadata:
                raise self._error(f"the key {key!r} appears twice")
            self._field = f"value of {key!r}"
            metadata[key] = self._value(self._scalar("I"), _MAX_NESTING, keep=key in self._keep)
        alignment = metadata.get("general.alignment", 32)
        if not isinstance(alignment, int) or not 0 < alignment <= _MAX_ALIGNMENT or alignment & (alignment - 1):
            raise self._error(f"general.alignment is {alignment!r}, not a power of two")
        return self._tensors(version, metadata, num_tensors, alignment)

    def _start(self) -> int:
        magic = self._file.read(4)
        if self._size == 0:
            raise self._error("the file is empty")
        if magic == MAGIC[::-1]:
            raise self._error("this is a big-endian GGUF, which is not supported")
        if magic != MAGIC:
            shown = magic.decode("ascii") if magic.isascii() and magic.decode("ascii").isprintable() else magic.hex(" ")
            raise self._error(f"not a GGUF file: it starts with {shown!r} instead of 'GGUF'")
        self._field = "version"
        version: int = self._scalar("I")
        if version >= 2**16:
            raise self._error("this is a big-endian GGUF, which is not supported")
        if version not in _VERSIONS:
            raise self._error(f"GGUF version {version} is not supported (supported: 2 and 3)")
        return version

    def _tensors(self, version: int, metadata: dict[str, Value], num_tensors: int, alignment: int) -> GGUFHeader:
        total_bytes = total_values = end = 0
        for index in range(num_tensors):
            self._field = f"tensor {index + 1} of {num_tensors}"
            name = self._string(_MAX_KEY_BYTES)
            num_dimensions = self._scalar("I")
            if num_dimensions > _MAX_DIMENSIONS:
                raise self._error(f"tensor {name!r} claims {num_dimensions} dimensions")
            num_values = 1
            for _ in range(num_dimensions):
                num_values *= self._scalar("Q")
            kind, offset = self._scalar("I"), self._scalar("Q")
            # an unknown type counts as no bytes: the file may be newer than this table
            block_values, block_bytes = TENSOR_BLOCKS.get(kind, (1, 0))
            size = -(-num_values // block_values) * block_bytes
            total_bytes += size
            total_values += num_values
            end = max(end, offset + size)
        data_start = -(-self._file.tell() // alignment) * alignment
        needed = data_start + end if num_tensors else self._file.tell()
        if needed > self._size:
            raise self._error(
                f"the file is truncated: its tensors need {needed:,} bytes and it has {self._size:,} "
                f"({needed - self._size:,} missing); fetch it again"
            )
        return GGUFHeader(version, metadata, num_tensors, total_bytes, total_values, needed)

    def _value(self, kind: int, nesting_left: int, *, keep: bool) -> Value:
        if kind in _SCALARS:
            number: Scalar = self._scalar(_SCALARS[kind])
            return number
        if kind == _STRING:
            return self._string(_MAX_STRING_BYTES)
        if kind == _ARRAY:
            return self._array(nesting_left, keep=keep)
        raise self._error(f"unknown value type {kind}")

    def _array(self, nesting_left: int, *, keep: bool = False) -> Value:
        if nesting_left == 0:
            raise self._error("arrays are nested too deeply")
        kind = self._scalar("I")
        count = self._scalar("Q")
        if kind in _SCALARS:
            width = struct.calcsize(f"<{_SCALARS[kind]}")
            self._require(count * width)
            if count <= _MAX_KEPT_VALUES:
                return struct.unpack(f"<{count}{_SCALARS[kind]}", self._file.read(count * width))
            self._file.seek(count * width, os.SEEK_CUR)
            return SkippedArray(count)
        if kind not in (_STRING, _ARRAY):
            raise self._error(f"unknown array type {kind}")
        if count > _MAX_STRINGS_IN_ARRAY:
            raise self._error(f"an array claims {count:,} values")
        # each value takes at least its length field
        self._require(count * 8)
        if keep and kind == _STRING:
            return tuple(self._string(_MAX_STRING_BYTES) for _ in range(count))
        for _ in range(count):
            if kind == _STRING:
                self._skip_string()
            else:
                self._array(nesting_left - 1)
        return SkippedArray(count)

    def _skip_string(self) -> None:
        length = self._scalar("Q")
        if length > _MAX_STRING_BYTES:
            raise self._error(f"a string claims {length:,} bytes")
        self._require(length)
        # read, not seek: a seek would drop the buffer, and vocabularies hold a quarter of a million short strings
        self._file.read(length)

    def _string(self, max_bytes: int) -> str:
        length = self._scalar("Q")
        if length > max_bytes:
            raise self._error(f"a string claims {length:,} bytes (at most {max_bytes:,} are accepted)")
        self._require(length)
        return self._file.read(length).decode("utf-8", errors="replace")

    def _count(self, field: str, most: int) -> int:
        self._field = field
        count: int = self._scalar("Q")
        if count > most:
            raise self._error(f"the {field} is {count:,} (at most {most:,} are accepted)")
        return count

    def _scalar(self, code: str) -> Any:
        width = struct.calcsize(f"<{code}")
        data = self._file.read(width)
        if len(data) < width:
            raise self._cut()
        return struct.unpack(f"<{code}", data)[0]

    def _require(self, num_bytes: int) -> None:
        if num_bytes > self._size - self._file.tell():
            raise self._cut()

    def _cut(self) -> GGUFError:
        return self._error(
            f"the file is truncated: it ends at byte {self._size:,}, inside the header ({self._field}); fetch it again"
        )

    def _error(self, reason: str) -> GGUFError:
        return GGUFError(f"{self._path}: {reason}")
