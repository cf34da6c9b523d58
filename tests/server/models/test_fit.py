from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daneel.errors import UserError
from daneel.server.models import catalogue, check_fit
from daneel.server.models.fit import assess, kv_bytes
from daneel.server.models.gguf_header import GGUFHeader, SkippedArray
from daneel.server.models.memory import Memory, memory_now

GB = 10**9


def header(tensor_bytes: int = GB, vocabulary: int = 1000, **changes: Any) -> GGUFHeader:
    """32 layers, 8 KV heads of 128: 128 KiB of KV cache a token."""
    fields = {
        "block_count": 32, "context_length": 32768, "embedding_length": 4096, "attention.head_count": 32,
        "attention.head_count_kv": 8, **changes,
    }  # fmt: skip
    metadata = {"general.architecture": "x", "tokenizer.ggml.tokens": SkippedArray(vocabulary)}
    metadata |= {f"x.{key}": value for key, value in fields.items() if value is not None}
    return GGUFHeader(3, metadata, 1, tensor_bytes, tensor_bytes // 2, tensor_bytes)


@pytest.mark.parametrize(
    ("changes", "tokens", "expected"),
    [
        ({}, 1, 2 * 32 * 8 * 128 * 2),
        ({}, 4096, 4096 * 131072),
        ({"attention.head_count_kv": None}, 1, 2 * 32 * 32 * 128 * 2),
        ({"attention.head_count_kv": (8, 0) * 16}, 1, 2 * 16 * 8 * 128 * 2),
        ({"attention.key_length": 256, "attention.value_length": 64}, 1, (256 + 64) * 32 * 8 * 2),
        ({"attention.shared_kv_layers": 24}, 1, 2 * 8 * 8 * 128 * 2),
        # 5 of 6 layers see 1,024 tokens back; a batch of 512 is kept beside the window
        (
            {"block_count": 6, "attention.sliding_window": 1024, "attention.sliding_window_pattern": 6},
            10_000,
            (5 * 1536 + 10_000) * 2 * 8 * 128 * 2,
        ),
        (
            {
                "block_count": 2, "attention.sliding_window": 1024, "attention.sliding_window_pattern": (True, False),
                "attention.key_length_swa": 64, "attention.value_length_swa": 64,
            },
            10_000,
            1536 * 8 * 128 * 2 + 10_000 * 8 * 256 * 2,
        ),
        # which layers slide is not said: all are counted in full
        ({"attention.sliding_window": 1024}, 4096, 4096 * 131072),
        ({"attention.head_count_kv": None, "attention.head_count": None}, 4096, 0),
        ({"block_count": None}, 4096, 0),
    ],
)  # fmt: skip
def test_the_kv_cache_is_counted_layer_by_layer(changes: dict[str, Any], tokens: int, expected: int) -> None:
    assert kv_bytes(header(**changes), tokens) == expected


def test_what_fits_now_is_said() -> None:
    report = check_fit(header(), 4096, memory=Memory(8 * GB, 16 * GB))
    assert report.verdict == "fits"
    assert report.needed_bytes == GB + 4096 * 131072 + 512 * 1000 * 4
    assert report.message == (
        "about 1.54 GB needed (1.00 GB weights, 0.54 GB KV cache for 4,096 tokens, 0.00 GB buffers), "
        "8.00 GB of 16.00 GB free: it fits"
    )


def test_the_largest_context_that_fits_is_proposed() -> None:
    report = check_fit(header(), 32768, memory=Memory(2 * GB, 16 * GB))
    assert report.verdict == "tight"
    assert report.largest_context_tokens == 7424
    assert report.message.endswith(": --context 7424 would fit")
    assert check_fit(header(), 7424, memory=Memory(2 * GB, 16 * GB)).verdict == "fits"
    assert check_fit(header(), 7424 + 256, memory=Memory(2 * GB, 16 * GB)).verdict == "tight"


def test_what_can_never_fit_is_refused_with_a_smaller_model() -> None:
    with pytest.raises(UserError) as caught:
        check_fit(header(20 * GB), 4096, memory=Memory(4 * GB, 16 * GB, "container"), entries=catalogue.load())
    text = str(caught.value)
    assert text.startswith("the model does not fit: about 20.54 GB needed")
    assert "4.00 GB of 16.00 GB free in this container" in text
    assert text.endswith(": no context would fit; qwen3-4b (2.50 GB) would")
    # the caller may insist, and a GPU's memory is another matter
    assert assess(header(20 * GB), 4096, memory=Memory(4 * GB, 16 * GB)).verdict == "too_large"
    on_gpu = check_fit(header(20 * GB), 4096, memory=Memory(4 * GB, 16 * GB), on_gpu=True)
    assert on_gpu.message.endswith("the GPU's own memory is not known to daneel")


values = st.one_of(
    st.integers(-5, 2**64), st.floats(), st.text(max_size=3), st.booleans(), st.tuples(st.integers(), st.floats())
)
keys = st.sampled_from(
    ["block_count", "context_length", "embedding_length"]
    + [f"attention.{key}" for key in ("head_count", "head_count_kv", "key_length", "value_length_swa", "shared_kv_layers")]
    + ["attention.sliding_window", "attention.sliding_window_pattern"]
)


@given(st.dictionaries(keys, values), st.integers(1, 10**6))
def test_no_header_breaks_the_check(changes: dict[str, Any], tokens: int) -> None:
    report = assess(header(**changes), tokens, memory=Memory(GB, 2 * GB))
    assert report.kv_bytes == kv_bytes(header(**changes), tokens)
    assert report.verdict in ("fits", "tight", "too_large")


def cgroup(folder: Path, **files: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)


def test_a_containers_limit_counts(tmp_path: Path) -> None:
    proc = tmp_path / "cgroup"
    proc.write_text("0::/app/worker\n")
    assert memory_now(tmp_path / "sys", proc).limited_by == "machine"
    cgroup(tmp_path / "sys/app/worker", memory__max="max", memory__current="5")
    stat = "anon 10\ninactive_file 1000000\nactive_file 500000\n"
    cgroup(tmp_path / "sys/app", memory__max="50000000", memory__current="21500000", memory__stat=stat)
    assert memory_now(tmp_path / "sys", proc) == Memory(30_000_000, 50_000_000, "container")


def test_the_older_interface_of_containers(tmp_path: Path) -> None:
    proc = tmp_path / "cgroup"
    proc.write_text("5:cpu:/x\n4:memory:/docker/abc\nrubbish\n")
    cgroup(tmp_path / "sys/memory", memory__limit_in_bytes="9000000", memory__usage_in_bytes="1000000")
    assert memory_now(tmp_path / "sys", proc) == Memory(8_000_000, 9_000_000, "container")
    cgroup(tmp_path / "sys/memory", memory__limit_in_bytes=str(2**63 - 4096))
    assert memory_now(tmp_path / "sys", proc).limited_by == "machine"
    assert memory_now(tmp_path / "sys", tmp_path / "none").available_bytes > 0
