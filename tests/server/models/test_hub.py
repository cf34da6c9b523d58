import hashlib
import json
from pathlib import Path

import pytest
from tests.support.file_server import FileServer, Served
from tests.support.gguf_writer import SMALL_METADATA, gguf

from daneel.errors import UserError
from daneel.server.models import hub, resolve
from daneel.server.models.catalogue import Entry, HubFile
from daneel.server.models.progress import Silent, SourceError
from daneel.server.models.pull import pull
from daneel.server.models.stores import hf_cache_dir

REPO = "owner/Model-GGUF"
COMMIT = "a" * 40
GGUF = gguf(tensors=[("t", (64, 1000))])


def file(data: bytes, *, etag: str | None = None, **how: object) -> Served:
    """A large file as the hub serves it: its hash is the etag."""
    headers = {"ETag": f'"{etag or hashlib.sha256(data).hexdigest()}"', "X-Repo-Commit": COMMIT}
    return Served(data, headers=headers, **how)  # type: ignore[arg-type]


def hub_of(files: dict[str, Served]) -> FileServer:
    info = {"id": REPO, "sha": COMMIT, "siblings": [{"rfilename": name} for name in files]}
    served: dict[str, Served] = {f"/{REPO}/resolve/main/{name}": content for name, content in files.items()}
    listing = Served(json.dumps(info).encode(), headers={"Content-Type": "application/json"})
    return FileServer({**served, f"/api/models/{REPO}": listing, f"/api/models/{REPO}/revision/main": listing})


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    with FileServer({}) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)


def test_a_repository_alone_means_its_q4_k_m_or_its_only_file() -> None:
    assert hub.choose(REPO, ["README.md", "a-Q8_0.gguf"]) == "a-Q8_0.gguf"
    assert hub.choose(REPO, ["a-Q8_0.gguf", "a-q4_k_m.gguf", "mmproj-Q4_K_M.gguf"]) == "a-q4_k_m.gguf"
    shards = [f"q/a-Q4_K_M-0000{n}-of-00002.gguf" for n in (2, 1)]
    assert hub.choose(REPO, shards) == "q/a-Q4_K_M-00001-of-00002.gguf"
    with pytest.raises(SourceError, match=r"choose one with owner/Model-GGUF:FILE: a-Q5_0.gguf, a-Q8_0.gguf"):
        hub.choose(REPO, ["a-Q8_0.gguf", "a-Q5_0.gguf"])
    with pytest.raises(SourceError, match="holds no GGUF"):
        hub.choose(REPO, ["model.safetensors", "mmproj.gguf"])


def test_a_hub_id_is_fetched_checked_and_then_used_without_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    with hub_of({"README.md": Served(b""), "m-Q4_K_M.gguf": file(GGUF), "m-Q8_0.gguf": file(b"")}) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        resolved = resolve(REPO)
        assert resolved.path.read_bytes() == GGUF
        assert resolved.origin == f"hub {REPO}:m-Q4_K_M.gguf"
        assert resolved.sha256 == hashlib.sha256(GGUF).hexdigest()
    assert resolve(REPO).origin == "the Hugging Face cache"
    assert resolve(f"{REPO}:m-Q4_K_M.gguf").path == resolved.path


def test_a_transfer_that_is_cut_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [file(GGUF), file(GGUF, cut_after=50_000)]
    with hub_of({"m.gguf": file(GGUF)}) as server:
        server.files[f"/{REPO}/resolve/main/m.gguf"] = lambda: answers.pop(0) if answers else file(GGUF)
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        fetched = hub.download(HubFile(REPO, "m.gguf"), sha256=None, progress=Silent())
    assert fetched.paths[0].read_bytes() == GGUF


def test_a_file_with_another_hash_than_the_catalogues_is_not_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    with hub_of({"m.gguf": file(GGUF)}) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        with pytest.raises(SourceError, match="its hash differs"):
            hub.download(HubFile(REPO, "m.gguf"), sha256="0" * 64, progress=Silent())
    assert {request.method for request in server.requests} == {"HEAD"}


def test_a_file_that_is_not_what_the_hub_says_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with hub_of({"m.gguf": file(GGUF, etag="1" * 64)}) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        with pytest.raises(SourceError, match="does not have the hash expected"):
            hub.download(HubFile(REPO, "m.gguf"), sha256=None, progress=Silent())


def test_all_shards_are_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"m-0000{n}-of-00002.gguf" for n in (1, 2)]
    data = [gguf({**(SMALL_METADATA if n == 0 else {}), "split.no": n, "split.count": 2}, [("t", (64, 10))]) for n in range(2)]
    with hub_of(dict(zip(names, map(file, data), strict=True))) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        resolved = resolve(f"{REPO}:{names[0]}")
    assert [path.name for path in resolved.shards] == names
    assert resolved.path == resolved.shards[0]
    assert resolved.weights_bytes == 2 * 2 * 640


@pytest.mark.parametrize(
    ("status", "code", "reason"),
    [
        (401, "RepoNotFound", "there is no repository owner/Model-GGUF"),
        (403, "GatedRepo", "is gated: accept its licence"),
        (404, "EntryNotFound", "has no such file"),
        (500, "", "could not be reached or refused"),
    ],
)
def test_what_the_hub_refuses_is_said(monkeypatch: pytest.MonkeyPatch, status: int, code: str, reason: str) -> None:
    with hub_of({"m.gguf": Served(b"", status=status, headers={"X-Error-Code": code})}) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        with pytest.raises(UserError) as caught:
            resolve(f"{REPO}:m.gguf")
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.usefixtures("offline")
def test_without_a_hub_there_is_one_sentence() -> None:
    with pytest.raises(UserError, match=r"owner/Model-GGUF: the hub could not be reached"):
        resolve(REPO)
    with pytest.raises(UserError, match=r"the hub could not be reached"):
        resolve(f"{REPO}:m.gguf")


def test_an_entry_without_a_hash_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = Entry("m", [HubFile(REPO, "m.gguf")], 1, "MIT", 1, "F16", "", None, size_exact=False)
    lines: list[str] = []

    class Told(Silent):
        def say(self, text: str) -> None:
            lines.append(text)

    with hub_of({"m.gguf": file(GGUF)}) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        assert pull(entry, Told()).path.read_bytes() == GGUF
    assert lines == ["m is unverified: daneel knows no hash for it, so the hub's own is used"]
    assert resolve("m", entries={"m": entry}).origin == "the Hugging Face cache"


def test_the_files_of_a_test_are_its_own(empty_home: Path) -> None:
    assert empty_home in hf_cache_dir().parents
