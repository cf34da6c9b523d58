"""Secrets: found by their form and among the environment's values, and replaced before anything is stored or sent.

A key that a model has read, or a person has pasted, would otherwise stand in every later request and in the transcript. What is
replaced says what it was: `[redacted: OPENAI_API_KEY]`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import Any

MIN_VALUE_CHARS = 8
_SECRET_NAME = re.compile(
    r"(?:^|_)(?:API_?KEY|KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|PASS|PWD|CREDENTIALS?|AUTH|COOKIE|DSN)(?:_|$)|APIKEY|SECRET|PASSWORD",
    re.IGNORECASE,
)
_NOT_SECRET_NAME = re.compile(r"(?:_(?:PATH|FILE|DIR|ID|NAME|URL|HOST|SOCK|TTL)|^(?:OLD)?PWD)$", re.IGNORECASE)
_URL_WITH_PASSWORD = re.compile(r"[a-z][a-z0-9+.\-]{1,30}://[^\s/:@]{0,100}:([^\s/@]{3,200})@", re.IGNORECASE)

_FORMS: tuple[tuple[str, str, str], ...] = (
    # what it is, a text that must be there for it to be looked for at all, its form
    (
        "private key",
        "-----BEGIN",
        r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----[\s\S]{0,20000}?(?:-----END [A-Z ]{0,30}PRIVATE KEY-----|\Z)",
    ),
    ("API key", "sk-", r"\bsk-[A-Za-z0-9_\-]{16,250}"),
    ("GitHub token", "gh", r"\bgh[pousr]_[A-Za-z0-9]{20,255}"),
    ("GitHub token", "github_pat_", r"\bgithub_pat_[A-Za-z0-9_]{20,255}"),
    ("GitLab token", "glpat-", r"\bglpat-[A-Za-z0-9_\-]{16,100}"),
    ("Hugging Face token", "hf_", r"\bhf_[A-Za-z0-9]{20,100}"),
    ("AWS key", "A", r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
    ("Google key", "AIza", r"\bAIza[A-Za-z0-9_\-]{30,50}"),
    ("Slack token", "xox", r"\bxox[abeoprs]-[A-Za-z0-9\-]{10,250}"),
    ("npm token", "npm_", r"\bnpm_[A-Za-z0-9]{30,100}"),
    ("PyPI token", "pypi-", r"\bpypi-[A-Za-z0-9_\-]{40,300}"),
    ("Stripe key", "k_live_", r"\b[rs]k_live_[A-Za-z0-9]{16,200}"),
    ("web token", "eyJ", r"\beyJ[A-Za-z0-9_\-]{10,2000}\.eyJ[A-Za-z0-9_\-]{10,4000}\.[A-Za-z0-9_\-]{10,2000}"),
    ("bearer token", "earer ", r"(?<=[Bb]earer )[A-Za-z0-9._~+/\-]{20,2000}=*"),
)


class Redactor:
    """Replaces secrets in texts and in JSON-like data. Made once, from the environment as it is then."""

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        self._values = secret_values(os.environ if environ is None else environ)
        self._forms = [(what, hint, re.compile(form)) for what, hint, form in _FORMS]

    def text(self, text: str) -> str:
        """The text without secrets."""
        for value, name in self._values:
            if value in text:
                text = text.replace(value, f"[redacted: {name}]")
        for what, hint, form in self._forms:
            if hint in text:
                text = form.sub(f"[redacted: {what}]", text)
        if "://" in text and "@" in text:
            text = _URL_WITH_PASSWORD.sub(_without_password, text)
        return text

    def data(self, value: Any) -> Any:
        """JSON-like data without secrets, keys of objects included; the same object when there are none."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            pairs = [(self.data(key), self.data(item)) for key, item in value.items()]
            is_same = all(
                new is old
                for pair, known in zip(pairs, value.items(), strict=True)
                for new, old in zip(pair, known, strict=True)
            )
            return value if is_same else dict(pairs)
        if isinstance(value, list | tuple):
            items = [self.data(item) for item in value]
            return value if all(new is old for new, old in zip(items, value, strict=True)) else items
        return value


def redaction(*, wanted: bool) -> Callable[[Any], Any] | None:
    """What a run's records and messages go through; None where a policy wants none."""
    return Redactor().data if wanted else None


def secret_values(environ: Mapping[str, str]) -> list[tuple[str, str]]:
    """Values of variables whose names speak of secrets, with those names; the longest first, since one may hold another."""
    found = {
        value: name
        for name, value in environ.items()
        if len(value) >= MIN_VALUE_CHARS
        and _SECRET_NAME.search(name)
        and not _NOT_SECRET_NAME.search(name)
        and not value.startswith("/")
        and len(set(value)) > 2
    }
    return sorted(found.items(), key=lambda pair: len(pair[0]), reverse=True)


def _without_password(match: re.Match[str]) -> str:
    start, end = match.start(1) - match.start(), match.end(1) - match.start()
    whole = match.group()
    return f"{whole[:start]}[redacted: password]{whole[end:]}"
