"""A brief of the news since yesterday, the most important story first, from RSS and Atom feeds that you name.

export NEWS_FEEDS="https://example.org/world.rss https://example.org/science.atom"
daneel run examples/news.py --goal brief --serve qwen2.5-coder-1.5b
daneel run examples/news.py --goal brief --no-overlap --then "mail -s 'The news' me" --or-else "mail -s 'No news' me"

Every morning at 8: examples/cron/, examples/systemd/, examples/launchd/.

The feeds are yours, what stands in them is anybody's: they are read within limits of time, size and depth, without document
types and entities of their own, and the model gets a few short plain lines. Only the tool decides which hosts are asked.
"""

from __future__ import annotations

import html
import os
import re
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from xml.parsers import expat

from daneel import Harness, Recovery, ToolFailure, goal, tool
from daneel.harness.safety.policy import SafetyPolicy

MAX_FEEDS = 20
MAX_FEED_BYTES = 2_000_000
FEED_TIMEOUT_S = 20.0
MAX_DEPTH = 30
MAX_STORIES_PER_FEED = 200
MAX_STORIES = 12
TITLE_CHARS = 160
SUMMARY_CHARS = 240


@dataclass
class Story:
    """One story, as one feed or several tell it."""

    title: str
    summary: str
    at: datetime | None
    feeds: int = 1


# once is enough: after that the model has no tool left to play with, and can only write
@tool(effects="network", max_calls=1, timeout_s=120)
def read_news() -> str:
    """Read the news since yesterday"""
    urls = list(dict.fromkeys(os.environ.get("NEWS_FEEDS", "").split()))[:MAX_FEEDS]
    if not urls:
        raise ToolFailure("No feeds are named. The environment variable NEWS_FEEDS must hold their addresses.")
    now = datetime.now().astimezone()
    since = (now - timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
    stories, problems = [], []
    with ThreadPoolExecutor(MAX_FEEDS) as pool:
        for url, found in zip(urls, pool.map(_stories_or_problem, urls), strict=True):
            if isinstance(found, str):
                problems.append(f"{url}: {found}")
            else:
                stories.append([story for story in found if story.at is None or since <= story.at <= now + timedelta(days=1)])
    if len(problems) == len(urls):
        raise ToolFailure("No feed could be read. " + "; ".join(problems))
    return digest(stories, since, problems)


def _stories_or_problem(url: str) -> list[Story] | str:
    try:
        return parse(fetch(url))
    except (OSError, ValueError) as error:
        return str(error) or type(error).__name__


def fetch(url: str) -> bytes:
    """The bytes of a feed, within limits of size and time."""
    if not re.match(r"https?://", url):
        raise ValueError("its address must begin with http:// or https://")
    end = time.monotonic() + FEED_TIMEOUT_S
    request = urllib.request.Request(url, headers={"User-Agent": "daneel-news", "Accept": "application/xml, */*"})
    data = bytearray()
    with urllib.request.urlopen(request, timeout=FEED_TIMEOUT_S) as response:
        while part := response.read1(65536):
            data += part
            if len(data) > MAX_FEED_BYTES:
                raise ValueError(f"it is longer than {MAX_FEED_BYTES} bytes")
            if time.monotonic() > end:
                raise ValueError(f"it did not come within {FEED_TIMEOUT_S:.0f} seconds")
    return bytes(data)


def parse(data: bytes) -> list[Story]:
    """The stories of an RSS or Atom feed. Raises ValueError for what is none, or goes beyond the limits."""
    reader = _FeedReader()
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.buffer_text = True
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.text
    # a document type brings entities, and those bring bombs and other people's files; a feed needs neither
    parser.StartDoctypeDeclHandler = reader.refuse_document_type
    try:
        parser.Parse(data, True)
    except (expat.ExpatError, LookupError) as error:  # LookupError: an encoding that nobody knows
        raise ValueError(f"it is not well-formed XML: {error}") from None
    if not reader.is_feed:
        raise ValueError("it is neither RSS nor Atom")
    return reader.stories


class _FeedReader:
    """Collects stories from the parser's events. `fields` holds the texts of the story that is open."""

    ITEMS = ("item", "entry")
    FIELDS = ("title", "description", "summary", "content", "encoded", "pubDate", "published", "updated", "date")

    def __init__(self) -> None:
        self.stories: list[Story] = []
        self.is_feed = False
        self._path: list[str] = []
        self._fields: dict[str, str] | None = None
        self._story_depth = 0

    def refuse_document_type(self, *_: object) -> None:
        raise ValueError("it has a document type of its own, which is refused")

    def start(self, name: str, attributes: dict[str, str]) -> None:
        local = name.rpartition(" ")[2]
        self._path.append(local)
        if len(self._path) > MAX_DEPTH:
            raise ValueError(f"its elements are nested more than {MAX_DEPTH} deep")
        if len(self._path) == 1:
            self.is_feed = local in ("rss", "RDF", "feed")
        if local in self.ITEMS and self._fields is None and len(self.stories) < MAX_STORIES_PER_FEED:
            self._fields, self._story_depth = {}, len(self._path)

    def text(self, data: str) -> None:
        if self._fields is None or len(self._path) <= self._story_depth:
            return
        field = self._path[self._story_depth]  # markup inside a summary belongs to it
        if field in self.FIELDS and len(self._fields.get(field, "")) < 20_000:
            self._fields[field] = self._fields.get(field, "") + data

    def end(self, name: str) -> None:
        if self._fields is not None and len(self._path) == self._story_depth:
            title = plain(self._fields.get("title", ""), TITLE_CHARS)
            texts = [self._fields.get(name, "") for name in ("description", "summary", "content", "encoded")]
            dates = [self._fields.get(name, "") for name in ("pubDate", "published", "updated", "date")]
            summary = plain(next(filter(str.strip, texts), ""), SUMMARY_CHARS)
            if title or summary:
                self.stories.append(Story(title or summary[:TITLE_CHARS], summary, when(next(filter(str.strip, dates), ""))))
            self._fields = None
        self._path.pop()


def plain(text: str, max_chars: int) -> str:
    """Text without markup, on one line, cut at a word."""
    inline = re.sub(r"</?(?:a|b|i|em|strong|span)\b[^<>]*>", "", text)
    bare = html.unescape(re.sub(r"<[^<>]*>", " ", inline))
    line = " ".join("".join(char if char.isprintable() else " " for char in bare).split())
    return line if len(line) <= max_chars else line[:max_chars].rpartition(" ")[0] + " …"


def when(text: str) -> datetime | None:
    """A date as feeds write it; None for one that cannot be read."""
    text = text.strip()[:60]
    for read in (parsedate_to_datetime, datetime.fromisoformat):
        try:
            at = read(text)
            return (at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone()
        except (ValueError, TypeError, OverflowError):
            continue
    return None


def digest(feeds: list[list[Story]], since: datetime, problems: list[str]) -> str:
    """What the model reads: what more feeds tell comes first, then what is newer."""
    merged: list[tuple[set[str], Story]] = []
    for stories in feeds:
        mine: list[tuple[set[str], Story]] = []
        for story in stories:
            words = telling_words(story.title)
            same = next((known for known_words, known in merged if alike(words, known_words)), None)
            if same is not None:
                same.feeds += 1
            elif not any(alike(words, known_words) for known_words, _ in mine):
                mine.append((words, story))
        merged += mine
    ranked = sorted(
        (story for _, story in merged), key=lambda story: (-story.feeds, -(story.at.timestamp() if story.at else 0))
    )
    shown = ranked[:MAX_STORIES]
    lines = [
        f"{len(shown)} of {len(ranked)} stories since {since:%A}, the most important first:" if shown else "There is no news."
    ]
    for number, story in enumerate(shown, start=1):
        summary = "" if not story.summary or story.summary.startswith(story.title) else f" {story.summary}"
        lines.append(f"{number}. {story.title.rstrip('.')}.{summary}{f' ({story.feeds} feeds)' if story.feeds > 1 else ''}")
    lines += [f"One feed could not be read: {problem[:200]}" for problem in problems]
    return "\n".join(lines)


def telling_words(text: str) -> set[str]:
    """Words by which a story is known again."""
    return {word for word in re.findall(r"\w+", text.lower()) if len(word) > 3}


def alike(one: set[str], other: set[str]) -> bool:
    return len(one & other) >= max(2, 0.6 * min(len(one), len(other))) if one and other else False


harness = Harness(
    tools=[read_news],
    max_turns=5,
    max_tokens=400,
    safety=SafetyPolicy(allow=["tool:read_news"]),
    recovery=Recovery(unknown_tool="There is no tool {name}. Write the news brief now, from the stories above."),
)


@goal(prompt="What is the news? Write one line for each story, the most important first.")
def brief(trial) -> bool:
    """The brief tells the first three stories that were read, or all if there are fewer, and the first of them first."""
    answer = trial.answer or ""
    read = next((call.result for call in trial.calls if call.name == "read_news" and call.result and not call.error), None)
    if read is None:
        return False
    titles = re.findall(r"^\d+\. (.+?)\. ?", read, re.MULTILINE)[:3]
    if not titles:
        return "no news" in answer.lower()
    lines = answer.splitlines()
    places = [
        next((n for n, line in enumerate(lines) if alike(telling_words(title), telling_words(line))), None) for title in titles
    ]
    return None not in places and places[0] == min(place for place in places if place is not None)
