"""What `daneel doctor` has found out of a server, as far as a run makes use of it. Kept in the user's configuration directory.

A profile belongs to one address and one model, because half of what it says is the model's doing.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import msgspec
import platformdirs

from daneel.errors import UserError
from daneel.harness.run_record import JsonObject

VERSION = 1
MAX_FILE_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True)
class ServerProfile:
    """None, or an empty list, where nothing is known: then a run does what it does with any server."""

    server: str = ""
    """The base of its routes."""
    model: str = ""
    probed_at: str = ""
    result_style: Literal["native", "plain"] | None = None
    """The form of tool results with which the model was seen to finish."""
    tool_choice: dict[str, bool] = field(default_factory=dict)
    """"none", "required", "named": whether it is honoured."""
    template_variables: bool | None = None
    """Whether `chat_template_kwargs` has an effect."""
    reasoning_field: str | None = None
    context_tokens: int | None = None

    def refused_changes(self) -> set[str]:
        """Names of changes to a request that are not worth trying; see `next_request.Changes`."""
        known = self.tool_choice
        return {"tool_choice"} if {"required", "named"} <= known.keys() and not any(known.values()) else set()

    def wants_plain(self, tool_result_style: str) -> bool:
        """Whether results go as plain messages, given what the harness says."""
        return tool_result_style == "plain" or (tool_result_style == "auto" and self.result_style == "plain")

    def effects(self, tool_result_style: str) -> list[str]:
        """What a run does otherwise for this profile, in words."""
        plain = self.wants_plain(tool_result_style) and tool_result_style == "auto"
        found = [(plain, "results go as plain messages"), (bool(self.refused_changes()), "no tool_choice is tried")]
        return [words for applies, words in found if applies]


def profile_of(client: Any) -> ServerProfile:
    """What is known of the server that a client asks now; an empty profile when that is nothing."""
    profile = getattr(client, "profile", None)
    if isinstance(profile, ServerProfile) and profile.server == getattr(client, "base_url", None):
        return profile
    return ServerProfile()


def folder() -> Path:
    """Where profiles are: `servers` in DANEEL_CONFIG_DIR, or else in the user's configuration directory."""
    base = os.environ.get("DANEEL_CONFIG_DIR") or platformdirs.user_config_dir("daneel", appauthor=False)
    return Path(base) / "servers"


def path_of(server: str, model: str) -> Path:
    """The file for this address and model."""
    readable = re.sub(r"[^A-Za-z0-9.]+", "-", server.partition("://")[2]).strip("-.")[:60]
    digest = hashlib.sha256(f"{server}\n{model}".encode()).hexdigest()[:12]
    return folder() / f"{readable or 'server'}-{digest}.json"


def save(profile: ServerProfile, report: JsonObject) -> Path:
    """Keep a profile, with the whole report beside it. Whole or not at all. Raises UserError."""
    path = path_of(profile.server, profile.model)
    text = json.dumps({"version": VERSION, "profile": asdict(profile), "report": report}, indent=2, default=str)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, suffix=".new", delete=False) as file:
            file.write(text + "\n")
        Path(file.name).replace(path)
    except OSError as error:
        raise UserError(f"the profile {path} cannot be written: {error.strerror or error}") from error
    return path


def find(server: str, model: str) -> ServerProfile | None:
    """The profile of this address and model, or None. Raises UserError for a file that is not one."""
    path = path_of(server, model)
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UserError(f"the profile {path} cannot be read: {error.strerror or error}") from error
    try:
        kept = json.loads(data)
        if kept["version"] != VERSION:
            return None  # written by another version of daneel: what it knew is found out again when somebody asks
        profile = msgspec.convert(kept["profile"], ServerProfile)
    except (ValueError, TypeError, KeyError, msgspec.ValidationError) as error:
        raise UserError(f"{path} is not a profile: {error}; remove it, or run `daneel doctor` again") from error
    return profile if (profile.server, profile.model) == (server, model) else None
