from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.gguf_writer import SMALL_METADATA, gguf

from daneel.errors import UserError
from daneel.server.models import resolve
from daneel.server.models.shards import shard_names


def put(path: Path, data: bytes | None = None) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gguf() if data is None else data)
    return path


def shard(number: int, count: int) -> bytes:
    metadata = {**(SMALL_METADATA if number == 1 else {}), "split.no": number - 1, "split.count": count}
    return gguf(metadata, [("t", (64, 10))])


def test_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = put(tmp_path / "some model.gguf")
    resolved = resolve(str(path))
    assert (resolved.path, resolved.shards, resolved.name, resolved.origin) == (path, (path,), "some model", "file")
    assert resolved.sha256 is None
    assert resolved.header.architecture == "llama"
    assert resolved.weights_bytes == 2 * 64 * 8
    monkeypatch.chdir(tmp_path)
    assert resolve("some model.gguf").header.name == "Small"


def test_any_shard_means_the_whole_model(tmp_path: Path) -> None:
    paths = tuple(put(tmp_path / f"m-0000{n}-of-00003.gguf", shard(n, 3)) for n in (1, 2, 3))
    resolved = resolve(str(paths[1]))
    assert (resolved.path, resolved.shards) == (paths[0], paths)
    assert resolved.weights_bytes == 3 * 2 * 640
    paths[2].unlink()
    with pytest.raises(UserError, match=r"shard 3 of 3 is missing: .*m-00003-of-00003\.gguf"):
        resolve(str(paths[0]))


def test_a_shard_that_was_renamed_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is shard 1 of 3 by its metadata"):
        resolve(str(put(tmp_path / "renamed.gguf", shard(1, 3))))


def test_a_shard_cut_short_is_named(tmp_path: Path) -> None:
    put(tmp_path / "m-00001-of-00002.gguf", shard(1, 2))
    put(tmp_path / "m-00002-of-00002.gguf", shard(2, 2)[:-500])
    with pytest.raises(UserError, match=r"m-00002-of-00002\.gguf: the file is truncated"):
        resolve(str(tmp_path / "m-00001-of-00002.gguf"))


@given(st.text(max_size=30), st.integers(0, 99999), st.integers(0, 99999))
def test_shard_names_hold_the_name_they_came_from(stem: str, number: int, count: int) -> None:
    name = f"{stem}-{number:05d}-of-{count:05d}.gguf"
    names = shard_names(name)
    assert name in names
    assert names == [name] or (len(names) == count and names == sorted(names))


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        ("./none.gguf", "no such file: ./none.gguf"),
        ("models/none.gguf", "no such file: models/none.gguf"),
        ("~/none", "no such file"),
        ("/a/b/c", "no such file"),
        ("smollm2-135", "did you mean smollm2-135m?"),
        ("Qwen2.5-Coder", "did you mean qwen2.5-coder"),
        ("zzz", "known names: smollm2-135m, "),
        ("none.gguf", "no model 'none.gguf'"),
        ("", "is a folder"),
        ("ollama:qwen3", "Ollama holds no qwen3:latest here (it holds: none)"),
    ],
)
def test_what_is_no_model_is_one_sentence(model: str, reason: str) -> None:
    with pytest.raises(UserError) as caught:
        resolve(model)
    assert reason in str(caught.value)


def test_folders(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is a folder; give a GGUF file"):
        resolve(str(tmp_path))
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(UserError, match="MLX and safetensors models are not supported in this version"):
        resolve(str(tmp_path))


def test_files_of_the_stores_by_name(empty_home: Path) -> None:
    path = put(empty_home / ".lmstudio/models/pub/repo/Model-Q4_K_M.gguf")
    for name in ("model-q4_k_m.gguf", "Model-Q4_K_M", "pub/repo", "pub/repo:Model-Q4_K_M.gguf"):
        resolved = resolve(name, may_fetch=False)
        assert (resolved.path, resolved.origin) == (path, "LM Studio")
    put(empty_home / ".lmstudio/models/pub/other/model-q4_k_m.gguf", gguf(tensors=[("t", (64, 9))]))
    with pytest.raises(UserError, match="several files are called"):
        resolve("Model-Q4_K_M")


@pytest.mark.parametrize("name", ["qwen3-4b", "owner/name", "owner/name:file.gguf"])
def test_nothing_is_fetched_when_it_must_not_be(name: str) -> None:
    with pytest.raises(UserError, match=f"{name} is not on this machine; `daneel models pull {name}` fetches it"):
        resolve(name, may_fetch=False)
