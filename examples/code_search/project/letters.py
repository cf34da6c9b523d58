"""Letters to readers."""

from readers import Reader

GREETING = "Dear"


def reminder(reader: Reader, title: str) -> str:
    """A friendly reminder."""
    return f"{GREETING} {reader.name}, please bring back {title}."
