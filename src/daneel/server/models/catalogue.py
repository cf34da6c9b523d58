"""The models daneel knows by name: where each may be had, its size, hash and licence. The data is `catalogue.toml`."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from importlib import resources

import msgspec

from daneel.errors import UserError

_SHA256 = re.compile(r"[0-9a-f]{64}")
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")


class HubFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file of a repository on the Hugging Face hub; `revision` is a branch, tag or commit (None: the default branch)."""

    hub: str
    file: str
    revision: str | None = None

    def describe(self) -> str:
        """How the source is named to a person."""
        return f"hub {self.hub}:{self.file}"


class WheelFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Members of one or more package wheels that, joined in order, are the file."""

    packages: str
    version: str
    member: str
    parts: int = 1

    def describe(self) -> str:
        """How the source is named to a person."""
        return f"package {self.wheels()[0].package}" + (f" and {self.parts - 1} more" if self.parts > 1 else "")

    def wheels(self) -> list[WheelPart]:
        """Every package with its member, in the order they are joined."""
        return [
            WheelPart(_numbered(self.packages, number), self.version, _numbered(self.member, number))
            for number in range(1, self.parts + 1)
        ]


class WheelPart(msgspec.Struct, frozen=True):
    """One package at one version, and the path inside its wheel of the bytes wanted."""

    package: str
    version: str
    member: str


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A model of the catalogue. Without `sha256` a pull is checked against the hub's own hash only."""

    name: str
    sources: list[HubFile | WheelFile]
    size_bytes: int
    licence: str
    context_tokens: int
    quantisation: str
    note: str
    sha256: str | None = None
    size_exact: bool = True

    @property
    def hub_files(self) -> list[HubFile]:
        """The sources that are hub files."""
        return [source for source in self.sources if isinstance(source, HubFile)]

    @property
    def file_name(self) -> str:
        """Name of the file in daneel's own store."""
        return f"{self.name}.gguf"


Catalogue = Mapping[str, Entry]


class _Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    sources: list[dict[str, str | int]]
    size_bytes: int
    licence: str
    context_tokens: int
    quantisation: str
    note: str
    sha256: str | None = None
    size_exact: bool = True


def load(text: str | None = None) -> dict[str, Entry]:
    """Entries by name, in file order. `text` is TOML (None: the catalogue that ships with daneel).

    Raises `UserError` naming the entry and the field when the text is not a valid catalogue.
    """
    if text is None:
        text = resources.files(__package__).joinpath("catalogue.toml").read_text(encoding="utf-8")
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"the catalogue is not valid TOML: {error}") from error
    return {name: _entry(name, row) for name, row in table.items()}


def _entry(name: str, row: object) -> Entry:
    try:
        fields = msgspec.convert(row, _Row)
        sources = [msgspec.convert(source, HubFile if "hub" in source else WheelFile) for source in fields.sources]
        entry = Entry(name=name, **{**msgspec.structs.asdict(fields), "sources": sources})
        _check(entry)
    except (msgspec.ValidationError, ValueError) as error:
        raise UserError(f"catalogue entry {name!r}: {error}") from error
    return entry


def _check(entry: Entry) -> None:
    """Raise `ValueError` for what the types cannot say."""
    if not _NAME.fullmatch(entry.name):
        raise ValueError("a name is lower-case letters, digits, '.', '_' and '-'")
    if entry.sha256 is not None and not _SHA256.fullmatch(entry.sha256):
        raise ValueError(f"sha256 {entry.sha256!r} is not 64 lower-case hexadecimal digits")
    if entry.size_bytes <= 0 or entry.context_tokens <= 0:
        raise ValueError("size_bytes and context_tokens must be positive")
    if not entry.sources:
        raise ValueError("sources is empty")
    wheels = [source for source in entry.sources if isinstance(source, WheelFile)]
    if wheels and entry.sha256 is None:
        raise ValueError("a package source needs a sha256")
    if entry.sha256 is not None and not entry.size_exact:
        raise ValueError("a sha256 goes with an exact size")
    for source in wheels:
        if source.parts < 1 or (source.parts > 1 and "{n}" not in source.packages):
            raise ValueError(f"parts = {source.parts} needs packages with {{n}}, and at least 1")


def _numbered(pattern: str, number: int) -> str:
    return pattern.replace("{nn}", f"{number:02d}").replace("{n}", str(number))
