import ctypes
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support import gguf_writer
from tests.support.gguf_writer import SMALL_METADATA, gguf

from daneel.server.models.ggml_types import TENSOR_BLOCKS
from daneel.server.models.gguf_header import GGUFError, SkippedArray, read_header


def write(tmp_path: Path, data: bytes) -> Path:
    path = tmp_path / "model.gguf"
    path.write_bytes(data)
    return path


def test_a_small_file_is_read(tmp_path: Path) -> None:
    metadata = {
        **SMALL_METADATA,
        "tokenizer.ggml.tokens": ["a", "b", "c"],
        "tokenizer.chat_template": "{{ messages }}",
        "llama.attention.head_count_kv": [2, 0],
        "tokenizer.ggml.add_bos_token": True,
        "general.url": "ünïcode",
    }
    data = gguf(metadata, [("a", (64, 8)), ("b", (3,))])
    header = read_header(write(tmp_path, data))
    assert (header.architecture, header.name, header.quantisation) == ("llama", "Small", "F16")
    assert (header.context_tokens, header.num_layers, header.vocabulary_size) == (4096, 2, 3)
    assert header.chat_template == "{{ messages }}"
    assert header.value("attention.head_count_kv") == (2, 0)
    assert header.metadata["tokenizer.ggml.tokens"] == SkippedArray(3)
    assert header.metadata["tokenizer.ggml.add_bos_token"] is True
    assert header.metadata["general.url"] == "ünïcode"
    assert (header.num_tensors, header.tensor_bytes, header.num_parameters) == (2, 2 * (64 * 8 + 3), 64 * 8 + 3)
    # the last tensor's padding is not needed
    assert len(data) - 32 < header.file_bytes <= len(data)


def test_every_cut_is_said_to_be_a_truncation(tmp_path: Path) -> None:
    data = gguf({**SMALL_METADATA, "tokenizer.ggml.tokens": ["a", "bb"]})
    path = write(tmp_path, data)
    needed = read_header(path).file_bytes
    for size in range(4, needed):
        path.write_bytes(data[:size])
        with pytest.raises(GGUFError, match="truncated"):
            read_header(path)


def test_a_truncation_in_the_data_gives_both_sizes(tmp_path: Path) -> None:
    data = gguf()
    path = write(tmp_path, data[:-100])
    with pytest.raises(GGUFError, match=rf"need {len(data):,} bytes and it has {len(data) - 100:,} \(100 missing\)"):
        read_header(path)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty"),
        (b"GG", "starts with 'GG'"),
        (b"<!DOCTYPE html>", "starts with '<!DO' instead of 'GGUF'"),
        (b"\x80\x02ab", "starts with '80 02 61 62'"),
        (gguf(version=1), "version 1 is not supported"),
        (gguf(version=4), "version 4 is not supported"),
        (b"GGUF" + struct.pack(">I", 3) + bytes(64), "big-endian"),
        (b"FUGG" + bytes(64), "big-endian"),
        (gguf(num_keys=2**63), "key count is 9,223,372,036,854,775,808"),
        (gguf(num_tensors=2**40), "tensor count"),
        (gguf({**SMALL_METADATA, "general.alignment": 3}), "general.alignment is 3"),
        (gguf({**SMALL_METADATA, "general.alignment": "x"}), "general.alignment is 'x'"),
        (gguf(tensors=[("t", (1,) * 5)]), "claims 5 dimensions"),
        (gguf({"k": [[[1]]]}), "nested too deeply"),
    ],
)
def test_what_is_not_a_sound_gguf_is_refused_with_the_reason(tmp_path: Path, data: bytes, reason: str) -> None:
    path = write(tmp_path, data)
    with pytest.raises(GGUFError) as caught:
        read_header(path)
    assert reason in str(caught.value)
    assert str(path) in str(caught.value)


def raw(*keys: bytes) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", 3, 0, len(keys)) + b"".join(keys) + bytes(64)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (raw(gguf_writer.string("k") + struct.pack("<I", 99)), "unknown value type 99"),
        (raw(gguf_writer.string("k") + struct.pack("<IIQ", 9, 99, 1)), "unknown array type 99"),
        (raw(*[gguf_writer.string("k") + gguf_writer.value(1)] * 2), "'k' appears twice"),
        (raw(struct.pack("<Q", 2**60)), "a string claims 1,152,921,504,606,846,976 bytes"),
        (raw(gguf_writer.string("k") + struct.pack("<IQ", 8, 2**31)), "a string claims"),
        (raw(gguf_writer.string("k") + struct.pack("<IIQ", 9, 4, 2**61)), "truncated"),
        (raw(gguf_writer.string("k") + struct.pack("<IIQ", 9, 8, 2**61)), "an array claims"),
        (raw(gguf_writer.string("k") + struct.pack("<IIQ", 9, 8, 1_000_000)), "truncated"),
    ],
)
def test_lengths_are_not_believed(tmp_path: Path, data: bytes, reason: str) -> None:
    with pytest.raises(GGUFError) as caught:
        read_header(write(tmp_path, data))
    assert reason in str(caught.value)


def test_a_missing_file_and_a_folder(tmp_path: Path) -> None:
    with pytest.raises(GGUFError, match="no such file"):
        read_header(tmp_path / "none.gguf")
    with pytest.raises(GGUFError, match="cannot read"):
        read_header(tmp_path)


SOUND = gguf({**SMALL_METADATA, "tokenizer.ggml.tokens": ["a", "b"], "llama.attention.head_count_kv": [1, 2]})


@given(st.lists(st.tuples(st.integers(0, len(SOUND) - 1), st.integers(0, 255)), max_size=8))
def test_changed_bytes_give_a_header_or_a_clear_error(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[int, int]]
) -> None:
    data = bytearray(SOUND)
    for position, byte in changes:
        data[position] = byte
    path = tmp_path_factory.mktemp("gguf") / "m.gguf"
    path.write_bytes(data)
    try:
        header = read_header(path)
    except GGUFError:
        return
    # whatever it holds, reading its properties raises nothing
    assert header.file_bytes <= len(data)
    assert header.shard[1] >= 1
    assert header.vocabulary_size >= 0
    assert (header.context_tokens, header.num_layers, header.quantisation, header.name) is not None


@given(st.binary(max_size=400))
def test_any_bytes_after_the_magic_give_a_header_or_a_clear_error(
    tmp_path_factory: pytest.TempPathFactory, tail: bytes
) -> None:
    path = tmp_path_factory.mktemp("gguf") / "m.gguf"
    path.write_bytes(b"GGUF\x03\0\0\0" + tail)
    try:
        header = read_header(path)
    except GGUFError:
        return
    assert header.file_bytes <= len(tail) + 8


def test_tensor_sizes_are_those_of_llama_cpp() -> None:
    llama_cpp = pytest.importorskip("llama_cpp")
    libraries = sorted((Path(llama_cpp.__file__).parent / "lib").glob("*ggml-base*"))
    if not libraries:
        pytest.skip("this build of llama.cpp has no separate ggml library")
    ggml = ctypes.CDLL(str(libraries[0]))
    ggml.ggml_type_size.restype, ggml.ggml_blck_size.restype = ctypes.c_size_t, ctypes.c_int64
    for kind, (values, size) in TENSOR_BLOCKS.items():
        assert (ggml.ggml_blck_size(kind), ggml.ggml_type_size(kind)) == (values, size), kind


@pytest.mark.model
def test_a_real_model_is_read_to_the_byte(smollm2_path: Path) -> None:
    header = read_header(smollm2_path)
    assert (header.architecture, header.quantisation, header.num_layers, header.context_tokens) == ("llama", "Q4_1", 30, 8192)
    assert header.vocabulary_size == 49152
    assert header.num_parameters == 134_515_008
    assert header.file_bytes == smollm2_path.stat().st_size
