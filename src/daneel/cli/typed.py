"""What a person types at `daneel chat`, as the inbox of a run.

A thread reads standard input, so that a person can type while the agent works: a line is heard at the next turn's boundary.
From a pipe nothing is heard meanwhile: each line is a question of its own, asked when the one before is done, so that the
same input always gives the same conversation. Lines that come at once at a terminal (a paste) are one message.
"""

from __future__ import annotations

import codecs
import contextlib
import os
import queue
import re
import select
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Protocol

from daneel.harness.stop import Stop

PASTE_S = 0.05
"""Lines that come within so many seconds of each other belong together."""

WAKE_S = 0.2
"""No wait is longer: a signal that arrives on the way into one does not end it."""

MAX_MESSAGE_CHARS = 1_000_000
HELP = "/tools lists the tools, /quit leaves; // at the start of a message stands for /"
ONCE_MORE = "Ctrl-C once more, or /quit, leaves"

_COMMAND = re.compile(r"/\w+")
"""A message that is nothing else is a command. So `/usr/bin/env` and `/etc is what?` are not."""


def typed_line() -> str:
    """The next line of standard input. Raises EOFError, and KeyboardInterrupt at Ctrl-C whenever it comes."""
    with contextlib.suppress(OSError, ValueError):  # no file that can be waited for
        while not select.select([sys.stdin], [], [], WAKE_S)[0]:
            pass
    return input()


class Voice(Protocol):
    """How the inbox speaks to the person."""

    def prompt(self) -> None:
        """It is their turn."""

    def note(self, text: str) -> None:
        """Something in passing."""

    def tools(self) -> None:
        """The tools there are."""


class Typed:
    """The inbox that a person fills by typing; see `Inbox`. `start()` begins to read file descriptor `number`.

    `leaves_at_once`: asked at Ctrl-C, whether it must not be asked for twice.
    """

    def __init__(self, number: int, voice: Voice, *, leaves_at_once: Callable[[], bool] = lambda: False) -> None:
        self.attended = os.isatty(number)
        self.unanswered = False
        """Whether a question got no answer."""
        self.over = False
        """Whether nothing more is to come: `/quit`, or the end of the input."""
        self._number = number
        self._voice = voice
        self._leaves_at_once = leaves_at_once
        # not Queue: Ctrl-C can come right after its lock was taken, and leave it taken
        self._messages: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._interrupted = False

    def start(self) -> None:
        # a daemon, and not through sys.stdin: a thread that waits in there would stop the interpreter from ending
        threading.Thread(target=self._read, name="daneel-typed", daemon=True).start()

    def first(self) -> str | None:
        """The first message; None when there is none to come. Raises KeyboardInterrupt to leave."""
        return next(iter(self._next()), None)

    def take(self) -> list[str]:
        """Messages typed while the agent worked. `/quit` among them ends the turn as Ctrl-C does."""
        taken = []
        while self.attended and not self._messages.empty():
            message = self._meant(self._messages.get())
            if self.over:
                raise KeyboardInterrupt
            if message is not None:
                self._voice.note(f"heard: {message}")
                taken.append(message)
        return taken

    def answer(self) -> str:
        """What is typed from now on, in answer to a question; what came before it is heard later. Raises EOFError."""
        earlier: list[str | None] = []
        while not self._messages.empty():
            earlier.append(self._messages.get())
        said = self._get() if None not in earlier else None
        leaves = said is None or said.strip() in ("/quit", "/exit")
        if leaves and None not in earlier:
            earlier.append(said)
        for message in earlier:
            self._messages.put(message)
        if said is None or leaves:
            raise EOFError
        return said

    def wait(self, stop: Stop) -> list[str]:
        """The next message, after the agent has answered or stopped."""
        self.unanswered = self.unanswered or stop.reason != "answered"
        self._interrupted = stop.reason == "cancelled"
        if self._interrupted and (self.over or self._leaves_at_once()):
            return []
        if stop.reason != "answered":
            hint = f"; {ONCE_MORE}" if self._interrupted and self.attended else ""
            self._voice.note(f"{stop.reason}: {stop.detail or 'no answer'}{hint}")
        return self._next()

    def _next(self) -> list[str]:
        while not self.over:
            try:
                self._voice.prompt()
                message = self._meant(self._get())
            except KeyboardInterrupt:
                if self._interrupted or not self.attended or self._leaves_at_once():
                    raise
                self._interrupted = True
                self._voice.note(ONCE_MORE)
                continue
            self._interrupted = False
            if message is not None:
                return [message]
        return []

    def _get(self) -> str | None:
        """The next message. Raises KeyboardInterrupt at Ctrl-C whenever it comes."""
        while True:
            try:
                return self._messages.get(timeout=WAKE_S)
            except queue.Empty:
                continue

    def _meant(self, message: str | None) -> str | None:
        """What is to be said to the model: nothing for an empty line or a command, which is obeyed here."""
        if message is None or message.strip() in ("/quit", "/exit"):
            self.over = True
            return None
        text = message.strip()
        if text.startswith("//"):
            return text[1:]
        if not _COMMAND.fullmatch(text):
            return text or None
        if text == "/tools":
            self._voice.tools()
        else:
            self._voice.note(HELP if text == "/help" else f"there is no command {text}; {HELP}")
        return None

    def _read(self) -> None:
        for message in self._pasted() if self.attended else self._lines():
            self._messages.put(message)
        self._messages.put(None)

    def _pasted(self) -> Iterator[str]:
        """Lines at a terminal, those together that came together."""
        parts: list[str] = []
        for line in self._lines():
            parts.append(line)
            if not select.select([self._number], [], [], PASTE_S)[0]:
                yield "\n".join(parts)
                parts.clear()
        if parts:
            yield "\n".join(parts)

    def _lines(self) -> Iterator[str]:
        decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        pending = ""
        while True:
            try:
                data = os.read(self._number, 65536)
            except OSError:  # the terminal is gone
                data = b""
            pending += decoder.decode(data, final=not data)
            *lines, pending = pending.split("\n")
            yield from (line[:MAX_MESSAGE_CHARS] for line in lines)
            if len(pending) > MAX_MESSAGE_CHARS:
                yield pending
                pending = ""
            if not data:
                break
        if pending:
            yield pending
