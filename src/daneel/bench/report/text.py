"""Text of models, tools and people, made safe to stand in HTML or Markdown, and shown as written."""

from __future__ import annotations

import html
import re

_UNSEEN = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\ufffe\uffff\ud800-\udfff\U000e0000-\U000e007f]"
)
_MARKDOWN = re.compile(r"([\\`*_\[\]|#~])")


def visible(text: object) -> str:
    """With control characters, changes of writing direction and lone surrogates made visible; line ends stay."""
    return _UNSEEN.sub(lambda match: chr(0x2400 + ord(match[0])) if ord(match[0]) < 0x20 else "\ufffd", str(text))


def esc(text: object) -> str:
    """For HTML, between tags and in attributes that stand in quotes."""
    return html.escape(visible(text), quote=True)


def short(text: str, max_chars: int) -> str:
    """Its beginning, and how long it was, where it is longer."""
    return text if len(text) <= max_chars else f"{text[:max_chars]}… ({len(text):,} characters)"


def md(text: object) -> str:
    """For Markdown, on one line: no markup, no HTML, and nobody is notified by an @."""
    flat = " ".join(visible(text).split())
    return _MARKDOWN.sub(r"\\\1", html.escape(flat, quote=False)).replace("@", "@\u2060")


def fenced(text: str, language: str = "") -> str:
    """A code block of Markdown that its own text cannot end."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{visible(text)}\n{fence}"
