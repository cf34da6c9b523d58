"""Fetching one page of the open internet: resolved once, the address pinned, private addresses refused, size and time bounded.

Redirects are followed on the same host only. One that leads to another host is told instead: a call with that address passes
the guard like any other, so no redirect can lead around a rule about hosts.
"""

from __future__ import annotations

import http.client
import re
import socket
import ssl
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import SplitResult, quote, urljoin, urlsplit

from daneel.harness.progress import ProgressWatch
from daneel.harness.raised import ToolFailure
from daneel.harness.safety.addresses import Resolver, is_public, pinned, resolve
from daneel.harness.safety.patterns import plain_host

MAX_URL_CHARS = 4000
MAX_REDIRECTS = 5
USER_AGENT = "daneel/0.1 (an agent; text only)"


@dataclass(frozen=True, kw_only=True)
class FetchLimits:
    """How much one fetch may take."""

    timeout_s: float = 20.0
    max_bytes: int = 2_000_000


@dataclass(frozen=True, slots=True)
class Page:
    """What came back. `is_cut`: there was more than may be read, or than came."""

    url: str
    status: int
    content_type: str
    charset: str | None
    body: bytes
    is_cut: bool = False

    def text(self) -> str:
        """The body as text: in its own encoding, or the likely one."""
        for encoding in (self.charset, "utf-8"):
            try:
                if encoding:
                    return self.body.decode(encoding, "replace" if encoding == self.charset or self.is_cut else "strict")
            except (LookupError, UnicodeDecodeError):
                continue
        return self.body.decode("latin-1")


@dataclass(frozen=True)
class Fetcher:
    """Fetches pages. `resolver` and `is_allowed` are for tests, which have no internet: leave them alone elsewhere."""

    limits: FetchLimits = field(default_factory=FetchLimits)
    resolver: Resolver = resolve
    is_allowed: Callable[[str], bool] = is_public
    tls: Callable[[], ssl.SSLContext] = ssl.create_default_context

    def get(self, url: str) -> Page:
        """The page at `url`. Raises ToolFailure, in words for the model."""
        end_at = time.monotonic() + self.limits.timeout_s
        target = parse(url)
        address: tuple[str, int, str] | None = None
        for _ in range(MAX_REDIRECTS + 1):
            host, port = str(target.hostname), target.port or _PORTS[target.scheme]
            if address is None or address[:2] != (host, port):
                address = host, port, pinned(host, port, resolver=self.resolver, is_allowed=self.is_allowed)
            answer = self._request(target, port, address[2], end_at)
            if isinstance(answer, Page):
                return answer
            following = parse(urljoin(target.geturl(), answer))
            moved_port = (port, following.port or _PORTS[following.scheme])
            if plain_host(str(following.hostname)) != plain_host(host) or moved_port not in ((port, port), (80, 443)):
                raise ToolFailure(
                    f"the page has moved to another host, {following.hostname}. To go there, call this tool with url "
                    f"{ascii(following.geturl())[1:-1][:500]}"
                )
            target = following
        raise ToolFailure(f"the page redirects more than {MAX_REDIRECTS} times; try another address")

    def _request(self, target: SplitResult, port: int, address: str, end_at: float) -> Page | str:
        """One request to the pinned address: the page, or where it redirects to."""
        left_s = end_at - time.monotonic()
        host = str(target.hostname)
        if left_s <= 0:
            raise ToolFailure(f"{host} did not answer within {self.limits.timeout_s:g} s; try again later")
        watch: ProgressWatch | None = None
        try:
            connection = socket.create_connection((address, port), timeout=left_s)
            try:
                # A server may send a byte a second for ever: at the deadline the socket is shut down. By a copy of its
                # descriptor, since wrapping it in TLS takes the first one away.
                with connection.dup() as copy, ProgressWatch(copy, stall_s=self.limits.timeout_s, end_at=end_at) as watch:
                    if target.scheme == "https":
                        connection = self.tls().wrap_socket(connection, server_hostname=host)
                    answer = _exchange(connection, target, self.limits.max_bytes)
                if watch.fired:  # a connection that was shut down reads as one that ended
                    raise TimeoutError
                return answer
            finally:
                connection.close()
        except ssl.SSLCertVerificationError as error:
            raise ToolFailure(f"{host} has no valid certificate ({error.verify_message}); it was not read") from error
        except (OSError, http.client.HTTPException, zlib.error, ValueError) as error:
            if isinstance(error, TimeoutError) or (watch is not None and watch.fired):
                raise ToolFailure(f"{host} did not answer within {self.limits.timeout_s:g} s; try again later") from error
            raise ToolFailure(f"{host} could not be read ({type(error).__name__}); check the address or try another") from error


_PORTS = {"http": 80, "https": 443}
_HOST = re.compile(r"[A-Za-z0-9._\-]{1,253}|[0-9A-Fa-f:.]{2,45}(?:%[A-Za-z0-9]{1,20})?")


def parse(url: str) -> SplitResult:
    """A URL that can be fetched, taken apart. Raises ToolFailure."""
    url = url.strip()
    if len(url) > MAX_URL_CHARS:
        raise ToolFailure(f"the address is too long ({len(url)} characters)")
    if any(character.isspace() or not character.isprintable() for character in url):
        raise ToolFailure("the address has spaces or invisible characters; write %20 for a space")
    try:
        split = urlsplit(url)
        host, port = split.hostname, split.port
    except ValueError as error:
        raise ToolFailure("the address cannot be read; write it as https://example.org/page") from error
    if split.scheme not in _PORTS or not host:
        raise ToolFailure("only http and https addresses can be fetched, written as https://example.org/page")
    if "@" in split.netloc or "\\" in url:
        raise ToolFailure("the address holds a user name, a password or a backslash; write it without")
    if port == 0:
        raise ToolFailure("the address names port 0; leave the port out")
    try:
        ascii_host = host if ":" in host else host.encode("idna").decode("ascii")
    except UnicodeError as error:
        raise ToolFailure("the address has a host name that cannot be; check it") from error
    if not _HOST.fullmatch(ascii_host):
        raise ToolFailure("the address has a host name that cannot be; check it")
    netloc = f"[{ascii_host}]" if ":" in ascii_host else ascii_host
    path = quote(split.path or "/", safe="/%:@!$&'()*+,;=-._~")
    query = quote(split.query, safe="/%:@!$&'()*+,;=-._~?")
    return SplitResult(split.scheme, netloc + (f":{port}" if port else ""), path, query, "")


class _Pinned(http.client.HTTPConnection):
    """A connection that is there already; http.client must not look the host up again."""

    def __init__(self, host: str, sock: socket.socket) -> None:
        super().__init__(host)
        self.sock = sock

    def connect(self) -> None:
        raise OSError("the connection was closed")


def _exchange(connection: socket.socket, target: SplitResult, max_bytes: int) -> Page | str:
    client = _Pinned(target.netloc, connection)
    path = target.path + (f"?{target.query}" if target.query else "")
    client.putrequest("GET", path, skip_host=True, skip_accept_encoding=True)
    for name, value in (
        ("Host", target.netloc),
        ("User-Agent", USER_AGENT),
        ("Accept", "text/html, text/*, application/json, application/xml;q=0.9, */*;q=0.5"),
        ("Accept-Encoding", "gzip"),
        ("Connection", "close"),
    ):
        client.putheader(name, value)
    client.endheaders()
    response = client.getresponse()
    location = response.getheader("Location")
    if response.status in (301, 302, 303, 307, 308) and location:
        return location
    body = response.read(max_bytes + 1)
    is_cut = len(body) > max_bytes or bool(response.length)
    if (encoding := (response.getheader("Content-Encoding") or "identity").strip().lower()) == "gzip":
        reader = zlib.decompressobj(wbits=31)
        body = reader.decompress(body, max_bytes + 1)
        is_cut = is_cut or not reader.eof
    elif encoding not in ("identity", ""):
        raise ValueError(f"content encoding {encoding}")
    message = response.headers
    charset = message.get_content_charset()
    return Page(target.geturl(), response.status, message.get_content_type(), charset, body[:max_bytes], is_cut)
