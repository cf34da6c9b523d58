"""A worker: `python -m daneel.bench.runners.worker FD`, FD being its end of a socketpair. One trial at a time, as told.

It writes transcripts itself, but no trial's row: that goes to the store's owner, and only an acknowledged row counts. When the
owner is gone, it ends what it is doing and goes.
"""

from __future__ import annotations

import os
import queue
import signal
import socket
import sys
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path

from daneel.bench.runners.link import Cancel, Failed, Job, Link, Ready, Row, Stored, ToWorker, WorkerSetup
from daneel.bench.slot import Slot
from daneel.bench.sources import harness_of
from daneel.bench.trial import Attempt, ModelIdentity, attempt, identify
from daneel.bench.workspace import WorkFolder
from daneel.errors import UserError
from daneel.harness import server_profile
from daneel.harness.client import Client, ClientError
from daneel.harness.definition import Goal, Harness
from daneel.harness.files import HarnessFile, load
from daneel.harness.recorder import TranscriptSink
from daneel.harness.transcript import TranscriptStore

GRACE_S = 10.0
"""So long may a trial take to end after its owner has gone; then the process ends, whatever a tool is doing."""


class Inbox:
    """Messages from the owner, read by a thread of their own: `Cancel`, and the owner's end, must reach a trial that is on."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._messages: queue.SimpleQueue[ToWorker] = queue.SimpleQueue()
        self._busy = False
        self._cancelled = False
        self._lock = threading.Lock()
        threading.Thread(target=self._read, daemon=True, name="owner").start()

    def take(self) -> ToWorker:
        """The next message; waits for it."""
        return self._messages.get()

    def set_busy(self, busy: bool) -> bool:
        """From now on a trial is on, or is not. False: it should not begin."""
        with self._lock:
            self._busy = busy
            return not self._cancelled

    def _read(self) -> None:
        try:
            while True:
                for message in self._link.from_owner():
                    if isinstance(message, Cancel):
                        self._interrupt()
                    self._messages.put(message)
        except (OSError, EOFError):
            self._interrupt()
            self._messages.put(Cancel())
            time.sleep(GRACE_S)
            os._exit(1)

    def _interrupt(self) -> None:
        """As Ctrl-C would, for the trial that is on."""
        with self._lock:
            if self._busy and not self._cancelled:
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            self._cancelled = True


class Workshop:
    """All that trials need, made once: client, transcripts, folder, and the files as they are loaded."""

    def __init__(self, setup: WorkerSetup, stack: ExitStack) -> None:
        self._setup = setup
        self._folder = stack.enter_context(WorkFolder(Path(setup.folder)))
        self._client = stack.enter_context(
            Client(
                setup.servers,
                api_key=setup.keys,
                model=setup.asked_model,
                ca_cert=setup.ca_cert,
                insecure_http=setup.insecure_http,
            )
        )
        self._model = ModelIdentity(setup.model_name, setup.model_hash, setup.model_verified)
        self._check_model()
        self._store = stack.enter_context(TranscriptStore(durable_turns=False)) if setup.transcripts else None
        self._files: dict[tuple[str, bool], HarnessFile] = {}

    def _check_model(self) -> None:
        served = identify(self._client)
        if served != self._model:
            raise UserError(f"{self._client.server} serves another model ({served.name}) than the one that is measured")
        with suppress(UserError, ClientError):
            self._client.profile = server_profile.find(self._client.base_url, self._client.model)

    def attempt(self, slot: Slot) -> Attempt:
        """Run one trial. Raises `UserError` when the file is not what was planned."""
        in_workspace = slot.goal in self._setup.goals_with_setup
        goal = self._file(self._setup.goal_files[slot.goal], in_workspace).goal(slot.goal)
        harness = harness_of(slot.arm, self._file(str(slot.arm.file), in_workspace))
        self._check_same(slot, harness, goal)
        return attempt(
            slot,
            harness,
            goal,
            client=self._client,
            model=self._model,
            folder=self._folder,
            transcripts=self._labelled(slot),
        )

    def _file(self, path: str, in_workspace: bool) -> HarnessFile:
        """The file, loaded where its trials run: tools that are made for "." are bound to the folder they are made in."""
        if (path, in_workspace) not in self._files:
            with ExitStack() as stack:
                if in_workspace:
                    stack.enter_context(self._folder.entered())
                self._files[path, in_workspace] = load(path)
        return self._files[path, in_workspace]

    def _check_same(self, slot: Slot, harness: Harness, goal: Goal) -> None:
        planned, found = self._setup.harness_hashes[slot.arm.name], harness.fingerprint()
        if found != planned:
            raise UserError(f"{slot.arm.file}: harness {slot.arm.harness} is not what it was when the measurement began")
        if goal.fingerprint() != self._setup.goal_hashes[slot.goal]:
            file = self._setup.goal_files[slot.goal]
            raise UserError(f"{file}: goal {slot.goal} is not what it was when the measurement began")

    def _labelled(self, slot: Slot) -> TranscriptSink | None:
        if self._store is None:
            return None
        about = {"goal": slot.goal, "file": slot.arm.file, "arm": slot.arm.name, "index": slot.index, "attempt": slot.attempt}
        return self._store.labelled(**self._setup.labels, **about, server=self._client.server)


def work(link: Link) -> None:
    """Do as the owner says until it says no more."""
    inbox = Inbox(link)
    setup = inbox.take()
    if not isinstance(setup, WorkerSetup):
        return
    try:
        with ExitStack() as stack:
            workshop = Workshop(setup, stack)
            link.send(Ready())
            while isinstance(message := inbox.take(), Job):
                if not inbox.set_busy(True):
                    return
                ended = workshop.attempt(message.slot)
                inbox.set_busy(False)
                link.send(Row(ended.trial, None if ended.stop is None else str(ended.stop)))
                if not isinstance(inbox.take(), Stored):
                    return
    except UserError as error:
        link.send(Failed(str(error)))
    finally:
        with suppress(OSError):
            Path(setup.folder).parent.rmdir()  # nobody else will, if the owner was killed; it is not empty if it was not


def main() -> None:
    """Entry point of the process."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs inherit that it is ignored
    os.dup2(2, 1)  # what tools and their programs print is not the owner's output
    end = socket.socket(fileno=int(sys.argv[1]))
    end.set_inheritable(False)
    with suppress(OSError, KeyboardInterrupt):  # the owner is gone, or wants no more
        work(Link(end))


if __name__ == "__main__":
    main()
