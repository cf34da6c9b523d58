"""What a pull tells while it runs. The terminal draws it; tests and servers may ignore it."""

from __future__ import annotations

from typing import Protocol


class SourceError(Exception):
    """One source of a model failed; the message is the reason, without the model's name. The next source is tried."""


class Progress(Protocol):
    """Told by a pull how far it is, and what a person should know."""

    def update(self, label: str, done_bytes: int, total_bytes: int | None) -> None:
        """`done_bytes` of `total_bytes` (None: not known) of the step called `label` are done."""
        ...

    def say(self, text: str) -> None:
        """One line for the person."""
        ...


class Silent:
    """A `Progress` that says nothing."""

    def update(self, label: str, done_bytes: int, total_bytes: int | None) -> None:
        """Nothing."""

    def say(self, text: str) -> None:
        """Nothing."""
