"""A package index in a folder, with wheels of a few bytes, that the real pip reads through `file://`."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path


def make_wheel(folder: Path, package: str, version: str, members: dict[str, bytes]) -> Path:
    """A wheel that pip accepts, holding `members`."""
    stem = f"{package.replace('-', '_')}-{version}"
    path = folder / f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
        archive.writestr(f"{stem}.dist-info/METADATA", metadata(package, version))
        archive.writestr(
            f"{stem}.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{stem}.dist-info/RECORD", "")
    return path


def metadata(package: str, version: str) -> str:
    """The METADATA file."""
    return f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n"


def make_index(folder: Path, wheels: list[Path], base_url: str | None = None) -> str:
    """The URL of an index of `wheels`; they are linked at `base_url` (with their metadata beside them) or as files."""
    for wheel in wheels:
        package, version = wheel.name.split("-")[:2]
        page = folder / "simple" / package.replace("_", "-")
        page.mkdir(parents=True)
        link = f"{base_url}/{wheel.name}" if base_url else wheel.as_uri()
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        about = hashlib.sha256(metadata(package.replace("_", "-"), version).encode()).hexdigest()
        # the second name is the one that older pips know (PEP 658 before its correction)
        names = ("data-core-metadata", "data-dist-info-metadata") if base_url else ()
        attributes = "".join(f' {name}="sha256={about}"' for name in names)
        (page / "index.html").write_text(
            f'<!DOCTYPE html><html><body><a href="{link}#sha256={digest}"{attributes}>{wheel.name}</a></body></html>'
        )
    return (folder / "simple").as_uri()
