"""The members of a JSON object with their values as they are written, so that no number changes on its way."""

from __future__ import annotations

from daneel.formats.json_scan import JsonScanner


class _Members(JsonScanner):
    def __init__(self, text: str) -> None:
        super().__init__(track_depth=1)
        self.found: list[tuple[str, str]] = []
        self._text = text
        self._member = ""

    def on_key(self, depth: int, key: str, start: int) -> None:
        self._member = key

    def on_value(self, depth: int, start: int, end: int, kind: str, text: str | None) -> None:
        if depth == 1:
            self.found.append((self._member, self._text[start:end]))


def members(text: str) -> list[tuple[str, str]]:
    """Keys and values (JSON text) of the object that `text` is. `ValueError` when it is none."""
    scanner = _Members(text)
    scanner.feed(text, 0)
    if not scanner.done or scanner.error is not None or not text.lstrip().startswith("{"):
        raise ValueError("expected a JSON object")
    return scanner.found
