"""The keys of `daneel serve`: from the command line, the environment and files, checked before anything is loaded."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from daneel.cli.values import read_text
from daneel.errors import UserError

if TYPE_CHECKING:
    from daneel.server.auth import KeyRing

KEY_VARIABLE = "DANEEL_API_KEY"


def read_key_ring(api_key: str | None, key_files: Sequence[Path], admin_key_files: Sequence[Path]) -> KeyRing:
    """All keys there are. With any, the server's secret is read, or made. Raises `UserError`, without any key in it."""
    from daneel.server.auth import KeyRing
    from daneel.server.models.pull import models_dir
    from daneel.server.secret import read_or_make_secret

    keys = [_checked(api_key)] if api_key is not None else []
    for path in key_files:
        keys += _keys_in("--key-file", path)
    admin_keys = [key for path in admin_key_files for key in _keys_in("--admin-key-file", path)]
    if not keys:
        return KeyRing(admin_keys=admin_keys)
    return KeyRing(keys, admin_keys=admin_keys, secret=read_or_make_secret(models_dir().parent / "server.secret"))


def _checked(api_key: str) -> str:
    if not api_key.strip():
        raise UserError(f"the API key is empty; leave out --api-key and {KEY_VARIABLE} to serve without one")
    if not re.fullmatch("[!-~]+", api_key):
        raise UserError("the API key may hold only visible ASCII characters and no spaces: clients send it in a header")
    return api_key


def _keys_in(option: str, path: Path) -> list[str]:
    keys = []
    for number, line in enumerate(read_text(option, path).splitlines(), 1):
        key = line.strip()
        if key.startswith("# ") or key in ("", "#"):
            continue
        if not re.fullmatch("[!-~]+", key):
            raise UserError(f"{option}: line {number} of {path} may hold only visible ASCII characters and no spaces: a key")
        keys.append(key)
    if not keys:
        raise UserError(f"{option}: {path} holds no key; it must have one in each line")
    return keys
