"""Models that other programs already keep on this machine: the Hugging Face cache, LM Studio, Ollama. Used in place.

Layouts: Hugging Face `models--OWNER--NAME/snapshots/REVISION/FILE`, a link to `blobs/HASH` (HASH is the SHA-256 of a large
file); LM Studio `OWNER/NAME/FILE`; Ollama `manifests/HOST/NAMESPACE/NAME/TAG`, whose layer of type
`application/vnd.ollama.image.model` is `blobs/sha256-HASH`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from daneel.server.models.catalogue import Entry
from daneel.server.models.shards import shard_names

StoreName = Literal["daneel", "hf", "lmstudio", "ollama"]

_SHA256 = re.compile(r"[0-9a-f]{64}")
_OLLAMA_DIGEST = re.compile(r"sha256:([0-9a-f]{64})")
_OLLAMA_MODEL_LAYER = "application/vnd.ollama.image.model"
_OLLAMA_SERVICE_DIR = Path("/usr/share/ollama/.ollama/models")
_MAX_MANIFEST_BYTES = 2**20
_MAX_DEPTH = 6


@dataclass(frozen=True)
class Stored:
    """A model file in a store. `name` is what `daneel serve` takes for it; `sha256` is what the store says, unchecked.

    `paths` are all files when it is sharded; `repo` is `OWNER/NAME` where the store knows one, `file` the path inside it.
    """

    store: StoreName
    name: str
    paths: tuple[Path, ...]
    size_bytes: int
    repo: str | None = None
    file: str | None = None
    sha256: str | None = None


def hf_cache_dir() -> Path:
    """Where the Hugging Face libraries keep what they download, by their own environment variables."""
    for variable in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if value := os.environ.get(variable):
            return Path(value).expanduser()
    if home := os.environ.get("HF_HOME"):
        return Path(home).expanduser() / "hub"
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache).expanduser() if cache else Path.home() / ".cache") / "huggingface" / "hub"


def lmstudio_dirs() -> list[Path]:
    """Where LM Studio keeps models, now and in its older versions."""
    return [Path.home() / ".lmstudio" / "models", Path.home() / ".cache" / "lm-studio" / "models"]


def ollama_dirs() -> list[Path]:
    """Where Ollama keeps models: the user's, or the service's on Linux."""
    if value := os.environ.get("OLLAMA_MODELS"):
        return [Path(value).expanduser()]
    return [Path.home() / ".ollama" / "models", _OLLAMA_SERVICE_DIR]


def scan() -> list[Stored]:
    """Every GGUF in the stores of other programs, ordered by store and name."""
    found: list[Stored] = []
    for entries in (_hf(hf_cache_dir()), *map(_lmstudio, lmstudio_dirs()), *map(_ollama, ollama_dirs())):
        found += sorted(entries, key=lambda stored: stored.name)
    return found


def matching(entry: Entry, found: Iterable[Stored]) -> Stored | None:
    """The stored file that is `entry`: by hash where the store knows it, else by file name and size."""
    return next((stored for stored in found if _is(entry, stored)), None)


def _is(entry: Entry, stored: Stored) -> bool:
    if entry.sha256 is not None and stored.sha256 is not None:
        return entry.sha256 == stored.sha256
    if entry.size_exact:
        names = {file.file.rpartition("/")[2].lower() for file in entry.hub_files}
        return stored.size_bytes == entry.size_bytes and stored.paths[0].name.lower() in names
    return any((stored.repo, stored.file) == (file.hub, file.file) for file in entry.hub_files)


def _hf(root: Path) -> Iterator[Stored]:
    for folder in _folders(root):
        if not folder.name.startswith("models--"):
            continue
        repo = folder.name.removeprefix("models--").replace("--", "/")
        seen: set[str] = set()
        # the newest snapshot first: an older one may hold the same file
        for snapshot in sorted(_folders(folder / "snapshots"), key=_modified, reverse=True):
            for path in _ggufs(snapshot):
                file = path.relative_to(snapshot).as_posix()
                if file not in seen:
                    seen.add(file)
                    blob = os.path.basename(os.path.realpath(path))
                    yield from _stored("hf", f"{repo}:{file}", path, repo, file, blob if _SHA256.fullmatch(blob) else None)


def _lmstudio(root: Path) -> Iterator[Stored]:
    for path in _ggufs(root):
        parts = path.relative_to(root).parts
        repo = "/".join(parts[:2]) if len(parts) > 2 else None
        file = "/".join(parts[2:]) if repo else None
        yield from _stored("lmstudio", f"{repo}:{file}" if repo else path.name, path, repo, file, None)


def _stored(store: StoreName, name: str, path: Path, repo: str | None, file: str | None, blob: str | None) -> Iterator[Stored]:
    """The model whose first file is `path`, unless it is a later shard, incomplete, or only a projector."""
    names = shard_names(path.name)
    paths = tuple(path.with_name(shard) for shard in names)
    is_model = path.name == names[0] and not path.name.lower().startswith("mmproj")
    if is_model and all(shard.is_file() for shard in paths):
        size_bytes = sum(shard.stat().st_size for shard in paths)
        yield Stored(store, name, paths, size_bytes, repo, file, blob if len(paths) == 1 else None)


class _Layer(msgspec.Struct):
    mediaType: str = ""
    digest: str = ""
    size: int = -1


class _Manifest(msgspec.Struct):
    layers: list[_Layer] = []


def _ollama(root: Path) -> Iterator[Stored]:
    manifests = root / "manifests"
    for path in _files(manifests):
        parts = path.relative_to(manifests).parts
        if len(parts) != 4:
            continue
        layer = _model_layer(path)
        match = _OLLAMA_DIGEST.fullmatch(layer.digest) if layer else None
        if layer is None or match is None:
            continue
        blob = root / "blobs" / f"sha256-{match[1]}"
        if blob.is_file() and blob.stat().st_size == layer.size:
            yield Stored("ollama", f"ollama:{_ollama_name(*parts)}", (blob,), layer.size, sha256=match[1])


def _ollama_name(host: str, namespace: str, name: str, tag: str) -> str:
    """The name as Ollama prints it: its own registry and library are left out."""
    prefix = "" if host == "registry.ollama.ai" else f"{host}/"
    prefix += "" if prefix == "" and namespace == "library" else f"{namespace}/"
    return f"{prefix}{name}:{tag}"


def _model_layer(path: Path) -> _Layer | None:
    try:
        if path.stat().st_size > _MAX_MANIFEST_BYTES:
            return None
        manifest = msgspec.json.decode(path.read_bytes(), type=_Manifest)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None
    return next((layer for layer in manifest.layers if layer.mediaType == _OLLAMA_MODEL_LAYER), None)


def _ggufs(root: Path) -> Iterator[Path]:
    return (path for path in _files(root) if path.name.lower().endswith(".gguf") and path.is_file())


def _files(root: Path) -> Iterator[Path]:
    """Files below `root`, in order, no deeper than any of the stores goes; nothing when there is no such folder."""
    for folder, subfolders, names in os.walk(root):
        depth = len(Path(folder).relative_to(root).parts)
        subfolders[:] = sorted(subfolders) if depth < _MAX_DEPTH else []
        yield from (Path(folder) / name for name in sorted(names))


def _folders(root: Path) -> list[Path]:
    try:
        return sorted(path for path in root.iterdir() if path.is_dir())
    except OSError:
        return []


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
