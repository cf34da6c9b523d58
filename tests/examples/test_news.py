"""The news brief: feeds of both kinds, hostile ones, and the goal's check."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.file_server import FileServer, Served
from tests.support.scripted_server import Reply, ScriptedServer, calls, text
from typer.testing import CliRunner

from daneel.cli.main import app
from daneel.harness.files import execute, load
from daneel.harness.raised import ToolFailure
from daneel.harness.run_record import CallRecord, Run, RunUsage

NEWS = Path(__file__).resolve().parents[2] / "examples" / "news.py"
NOW = datetime.now(UTC)
OLD = NOW - timedelta(days=5)


def rss(*items: tuple[str, str, datetime]) -> bytes:
    told = "".join(
        f"<item><title>{title}</title><description>{said}</description><pubDate>{format_datetime(at)}</pubDate></item>"
        for title, said, at in items
    )
    return f'<?xml version="1.0"?><rss version="2.0"><channel><title>Feed</title>{told}</channel></rss>'.encode()


def atom(*entries: tuple[str, str, datetime]) -> bytes:
    told = "".join(
        f'<entry><title type="html">{title}</title><summary>{said}</summary><updated>{at.isoformat()}</updated></entry>'
        for title, said, at in entries
    )
    return f'<feed xmlns="http://www.w3.org/2005/Atom"><title>Feed</title>{told}</feed>'.encode()


WORLD = rss(
    ("Volcano erupts on Iceland peninsula", "&lt;p&gt;Lava &amp;amp; smoke over the town.&lt;/p&gt;", NOW),
    ("Chess champion keeps title", "A draw was enough.", NOW - timedelta(hours=3)),
    ("Last week's storm", "It is over.", OLD),
)
SCIENCE = atom(
    ("Iceland peninsula volcano erupts again", "Scientists had warned.", NOW - timedelta(hours=1)),
    ("Comet visible from Thursday", "Look &lt;b&gt;north&lt;/b&gt;.", NOW - timedelta(hours=2)),
)


@pytest.fixture(scope="module")
def news() -> Any:
    return execute(NEWS)


@pytest.fixture
def feeds(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Serve feeds, and name them in the environment."""
    with FileServer({}) as server:

        def name(*contents: bytes | Served, more: str = "") -> FileServer:
            server.files = {f"/{n}": c if isinstance(c, Served) else Served(c) for n, c in enumerate(contents)}
            monkeypatch.setenv("NEWS_FEEDS", " ".join([f"{server.url}{path}" for path in server.files] + [more]))
            return server

        yield name


def test_stories_since_yesterday_those_of_several_feeds_first(news: Any, feeds: Any) -> None:
    feeds(WORLD, SCIENCE)
    lines = news.read_news.function().splitlines()
    assert lines[0].startswith("3 of 3 stories since ")
    assert lines[1:] == [
        "1. Volcano erupts on Iceland peninsula. Lava & smoke over the town. (2 feeds)",
        "2. Comet visible from Thursday. Look north.",
        "3. Chess champion keeps title. A draw was enough.",
    ]


def test_a_feed_that_fails_is_said_beside_the_others(news: Any, feeds: Any) -> None:
    server = feeds(WORLD, Served(b"gone", status=404), b"<html></html>", more="file:///etc/passwd http://127.0.0.1:9/")
    lines = news.read_news.function().splitlines()
    assert lines[0].startswith("2 of 2 stories")
    problems = [line for line in lines if line.startswith("One feed could not be read: ")]
    assert [problem.partition("read: ")[2].partition(": ")[0] for problem in problems] == [
        f"{server.url}/1", f"{server.url}/2", "file:///etc/passwd", "http://127.0.0.1:9/",
    ]  # fmt: skip
    assert "must begin with http" in problems[2]


def test_no_feed_at_all_is_an_error_that_says_what_to_do(news: Any, feeds: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    feeds(b"<rss")
    with pytest.raises(ToolFailure, match=r"No feed could be read\. .*not well-formed"):
        news.read_news.function()
    monkeypatch.setenv("NEWS_FEEDS", " ")
    with pytest.raises(ToolFailure, match="NEWS_FEEDS must hold"):
        news.read_news.function()


BOMB = (
    b'<!DOCTYPE rss [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;">]><rss><channel><item><title>&b;</title></item></channel></rss>'
)
FILE = b'<!DOCTYPE rss [<!ENTITY x SYSTEM "file:///etc/passwd">]><rss><channel><item><title>&x;</title></item></channel></rss>'


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (BOMB, "document type"),
        (FILE, "document type"),
        (b"<rss>" + b"<a>" * 100_000, "nested"),
        (b"<rss><item><title>&undefined;</title></item></rss>", "not well-formed"),
        (b"", "not well-formed"),
        (b"<rss><channel>", "not well-formed"),
        (b"\x00\x01", "not well-formed"),
        (b'<?xml version="1.0" encoding="no-such"?><rss/>', "not well-formed"),
        (b"<html><item><title>x</title></item></html>", "neither RSS nor Atom"),
    ],
)
def test_hostile_feeds_are_refused(news: Any, data: bytes, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        news.parse(data)


def test_a_feed_without_end_is_left(news: Any, feeds: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(news, "FEED_TIMEOUT_S", 0.3)
    feeds(b"<rss>" + b" " * 3_000_000, Served(WORLD, cut_after=100, hold=True))
    with pytest.raises(ToolFailure, match=r"longer than 2000000 bytes.*timed out"):
        news.read_news.function()


def test_many_and_long_stories_are_bounded(news: Any, feeds: Any) -> None:
    word = "immeasurable "
    feeds(rss(*((f"Number{n} unlike{n} story{n} " + word * 20, word * 300, NOW) for n in range(300))))
    read = news.read_news.function()
    assert len(read.splitlines()) == news.MAX_STORIES + 1
    assert len(read) < 12 * (news.TITLE_CHARS + news.SUMMARY_CHARS + 20)


@given(st.binary(max_size=300) | st.text(alphabet="<>/ =\"'&;!abitemrsfd[]-?", max_size=120).map(str.encode))
def test_any_bytes_are_a_feed_or_a_value_error(data: bytes) -> None:
    news = execute(NEWS)
    for given_bytes in (data, b"<rss>" + data + b"</rss>"):
        with contextlib.suppress(ValueError):
            news.parse(given_bytes)


@pytest.mark.parametrize(
    "written",
    ["Mon, 30 Nov 2026 08:00:00 +0000", "2026-11-30T08:00:00Z", "2026-11-30T09:00:00+01:00", "Mon, 30 Nov 2026 08:00 GMT"],
)
def test_dates(news: Any, written: str) -> None:
    assert news.when(written) == datetime(2026, 11, 30, 8, tzinfo=UTC)
    assert news.when("yesterday-ish") is None
    assert news.when("2026-11-30T99:00:00Z") is None


def test_the_check(news: Any) -> None:
    goal = load(NEWS).goals["brief"]
    read = (
        "3 of 3 stories since Sunday:\n1. Volcano erupts on Iceland. Lava.\n2. Comet visible Thursday.\n3. Chess champion wins."
    )

    def judged(answer: str, result: str | None = read) -> bool:
        made = [CallRecord("read_news", {}, result=result)]
        return goal(Run("r", "answered", answer, 2, made, RunUsage(), [], []))

    assert judged("A volcano erupts on Iceland.\nA comet is visible on Thursday.\nThe chess champion wins.")
    assert not judged("A comet is visible on Thursday.\nA volcano erupts on Iceland.\nThe chess champion wins.")
    assert not judged("A volcano erupts on Iceland.")
    assert not judged("Nothing happened.")
    assert not judged("A volcano erupts on Iceland.", None)
    assert judged("There is no news today.", "There is no news.")


def newsreader(request: dict[str, Any]) -> Reply:
    """A model that reads the news, and gives back the stories' lines."""
    last = request["messages"][-1]
    if last["role"] != "tool":
        return calls(("read_news", {}))
    return text("\n".join(line for line in last["content"].splitlines() if line[:1].isdigit() and ". " in line))


def test_the_brief_every_morning(feeds: Any, tmp_path: Path) -> None:
    """The line of the schedulers' examples, with a command that keeps what it is given."""
    feeds(WORLD, SCIENCE)
    kept = tmp_path / "brief.txt"
    command = f"'{sys.executable}' -c 'import sys; open(sys.argv[1], \"w\").write(sys.stdin.read())' '{kept}'"
    with ScriptedServer(newsreader) as server:
        line = ["run", str(NEWS), "--goal", "brief", "--server", server.url, "--no-overlap", "--json", "--then", command]
        result = CliRunner().invoke(app, line)
    record = json.loads(result.stdout)
    assert (result.exit_code, record["achieved"], record["stop_reason"]) == (0, True, "answered")
    assert kept.read_text().startswith("1. Volcano erupts on Iceland peninsula.")
