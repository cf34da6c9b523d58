"""What `daneel run` and `daneel measure` share: their server, their transcripts, a standard output that is theirs alone."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stdout
from io import UnsupportedOperation
from typing import Any, TextIO

from daneel.cli.local_server import LocalServer
from daneel.cli.server_options import DEFAULT_SERVER, Door
from daneel.errors import UserError
from daneel.harness import server_profile
from daneel.harness.client import Client, ClientError, ServerUnreachable
from daneel.harness.server_profile import ServerProfile
from daneel.harness.transcript import ByteKeeper, LabelledStore, TranscriptStore

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it: 128 + SIGINT."""


def connect(
    stack: ExitStack, *, server: Sequence[str] | str | None, serve: str | None, model: str | None, door: Door | None = None
) -> tuple[Client, str]:
    """A client with a server that has answered once, and its URL. A server of our own, if one is wanted, lives as long as
    `stack`.

    Raises UserError when no server can be started or reached, or the one that answers refuses the key or has no model.
    """
    door = door or Door()
    servers = [server] if isinstance(server, str) else list(server or [])
    if servers and serve is not None:
        raise UserError("--server and --serve exclude each other: one names a running server, the other starts one")
    keys = door.read_keys()
    if serve is not None:
        servers = [stack.enter_context(LocalServer(serve))]
    given, servers = bool(servers), servers or [DEFAULT_SERVER]
    client = stack.enter_context(
        Client(servers, api_key=keys, model=model, ca_cert=door.ca_cert, insecure_http=door.insecure_http)
    )
    try:
        _ = client.is_daneel, client.model
    except ServerUnreachable as error:
        hint = "" if given else "; start one with `daneel serve MODEL`, or give --serve MODEL or --server URL"
        raise UserError(f"{error}{hint}") from error
    except ClientError as error:
        raise UserError(str(error)) from error
    client.profile = _profile(client)
    return client, client.server


def _profile(client: Client) -> ServerProfile | None:
    """What `daneel doctor` has found out of this server and model, if anybody has asked it."""
    try:
        return server_profile.find(client.base_url, client.model)
    except UserError as error:
        print(f"daneel: {error}; it goes on without", file=sys.stderr)
        return None


def open_transcripts(stack: ExitStack, labels: dict[str, Any], *, bytes_of: Client | None = None) -> LabelledStore | None:
    """The store of transcripts, or None, said once, when it cannot be opened: a full disk is no reason not to answer.

    `bytes_of`: what this client's server sends is kept as well, byte for byte.
    """
    try:
        store = stack.enter_context(TranscriptStore())
    except UserError as error:
        print(f"daneel: {error}; it goes on without transcripts", file=sys.stderr)
        return None
    keeper = ByteKeeper() if bytes_of is not None else None
    if bytes_of is not None and keeper is not None:
        bytes_of.tap(keeper.add)
    return LabelledStore(store, labels, keeper)


@contextmanager
def clean_stdout(wanted: bool) -> Iterator[TextIO]:
    """With --json: the real standard output, while whatever tools and their programs print goes to standard error."""
    if not wanted:
        yield sys.stdout
        return
    try:
        number = sys.stdout.fileno()
    except (OSError, UnsupportedOperation):  # no real file, as in tests
        out = sys.stdout
        with redirect_stdout(sys.stderr):
            yield out
        return
    sys.stdout.flush()
    kept = os.dup(number)
    os.dup2(sys.stderr.fileno(), number)
    try:
        with os.fdopen(os.dup(kept), "w", encoding="utf-8") as out, redirect_stdout(sys.stderr):
            yield out
    finally:
        os.dup2(kept, number)
        os.close(kept)
