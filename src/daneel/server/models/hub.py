"""Models from the Hugging Face hub, through its own library and in its own cache, where other programs find them too."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from daneel.server.models.catalogue import HubFile
from daneel.server.models.files import sha256_of
from daneel.server.models.progress import Progress, SourceError
from daneel.server.models.shards import shard_names
from daneel.server.models.stores import hf_cache_dir

_SHA256 = re.compile(r"[0-9a-f]{64}")
_TIMEOUT_S = 15.0
_PREFERRED = "q4_k_m"
_T = TypeVar("_T")


@dataclass(frozen=True)
class HubDownload:
    """The files as they lie in the hub library's cache (several when sharded), and the first one's checked hash."""

    paths: tuple[Path, ...]
    sha256: str | None


def download(file: HubFile, *, sha256: str | None, progress: Progress) -> HubDownload:
    """Fetch a file, and its other shards if its name says there are any, and check each against the hub's hash.

    When `sha256` is given and the hub's file has another hash, nothing is fetched. Raises `SourceError`.
    """
    library = _library()
    fetched = [_download_one(library, file, name, sha256, progress) for name in shard_names(file.file)]
    return HubDownload(tuple(path for path, _ in fetched), fetched[0][1])


def find_file(repo: str, revision: str | None) -> str:
    """Which GGUF of a repository to take when none is named. Raises `SourceError`."""
    library = _library()
    info = _asking(repo, lambda: library.HfApi(endpoint=_endpoint()).model_info(repo, revision=revision, timeout=_TIMEOUT_S))
    return choose(repo, [sibling.rfilename for sibling in info.siblings or []])


def choose(repo: str, names: Sequence[str]) -> str:
    """The file meant by a repository alone: its Q4_K_M, or its only GGUF. Raises `SourceError` listing the choice."""
    ggufs = sorted({shard_names(name)[0] for name in names if name.lower().endswith(".gguf")})
    models = [name for name in ggufs if not name.rpartition("/")[2].lower().startswith("mmproj")]
    if not models:
        raise SourceError(f"{repo} holds no GGUF file")
    if len(models) == 1:
        return models[0]
    preferred = [name for name in models if _PREFERRED in name.lower()]
    if len(preferred) == 1:
        return preferred[0]
    raise SourceError(f"{repo} holds several GGUF files; choose one with {repo}:FILE: " + ", ".join(models))


def _download_one(
    library: ModuleType, file: HubFile, name: str, sha256: str | None, progress: Progress
) -> tuple[Path, str | None]:
    url = library.hf_hub_url(file.hub, name, revision=file.revision, endpoint=_endpoint())
    metadata = _asking(file.hub, lambda: library.get_hf_file_metadata(url, timeout=_TIMEOUT_S))
    etag = (metadata.etag or "").lower()
    theirs = etag if _SHA256.fullmatch(etag) else None
    if sha256 is not None and theirs is not None and theirs != sha256:
        raise SourceError("the hub's file is another one: its hash differs from the catalogue's")
    expected = sha256 or theirs
    for force in (False, True):
        path = Path(_asking(file.hub, partial(_get, library, file, name, force)))
        if expected is None:
            progress.say(f"{name}: the hub gives no hash, so it could not be checked")
            return path, None
        if sha256_of(path, progress, f"{name}: checking") == expected:
            return path, expected
        progress.say(f"{name}: what came is damaged; fetching it again")
    raise SourceError(f"{name} as it came twice does not have the hash expected")


def _get(library: ModuleType, file: HubFile, name: str, force: bool) -> str:
    path: str = library.hf_hub_download(
        file.hub,
        name,
        revision=file.revision,
        cache_dir=hf_cache_dir(),
        endpoint=_endpoint(),
        etag_timeout=_TIMEOUT_S,
        force_download=force,
    )
    return path


def _endpoint() -> str | None:
    """The hub's address if it is another one; the library reads the same variable, but once, when it is loaded."""
    return os.environ.get("HF_ENDPOINT") or None


def _library() -> ModuleType:
    try:
        import huggingface_hub
    except ImportError as error:
        raise SourceError("the hub needs huggingface_hub: pip install 'daneel[llama]'") from error
    return huggingface_hub


def _asking(repo: str, ask: Callable[[], _T]) -> _T:
    """Run one request to the hub; its failures become a `SourceError` of one clause."""
    try:
        return ask()
    except SourceError:
        raise
    except Exception as error:
        # any: over its versions the library raises the errors of three HTTP libraries
        raise SourceError(_reason(repo, error)) from error


def _reason(repo: str, error: Exception) -> str:
    kind = type(error).__name__
    if kind == "GatedRepoError":
        return f"{repo} is gated: accept its licence on the hub's page, and set HF_TOKEN"
    if kind == "RepositoryNotFoundError":
        return f"there is no repository {repo} on the hub (or it is private: set HF_TOKEN)"
    if kind in ("EntryNotFoundError", "RemoteEntryNotFoundError"):
        return f"{repo} has no such file"
    if kind in ("RevisionNotFoundError", "RevisionResolutionError"):
        return f"{repo} has no such revision"
    if kind == "HFValidationError":
        return f"{repo!r} is not a repository's name"
    if kind == "OfflineModeIsEnabled" or os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "TRUE", "YES", "ON"):
        return "the hub library is set to offline mode (HF_HUB_OFFLINE)"
    first_line = (str(error) or kind).strip().splitlines()[0]
    return f"the hub could not be reached or refused ({first_line[:200]})"
