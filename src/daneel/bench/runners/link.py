"""What the owner of a store and its workers say to each other: one JSON object a line, over any stream socket."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct

from daneel.bench.record import Trial
from daneel.bench.slot import Slot


class WorkerSetup(Struct, frozen=True, kw_only=True, tag="setup"):
    """The first message to a worker: all that its trials have in common. Holds keys, so it is on no command line."""

    servers: list[str]
    """The worker's first choice comes first."""
    keys: list[str] | None
    asked_model: str | None
    model_name: str
    model_hash: str
    model_verified: bool
    ca_cert: str | None
    insecure_http: bool
    harness_hashes: dict[str, str]
    """*H* of each arm, by its name: what a worker loads must be what was planned."""
    goal_files: dict[str, str]
    goal_hashes: dict[str, str]
    goals_with_setup: list[str]
    folder: str
    """A folder of the worker's own, for workspaces. It need not exist."""
    transcripts: bool
    """Whether runs are to be kept."""
    labels: dict[str, Any] = {}
    """Kept with each run."""


class Job(Struct, frozen=True, tag="job"):
    """Run this. The next message is its row's acknowledgement."""

    slot: Slot


class Stored(Struct, frozen=True, tag="stored"):
    """The acknowledgement: the row is on disk."""


class Cancel(Struct, frozen=True, tag="cancel"):
    """End what is under way as cancelled, send its row, and go."""


class Ready(Struct, frozen=True, tag="ready"):
    """From a worker: it has started."""


class Row(Struct, frozen=True, tag="row"):
    """From a worker: a trial that ended. `stop`: why no other may be run."""

    trial: Trial
    stop: str | None = None


class Failed(Struct, frozen=True, tag="failed"):
    """From a worker: it can run nothing, and no other could. One sentence for a person."""

    message: str


ToWorker = WorkerSetup | Job | Stored | Cancel
ToOwner = Ready | Row | Failed

_to_worker = msgspec.json.Decoder(ToWorker)
_to_owner = msgspec.json.Decoder(ToOwner)


class Link:
    """One end of a connection. Raises OSError when the other end is gone, msgspec.MsgspecError for what is no message."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        self._buffer = bytearray()

    def fileno(self) -> int:
        """For `select`."""
        return self._socket.fileno()

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def send(self, message: ToWorker | ToOwner) -> None:
        """Send all of it."""
        self._socket.sendall(msgspec.json.encode(message) + b"\n")

    def _lines(self) -> Iterator[bytes]:
        """Whole lines of what comes next; waits for the first bytes. Raises EOFError when the other end hung up."""
        data = self._socket.recv(1 << 16)
        if not data:
            raise EOFError
        self._buffer += data
        *whole, rest = self._buffer.split(b"\n")
        self._buffer = bytearray(rest)
        yield from (bytes(line) for line in whole)

    def from_owner(self) -> list[ToWorker]:
        """The messages that have come; waits for bytes, which may not yet be a whole message. EOFError at the end."""
        return [_to_worker.decode(line) for line in self._lines()]

    def from_worker(self) -> list[ToOwner]:
        """The same, at the owner's end."""
        return [_to_owner.decode(line) for line in self._lines()]
