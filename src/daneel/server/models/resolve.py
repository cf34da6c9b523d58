"""From what a person writes after `daneel serve` to files that can be loaded."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from pathlib import Path

from daneel.errors import UserError
from daneel.server.models import catalogue, hub, stores
from daneel.server.models.catalogue import Catalogue, Entry, HubFile
from daneel.server.models.files import size_of
from daneel.server.models.gguf_header import GGUFHeader, read_header
from daneel.server.models.progress import Progress, Silent, SourceError
from daneel.server.models.pull import Pulled, models_dir, pull
from daneel.server.models.shards import shard_paths
from daneel.server.models.stores import Stored

_HUB_ID = re.compile(r"(?P<repo>[\w.-]+/[\w.-]+)(?::(?P<file>[^:]+))?")
_STORE_NAMES = {"daneel": "daneel's cache", "hf": "the Hugging Face cache", "lmstudio": "LM Studio", "ollama": "Ollama"}


@dataclass(frozen=True)
class ResolvedModel:
    """A model that is on this machine, whose header has been read and whose files are as long as they must be.

    `name` is for showing and for `/v1/models`; `path` is what the engine loads: the first of `shards`. `origin` says in a
    few words where the file is or came from; `sha256` is known for files of the catalogue and the stores. `header` is the
    first shard's; `weights_bytes` counts all shards.
    """

    name: str
    path: Path
    shards: tuple[Path, ...]
    origin: str
    sha256: str | None
    header: GGUFHeader
    weights_bytes: int


def resolve(
    model: str, *, progress: Progress | None = None, entries: Catalogue | None = None, may_fetch: bool = True
) -> ResolvedModel:
    """Find `model`: a path, a name of the catalogue (pulled when missing), `OWNER/NAME[:FILE]` of the hub (likewise),
    `ollama:NAME[:TAG]`, or the name of a file in a store. Without `may_fetch`, only what is here already.

    Raises `UserError` when it is none of these, cannot be had, or is not a GGUF that can be loaded.
    """
    progress = progress or Silent()
    entries = catalogue.load() if entries is None else entries
    path = Path(model).expanduser()
    if path.exists():
        return _from_path(path)
    if entry := entries.get(model):
        return _from_entry(entry, progress, may_fetch)
    if _looks_like_path(model):
        raise UserError(f"no such file: {model}")
    if model.startswith("ollama:"):
        return _from_ollama(model)
    if match := _HUB_ID.fullmatch(model):
        return _from_hub(match["repo"], match["file"], progress, may_fetch)
    if stored := _by_file_name(model):
        return _from_stored(stored, stored.name)
    raise UserError(_unknown(model, entries))


def find(entry: Entry) -> Pulled | None:
    """The file of a catalogue entry if it is on this machine, in daneel's cache or a store; nothing is fetched."""
    own = models_dir() / entry.file_name
    if size_of(own) == entry.size_bytes:
        return Pulled(own, (own,), _STORE_NAMES["daneel"], entry.sha256)
    if stored := stores.matching(entry, stores.scan()):
        return Pulled(stored.paths[0], stored.paths, _STORE_NAMES[stored.store], stored.sha256)
    return None


def _from_path(path: Path) -> ResolvedModel:
    if path.is_dir():
        if (path / "config.json").exists():
            raise UserError(
                f"{path} is a folder: MLX and safetensors models are not supported in this version; give a GGUF file"
            )
        raise UserError(f"{path} is a folder; give a GGUF file")
    shards = shard_paths(path)
    return _resolved(shards[0].stem, shards, "file", None)


def _from_entry(entry: Entry, progress: Progress, may_fetch: bool) -> ResolvedModel:
    found = find(entry)
    if found is None:
        _check_may_fetch(entry.name, may_fetch)
        found = pull(entry, progress)
    return _resolved(entry.name, found.shards, found.origin, found.sha256)


def _check_may_fetch(name: str, may_fetch: bool) -> None:
    if not may_fetch:
        raise UserError(f"{name} is not on this machine; `daneel models pull {name}` fetches it")


def _from_hub(repo: str, file: str | None, progress: Progress, may_fetch: bool) -> ResolvedModel:
    if stored := _in_stores(repo, file):
        return _from_stored(stored, repo)
    _check_may_fetch(f"{repo}:{file}" if file else repo, may_fetch)
    try:
        file = file or hub.find_file(repo, None)
        fetched = hub.download(HubFile(repo, file), sha256=None, progress=progress)
    except SourceError as error:
        raise UserError(f"{repo}: {error}") from error
    return _resolved(repo, fetched.paths, f"hub {repo}:{file}", fetched.sha256)


def _in_stores(repo: str, file: str | None) -> Stored | None:
    """The repository's file if a store holds it; without a file's name, the one that would be chosen from the hub."""
    ours = [stored for stored in stores.scan() if stored.repo is not None and stored.repo.lower() == repo.lower()]
    if file is None and ours:
        try:
            file = hub.choose(repo, [stored.file for stored in ours if stored.file is not None])
        except SourceError:
            return None
    return next((stored for stored in ours if stored.file == file), None)


def _from_ollama(model: str) -> ResolvedModel:
    wanted = model if ":" in model.removeprefix("ollama:") else f"{model}:latest"
    here = [stored for stored in stores.scan() if stored.store == "ollama"]
    for stored in here:
        if stored.name == wanted:
            return _from_stored(stored, stored.name.removeprefix("ollama:"))
    names = ", ".join(stored.name for stored in here) or "none"
    raise UserError(f"Ollama holds no {wanted.removeprefix('ollama:')} here (it holds: {names})")


def _by_file_name(model: str) -> Stored | None:
    """The file called `model`, with or without `.gguf`, in a store. Raises `UserError` when there are different ones."""
    names = {model.lower(), f"{model.lower()}.gguf"}
    found = [stored for stored in stores.scan() if stored.store != "ollama" and stored.paths[0].name.lower() in names]
    if len({stored.size_bytes for stored in found}) > 1:
        raise UserError(f"several files are called {model}: " + ", ".join(str(stored.paths[0]) for stored in found))
    return found[0] if found else None


def _from_stored(stored: Stored, name: str) -> ResolvedModel:
    return _resolved(name, stored.paths, _STORE_NAMES[stored.store], stored.sha256)


def _resolved(name: str, shards: tuple[Path, ...], origin: str, sha256: str | None) -> ResolvedModel:
    """Read every shard's header. Raises `GGUFError`."""
    headers = [read_header(path) for path in shards]
    _number, count = headers[0].shard
    if count != len(shards):
        raise UserError(
            f"{shards[0]} is shard 1 of {count} by its metadata, but its name does not end in -00001-of-{count:05d}.gguf"
        )
    weights_bytes = sum(header.tensor_bytes for header in headers)
    return ResolvedModel(name, shards[0], shards, origin, sha256, headers[0], weights_bytes)


def _looks_like_path(model: str) -> bool:
    is_file_in_folder = model.lower().endswith(".gguf") and "/" in model and ":" not in model
    return model.startswith((".", "/", "~", "\\")) or is_file_in_folder or model.count("/") > 1 or "\\" in model


def _unknown(model: str, entries: Catalogue) -> str:
    near = difflib.get_close_matches(model.lower(), entries, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else f"known names: {', '.join(entries)}"
    return f"no model {model!r}: not a file, a name of the catalogue or a hub id (owner/name[:file]); {hint}"
