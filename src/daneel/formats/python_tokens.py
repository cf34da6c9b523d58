"""Python's literals as JSON: strings, read in pieces with their escapes decoded, and numbers and constants."""

from __future__ import annotations

import json
import re

_RAW_RUNS = {"'": re.compile(r"[^'\\]++"), '"': re.compile(r'[^"\\]++')}
_WHOLE_ESCAPE = r"\\(?:[^0-7xuUN]|[0-7]{3}|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U000[0-9a-fA-F]{5})"
_RUNS = {quote: re.compile(rf"(?:[^{quote}\\]++|{_WHOLE_ESCAPE})++", re.DOTALL) for quote in "'\""}
_ESCAPE = re.compile(
    r"\\(?:([0-7]{1,3})|x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U(000[0-9a-fA-F]{5}|0010[0-9a-fA-F]{4})|([^0-7xuUN]))", re.DOTALL
)
_ESCAPE_BEGUN = re.compile(r"\\(?:x[0-9a-fA-F]?+|u[0-9a-fA-F]{0,3}+|U[0-9a-fA-F]{0,7}+)?+")
_SIMPLE = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "a": "\a", "v": "\v", "\n": "", "/": "/"}
_SIMPLE |= {char: char for char in "\\'\""}
_SURROGATE = re.compile("[\ud800-\udfff]")
_NUMBER = re.compile(r"([+-]?)([0-9]++(?:_[0-9]++)*+)?+(\.(?:[0-9]++(?:_[0-9]++)*+)?+)?+([eE][+-]?[0-9]++)?+")
_BASED = re.compile(r"([+-]?)(0[xX][0-9a-fA-F]{1,16}|0[oO][0-7]{1,21}|0[bB][01]{1,64})")
_LITERALS = {"True": "true", "False": "false", "None": "null", "true": "true", "false": "false", "null": "null"}


def _decoded(escape: re.Match[str]) -> str:
    if escape[5] is not None:
        return _SIMPLE.get(escape[5], "\\" + escape[5])
    if escape[1] is not None:
        return chr(int(escape[1], 8))
    return chr(int(escape[2] or escape[3] or escape[4], 16))


class PythonString:
    """One string, or several side by side: `open` at a quote, `read` until it is `closed`, then open again or take it.

    `open` and `read` return where they stopped; -1, or the same position, if more text is needed. A string may hold raw line
    breaks, which is listed in `repairs`; `\\/` is a slash, as JSON has it.
    """

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._quote = ""
        self._raw = False
        self._broken_lines = False
        self.closed = False
        self.problem = ""

    @property
    def repairs(self) -> tuple[str, ...]:
        return ("raw_line_break",) if self._broken_lines else ()

    @staticmethod
    def json(text: str) -> str:
        """JSON text of a string. Half a surrogate pair, which no UTF-8 can hold, stays an escape."""
        return json.dumps(text, ensure_ascii=_SURROGATE.search(text) is not None)

    def open(self, text: str, pos: int, *, raw: bool) -> int:
        """A quote stands at `pos`: one, or three for a string over several lines."""
        quote, run = text[pos], text[pos : pos + 3]
        if len(run) < 3 and run == quote * len(run):
            return -1
        self._quote = run if run == quote * 3 else quote
        self._raw, self.closed = raw, False
        return pos + len(self._quote)

    def read(self, text: str, pos: int) -> int:
        quote, size = self._quote, len(text)
        run_pattern = (_RAW_RUNS if self._raw else _RUNS)[quote[0]]
        while pos < size:
            run = run_pattern.match(text, pos)
            if run is not None:
                self._take_run(run.group())
                pos = run.end()
            elif text[pos] == "\\":
                end = self._escape(text, pos)
                if end <= pos:
                    break
                pos = end
            elif text.startswith(quote, pos):
                self.closed = True
                return pos + len(quote)
            elif size - pos < len(quote) and quote.startswith(text[pos:]):
                break
            else:
                self._parts.append(text[pos])
                pos += 1
        return pos

    def _take_run(self, part: str) -> None:
        """Text, and escapes that are complete."""
        has_escapes = "\\" in part and not self._raw
        if "\n" in part and len(self._quote) == 1 and not self._broken_lines:
            self._broken_lines = "\n" in (_ESCAPE.sub("", part) if has_escapes else part)
        self._parts.append(_ESCAPE.sub(_decoded, part) if has_escapes else part)

    def _escape(self, text: str, pos: int) -> int:
        """An escape stands at `pos`; the same position if it is not complete, or wrong."""
        if self._raw:
            if len(text) - pos < 2:
                return pos
            self._parts.append(text[pos : pos + 2])
            return pos + 2
        match = _ESCAPE.match(text, pos)
        if match is None:
            begun = _ESCAPE_BEGUN.match(text, pos)
            if begun is None or begun.end() < len(text):
                self.problem = "not an escape that Python knows"
            return pos
        if match[1] is not None and len(match[1]) < 3 and match.end() == len(text):
            return pos
        self._parts.append(_decoded(match))
        return match.end()

    def take(self) -> str:
        """The text of what was read since it was last taken."""
        text, self._parts = "".join(self._parts), []
        # two escapes may be the halves of one character
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass") if _SURROGATE.search(text) else text

    def take_json(self) -> str:
        return self.json(self.take())


def literal_json(token: str) -> str | None:
    """A number or constant as JSON; `None` if it is neither. Numbers stay as they are written where JSON can."""
    if token in _LITERALS:
        return _LITERALS[token]
    based = _BASED.fullmatch(token)
    if based is not None:
        return based[1].strip("+") + str(int(based[2], 0))
    number = _NUMBER.fullmatch(token)
    if number is None or not (number[2] or (number[3] or "").strip(".")):
        return None
    sign, whole, fraction, exponent = (part or "" for part in number.groups())
    whole = whole.replace("_", "") or "0"
    if len(whole) > 1 and whole[0] == "0":
        return None
    fraction = ".0" if fraction == "." else fraction.replace("_", "")
    return sign.strip("+") + whole + fraction + exponent
