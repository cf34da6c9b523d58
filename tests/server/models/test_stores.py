import hashlib
import json
from pathlib import Path

import pytest

from daneel.server.models import stores
from daneel.server.models.catalogue import Entry, HubFile

DATA = b"GGUF and so on"
SHA256 = hashlib.sha256(DATA).hexdigest()


def put(path: Path, data: bytes = DATA) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def put_hf(home: Path, repo: str, file: str, data: bytes = DATA, revision: str = "abc") -> Path:
    folder = home / ".cache/huggingface/hub" / f"models--{repo.replace('/', '--')}"
    blob = put(folder / "blobs" / hashlib.sha256(data).hexdigest(), data)
    link = folder / "snapshots" / revision / file
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(blob)
    return link


def put_ollama(home: Path, name: str, manifest: object = None) -> Path:
    root = home / ".ollama/models"
    layers = [{"mediaType": "application/vnd.ollama.image.model", "digest": f"sha256:{SHA256}", "size": len(DATA)}]
    text = json.dumps({"schemaVersion": 2, "layers": layers} if manifest is None else manifest)
    put(root / "manifests" / name, text.encode())
    return put(root / "blobs" / f"sha256-{SHA256}")


def entry(**changes: object) -> Entry:
    fields = {
        "name": "m", "sources": [HubFile("owner/name", "model-q4.gguf")], "size_bytes": len(DATA), "licence": "MIT",
        "context_tokens": 1, "quantisation": "F16", "note": "", "sha256": SHA256, **changes,
    }  # fmt: skip
    return Entry(**fields)  # type: ignore[arg-type]


def test_no_store_holds_nothing() -> None:
    assert stores.scan() == []


def test_all_stores_are_found(empty_home: Path) -> None:
    link = put_hf(empty_home, "owner/name", "sub/model-q4.gguf")
    put_hf(empty_home, "owner/name", "mmproj-model.gguf", b"projector")
    studio = put(empty_home / ".lmstudio/models/pub/repo/x.gguf")
    old_studio = put(empty_home / ".cache/lm-studio/models/loose.gguf")
    blob = put_ollama(empty_home, "registry.ollama.ai/library/qwen3/4b")
    found = {stored.name: stored for stored in stores.scan()}
    assert {name: stored.paths for name, stored in found.items()} == {
        "owner/name:sub/model-q4.gguf": (link,),
        "pub/repo:x.gguf": (studio,),
        "loose.gguf": (old_studio,),
        "ollama:qwen3:4b": (blob,),
    }
    assert found["owner/name:sub/model-q4.gguf"].sha256 == SHA256
    assert found["ollama:qwen3:4b"].sha256 == SHA256
    assert found["pub/repo:x.gguf"].sha256 is None


def test_variables_move_the_stores(empty_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_hf(empty_home, "owner/name", "a.gguf")
    put_ollama(empty_home, "registry.ollama.ai/library/a/b")
    assert len(stores.scan()) == 2
    monkeypatch.setenv("HF_HOME", str(tmp_path / "none"))
    monkeypatch.setenv("OLLAMA_MODELS", str(tmp_path / "none"))
    assert stores.scan() == []
    monkeypatch.setenv("HF_HUB_CACHE", str(empty_home / ".cache/huggingface/hub"))
    assert [stored.store for stored in stores.scan()] == ["hf"]


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("registry.ollama.ai/library/qwen3/latest", "ollama:qwen3:latest"),
        ("registry.ollama.ai/someone/qwen3/4b", "ollama:someone/qwen3:4b"),
        ("hf.co/owner/name/Q4_K_M", "ollama:hf.co/owner/name:Q4_K_M"),
    ],
)
def test_ollamas_names(empty_home: Path, path: str, name: str) -> None:
    put_ollama(empty_home, path)
    assert [stored.name for stored in stores.scan()] == [name]


@pytest.mark.parametrize(
    "manifest",
    [
        [],
        {"layers": 5},
        {"layers": [{"mediaType": "application/vnd.ollama.image.model", "digest": "sha256:../../../etc/passwd", "size": 1}]},
        {"layers": [{"mediaType": "application/vnd.ollama.image.model", "digest": f"sha256:{SHA256}", "size": 1}]},
        {"layers": [{"mediaType": "application/vnd.ollama.image.license", "digest": f"sha256:{SHA256}", "size": len(DATA)}]},
    ],
)
def test_manifests_that_do_not_fit_are_passed_over(empty_home: Path, manifest: object) -> None:
    put_ollama(empty_home, "registry.ollama.ai/library/a/b", manifest)
    assert stores.scan() == []


def test_one_file_in_two_snapshots_is_one_and_a_dangling_link_none(empty_home: Path) -> None:
    put_hf(empty_home, "owner/name", "a.gguf", revision="old")
    put_hf(empty_home, "owner/name", "a.gguf", revision="new")
    broken = empty_home / ".cache/huggingface/hub/models--owner--name/snapshots/new/broken.gguf"
    broken.symlink_to(empty_home / "nowhere")
    assert [stored.file for stored in stores.scan()] == ["a.gguf"]


def test_shards_are_one_model_if_all_are_there(empty_home: Path) -> None:
    folder = empty_home / ".lmstudio/models/pub/repo"
    first = put(folder / "m-00001-of-00002.gguf")
    assert stores.scan() == []
    second = put(folder / "m-00002-of-00002.gguf", DATA + b"!")
    (stored,) = stores.scan()
    assert stored.paths == (first, second)
    assert stored.size_bytes == 2 * len(DATA) + 1


def test_an_entry_is_known_by_hash_then_by_name_and_size(empty_home: Path) -> None:
    put_hf(empty_home, "another/repo", "renamed.gguf")
    found = stores.scan()
    assert stores.matching(entry(), found) == found[0]
    assert stores.matching(entry(sha256="0" * 64), found) is None
    put(empty_home / ".lmstudio/models/pub/repo/MODEL-Q4.gguf")
    (studio,) = (stored for stored in stores.scan() if stored.store == "lmstudio")
    assert stores.matching(entry(sha256="0" * 64), [studio]) == studio
    assert stores.matching(entry(size_bytes=5), [studio]) is None
    assert stores.matching(entry(sources=[HubFile("owner/name", "other.gguf")]), [studio]) is None


def test_an_entry_without_a_hash_is_known_by_repository_and_file(empty_home: Path) -> None:
    put_hf(empty_home, "owner/name", "model-q4.gguf")
    put_hf(empty_home, "owner/other", "model-q4.gguf")
    known = stores.matching(entry(sha256=None, size_exact=False), stores.scan())
    assert known is not None
    assert known.repo == "owner/name"
