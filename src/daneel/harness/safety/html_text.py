"""The text of an HTML page, in one pass over it, whatever it is made of: no parser that a page could keep busy."""

from __future__ import annotations

import html
import re

_SKIPPED = frozenset(("script", "style", "template", "noscript", "svg", "iframe", "object", "select", "textarea", "math"))
_BLOCKS = frozenset(
    (
        *("address", "article", "aside", "blockquote", "br", "caption", "dd", "details", "div", "dl", "dt", "fieldset"),
        *("figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "li", "main", "nav"),
        *("ol", "p", "pre", "section", "summary", "table", "tbody", "tfoot", "thead", "title", "tr", "ul"),
    )
)
_NAME = re.compile(r"/?[a-zA-Z][a-zA-Z0-9:\-]*")
_HREF = re.compile(r"""\bhref\s*=\s*(?:"([^"]{1,2000})"|'([^']{1,2000})'|([^\s"'>]{1,2000}))""", re.IGNORECASE)


def html_to_text(page: str) -> str:
    """What a reader sees: text by blocks, headings marked with #, items with -, links as `words (address)`."""
    reader = _Reader(page)
    reader.read()
    text = "".join(reader.out)
    lines = (re.sub(r"[ \t\u00a0]+", " ", line).strip() for line in text.split("\n"))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


class _Reader:
    def __init__(self, page: str) -> None:
        self.page = page
        self.lowered: str | None = None
        self.out: list[str] = []
        self.href: str | None = None

    def read(self) -> None:
        """Each character is looked at once: where a comment or a skipped element has no end, the page ends."""
        page, at = self.page, 0
        while (start := page.find("<", at)) >= 0:
            self._text(page[at:start])
            at = self._tag(start)
        self._text(page[at:])

    def _text(self, text: str) -> None:
        if text:
            self.out.append(re.sub(r"\s+", " ", html.unescape(text)))

    def _tag(self, start: int) -> int:
        """What begins at `start`; returns where to go on."""
        page = self.page
        if page.startswith("<!--", start):
            return self._behind("-->", start + 4)
        if page.startswith(("<!", "<?"), start):
            return self._behind(">", start + 2)
        name = _NAME.match(page, start + 1)
        if name is None:
            self.out.append("<")
            return start + 1
        end = self._behind(">", name.end())
        word = name.group().lower()
        if word in _SKIPPED:
            return self._after_skipped(word, end)
        self._element(word, page[name.end() : end])
        return end

    def _behind(self, closing: str, at: int) -> int:
        found = self.page.find(closing, at)
        return len(self.page) if found < 0 else found + len(closing)

    def _after_skipped(self, word: str, at: int) -> int:
        if self.lowered is None:
            self.lowered = self.page.lower()
            if len(self.lowered) != len(self.page):  # a few letters grow in lower case; then places would not fit
                self.lowered = self.page
        found = self.lowered.find(f"</{word}", at)
        return len(self.page) if found < 0 else self._behind(">", found)

    def _element(self, word: str, attributes: str) -> None:
        bare = word.removeprefix("/")
        if bare in _BLOCKS:
            self.out.append("\n\n" if bare in ("p", "h1", "h2", "h3", "h4", "h5", "h6", "table", "title") else "\n")
        if word == "li":
            self.out.append("- ")
        elif word in ("h1", "h2", "h3", "h4", "h5", "h6"):
            self.out.append("#" * int(word[1]) + " ")
        elif word in ("td", "th"):
            self.out.append(" | ")
        elif word == "a" and (href := _HREF.search(attributes[:4000])):
            self.href = html.unescape(next(group for group in href.groups() if group))
        elif word == "/a" and self.href:
            if not self.href.lower().startswith(("#", "javascript:", "data:", "mailto:")):
                self.out.append(f" ({''.join(self.href.split())})")
            self.href = None
