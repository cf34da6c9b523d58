"""One file over HTTP (or from `file://`) to disk: streamed, resumed where it stopped, checked against a hash."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import httpx2

from daneel.server.models.files import disk_errors, sha256_of, size_of
from daneel.server.models.progress import Progress, SourceError

_CHUNK_BYTES = 2**18
_TIMEOUT = httpx2.Timeout(30.0, connect=10.0, read=60.0)
_MAX_BARREN_ATTEMPTS = 4
_CONTENT_RANGE = re.compile(r"bytes (?:(\d+)-\d+|\*)/(\d+|\*)")


class UnavailableError(SourceError):
    """We were refused, or could not connect; a client with other credentials or another proxy may fare better."""


class _Interrupted(Exception):
    """The transfer broke off; what came is kept, and it may be resumed."""


class _CannotResume(_Interrupted):
    """The server cannot go on from where we stopped; only from the start."""


@dataclass(frozen=True)
class _Opened:
    """A transfer that starts at byte `start`, of `total_bytes` if known."""

    start: int
    total_bytes: int | None
    chunks: Iterator[bytes]


def fetch(
    url: str,
    target: Path,
    *,
    sha256: str | None,
    max_bytes: int,
    label: str,
    progress: Progress,
    pause: Callable[[float], None] = time.sleep,
) -> None:
    """Bring `url` to `target`, by way of `target` + `.part`, from which a later call goes on.

    A file whose hash is wrong is thrown away and fetched once more. Raises `SourceError` (the network, a hash, more than
    `max_bytes`), `UserError` (the disk).
    """
    part = target.with_name(target.name + ".part")
    with disk_errors(target.parent):
        for _ in range(2):
            _transfer(url, part, max_bytes, label, progress, pause)
            if sha256 is None or sha256_of(part, progress, f"{label}: checking") == sha256:
                os.replace(part, target)
                return
            part.unlink()
            progress.say(f"{label}: what came does not have the hash its index gives; fetching it again")
    raise SourceError(f"{urlsplit(url).path.rpartition('/')[2]} does not have the hash its index gives")


def _transfer(url: str, part: Path, max_bytes: int, label: str, progress: Progress, pause: Callable[[float], None]) -> None:
    """Fill `part` to its end, over as many connections as it takes while each brings something."""
    barren = 0
    with httpx2.Client(timeout=_TIMEOUT, follow_redirects=True) as client:
        while True:
            before = size_of(part)
            try:
                _one_connection(client, url, part, max_bytes, label, progress)
                return
            except (_Interrupted, httpx2.TransportError) as error:
                if isinstance(error, _CannotResume):
                    part.unlink(missing_ok=True)
                barren = 0 if size_of(part) > before else barren + 1
                if barren == _MAX_BARREN_ATTEMPTS:
                    raise UnavailableError(f"{urlsplit(url).hostname or url}: {str(error) or type(error).__name__}") from error
                if barren:
                    pause(2.0 ** (barren - 1))
            except (httpx2.InvalidURL, httpx2.TooManyRedirects) as error:
                raise SourceError(f"{urlsplit(url).hostname or url}: {error}") from error


def _one_connection(client: httpx2.Client, url: str, part: Path, max_bytes: int, label: str, progress: Progress) -> None:
    with _open(client, url, size_of(part)) as opened:
        if opened.total_bytes is not None and opened.total_bytes > max_bytes:
            raise SourceError(f"the file offered has {opened.total_bytes:,} bytes, more than the {max_bytes:,} expected")
        done = opened.start
        with part.open("ab") as file:
            file.truncate(done)
            for chunk in opened.chunks:
                done += len(chunk)
                if done > max_bytes:
                    raise SourceError(f"more than the {max_bytes:,} bytes expected came")
                file.write(chunk)
                # what came must outlive us, should we be killed
                file.flush()
                progress.update(label, done, opened.total_bytes)
    if opened.total_bytes is not None and done < opened.total_bytes:
        raise _Interrupted(f"the connection ended at byte {done:,} of {opened.total_bytes:,}")


@contextmanager
def _open(client: httpx2.Client, url: str, start: int) -> Iterator[_Opened]:
    if url.startswith("file:"):
        with _open_local(url, start) as opened:
            yield opened
        return
    headers = {"Accept-Encoding": "identity"}
    if start:
        headers["Range"] = f"bytes={start}-"
    with client.stream("GET", url, headers=headers) as response:
        yield _begin(response, start)


def _begin(response: httpx2.Response, start: int) -> _Opened:
    """Read the status: where the transfer really starts. Raises `SourceError`, `_Interrupted`.

    The chunks are the bytes as they come: gathering them into larger ones would lose up to one at each cut.
    """
    status = response.status_code
    if response.headers.get("Content-Encoding", "identity") != "identity":
        raise UnavailableError(f"{response.url.host} sent the file encoded, although asked not to")
    range_start, total = _content_range(response)
    if status == 416 and start:
        # the whole file is here already, or the file on the server is another one
        if total != start:
            raise _CannotResume("the file on the server has changed")
        return _Opened(start, start, iter(()))
    if status == 206:
        if range_start != start:
            raise _CannotResume(f"the server sent bytes from {range_start} when asked for those from {start}")
        return _Opened(start, total, response.iter_raw())
    if status == 200:
        length = response.headers.get("Content-Length", "")
        return _Opened(0, int(length) if length.isdecimal() else None, response.iter_raw())
    reason = f"{response.url.host} answered {status} {response.reason_phrase}".rstrip()
    if status in (401, 403, 407):
        raise UnavailableError(reason)
    if status == 429 or status >= 500:
        raise _Interrupted(reason)
    raise SourceError(reason)


def _content_range(response: httpx2.Response) -> tuple[int | None, int | None]:
    match = _CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", "").strip())
    if match is None:
        return None, None
    start, total = match.groups()
    return (int(start) if start else None), (int(total) if total != "*" else None)


@contextmanager
def _open_local(url: str, start: int) -> Iterator[_Opened]:
    path = Path(url2pathname(urlsplit(url).path))
    try:
        file = path.open("rb")
    except OSError as error:
        raise SourceError(f"cannot read {path}: {error.strerror or error}") from error
    with file:
        total = os.fstat(file.fileno()).st_size
        if start > total:
            start = 0
        file.seek(start)
        yield _Opened(start, total, iter(lambda: file.read(_CHUNK_BYTES), b""))
