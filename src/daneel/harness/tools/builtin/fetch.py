"""`fetch_url`: the text of one page of the open internet."""

from __future__ import annotations

from dataclasses import asdict

from daneel.harness.raised import ToolFailure
from daneel.harness.safety.fetch import Fetcher, FetchLimits, Page
from daneel.harness.safety.html_text import html_to_text
from daneel.harness.safety.targets import ToolSafety
from daneel.harness.safety.untrusted import fence
from daneel.harness.tools.builtin.making import at_least, built_in
from daneel.harness.tools.registry import Tool

_TEXT_TYPES = ("application/json", "application/xml", "application/javascript", "application/rss+xml", "application/atom+xml")


def fetch_url(
    *, max_chars: int = 8000, timeout_s: float = 20.0, max_bytes: int = 2_000_000, fetcher: Fetcher | None = None
) -> Tool:
    """A tool that reads web pages as text, `max_chars` at a time. Private and local addresses are refused."""
    at_least("fetch_url", max_chars=max_chars, timeout_s=timeout_s, max_bytes=max_bytes)
    source = fetcher or Fetcher(FetchLimits(timeout_s=timeout_s, max_bytes=max_bytes))

    def fetch_url(url: str, start: int = 0) -> str:
        """Read a web page as text.

        Args:
            url: The address, such as https://example.org/page.
            start: Where in the text to begin. 0 is the beginning.
        """
        page = source.get(url)
        text = _text_of(page)
        if not text:
            return f"The page is empty (status {page.status})."
        if not 0 <= start < len(text):
            raise ToolFailure(f"the page has {len(text)} characters; start must be from 0 to {len(text) - 1}")
        shown = text[start : start + max_chars]
        status = "" if page.status < 400 else f", which the server calls an error (status {page.status})"
        said = f"Characters {start} to {start + len(shown)} of {len(text)}{status}:\n"
        said += fence(shown, "fetch_url", max_chars=max_chars)
        if start + len(shown) < len(text):
            said += f"\nThere is more. To read on, call fetch_url with the same url and start {start + len(shown)}."
        elif page.is_cut:
            said += "\nThe page is longer, but no more of it can be read."
        return said

    options = {**asdict(source.limits), "max_chars": max_chars}
    return built_in(fetch_url, effects=["network"], safety=ToolSafety(fences=True), options=options, parallel=True)


def _text_of(page: Page) -> str:
    """The page as text. Raises ToolFailure for what is none."""
    kind = page.content_type
    if not (kind.startswith("text/") or kind in _TEXT_TYPES or kind.endswith(("+json", "+xml"))) or b"\0" in page.body[:8192]:
        raise ToolFailure(f"the page is no text but {ascii(kind)[1:-1][:60]} ({len(page.body)} bytes); only text can be read")
    text = page.text()
    return html_to_text(text) if kind in ("text/html", "application/xhtml+xml") else text.strip()
