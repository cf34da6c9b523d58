"""What reading a generation costs: every family's parser, fed a `write_file` call of a megabyte in pieces of one token's size.

    python bench/parse.py [--families NAME…] [--rounds N] [--quick]

For each family, calls whose text has 1,000,000 and 10,000 characters are fed in pieces of 1, 4 and 64 characters. The arms
take turns in one run and the best of a few rounds counts, so that a busy machine disturbs them alike. Times are CPU time.

`us/piece` is the cost of a piece in the long call. `long:short`, that cost over the one in the short call, is the figure that
matters: about 1 when a piece costs the same however much came before, about 100 if each looked at the whole call again.

Where `mlx-lm` is installed, its parsers read the same long call, for the formats it has. They are given the finished call at
once, since they do not read streams; ours is given pieces of 4 characters. Times are this machine's, now, and compare with
nothing else. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import platform
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from daneel.formats.base import CallEvent, Tool
from daneel.formats.family import Family
from daneel.formats.registry import FAMILIES

LONG_CHARS, SHORT_CHARS = 1_000_000, 10_000
PIECE_CHARS = (1, 4, 64)
LIMIT_US, LIMIT_RATIO = 15.0, 1.2
SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
TOOLS = [Tool("write_file", "", SCHEMA)]
PROSE = 'for line in lines:\n    total += parse(line)  # {braces}, commas; and "quotes" as code has them\n'
PEERS = {
    "gemma4": "gemma4",
    "functiongemma": "function_gemma",
    "glm4.7": "glm47",
    "hermes": "json_tools",
    "kimi-k2": "kimi_k2",
    "longcat": "longcat",
    "minimax-m2": "minimax_m2",
    "mistral": "mistral",
    "qwen3-coder": "qwen3_coder",
}
"""Our family, and the file of mlx-lm that reads its calls."""


def call_of(family: Family, num_chars: int) -> str:
    """A call of `write_file` as the family writes it, with `num_chars` characters of text in it."""
    text = (PROSE * (num_chars // len(PROSE) + 1))[:num_chars].strip()
    return family.write_calls([("write_file", json.dumps({"text": text}))])


def us_per_piece(family: Family, written: str, piece_chars: int) -> float:
    """Feed `written` once. SystemExit when it is not read as the call that it is: then a time would mean nothing."""
    pieces = [written[start : start + piece_chars] for start in range(0, len(written), piece_chars)]
    parser = family.parser(TOOLS)
    started = time.process_time()
    events = [event for piece in pieces for event in parser.feed(piece)]
    events += parser.finish(truncated=False)
    elapsed_s = time.process_time() - started
    if [event.name for event in events if isinstance(event, CallEvent)] != ["write_file"]:
        raise SystemExit(f"{family.name}: the call was not read as one")
    return elapsed_s / len(pieces) * 1e6


def ours(families: list[Family], rounds: int, long_chars: int) -> list[dict[str, Any]]:
    """The rows of the table."""
    arms = [(family, size, piece) for family in families for size in (long_chars, SHORT_CHARS) for piece in PIECE_CHARS]
    best = {(family.name, size, piece): float("inf") for family, size, piece in arms}
    for _ in range(rounds):
        for family, size, piece in arms:
            written = call_of(family, size)
            for _ in range(1 if size == long_chars else 5):
                key = family.name, size, piece
                best[key] = min(best[key], us_per_piece(family, written, piece))
    return [
        {
            "format": family.name,
            "piece_chars": piece,
            "us_per_piece": round(best[family.name, long_chars, piece], 3),
            "long_to_short": round(best[family.name, long_chars, piece] / best[family.name, SHORT_CHARS, piece], 2),
        }
        for family in families
        for piece in PIECE_CHARS
    ]


def peers(families: list[Family], rounds: int, long_chars: int) -> Iterator[dict[str, Any]]:
    """One row for each format that mlx-lm reads, too: the seconds both take for the long call."""
    for family in families:
        parse = _mlx_parser(PEERS.get(family.name))
        if parse is None:
            continue
        written = call_of(family, long_chars)
        call = family.call
        body = written.removeprefix(call.open).removesuffix(call.close)
        mine, theirs, outcome = float("inf"), float("inf"), "read"
        for _ in range(rounds):
            mine = min(mine, us_per_piece(family, written, 4) * len(written) / 4e6)
            started = time.process_time()
            try:
                parse(body, [{"type": "function", "function": {"name": "write_file", "parameters": SCHEMA}}])
            except Exception as error:  # noqa: BLE001 - a peer's parser may raise anything
                outcome = f"{type(error).__name__}"
            theirs = min(theirs, time.process_time() - started)
        yield {"format": family.name, "ours_streamed_s": round(mine, 4), "mlx_lm_whole_s": round(theirs, 4), "mlx_lm": outcome}


def _mlx_parser(name: str | None) -> Callable[..., Any] | None:
    """`parse_tool_call` of one of mlx-lm's parsers, loaded by itself: the package would load its engine."""
    found = importlib.util.find_spec("mlx_lm") if name else None
    if found is None or not found.submodule_search_locations:
        return None
    path = Path(found.submodule_search_locations[0]) / "tool_parsers" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"mlx_lm_tool_parser_{name}", path)
    if not path.exists() or spec is None or spec.loader is None:
        return None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except ImportError:
        return None
    parser: Callable[..., Any] | None = getattr(module, "parse_tool_call", None)
    return parser


def main() -> None:
    options = argparse.ArgumentParser(description="What the parsers cost per piece.")
    options.add_argument("--families", nargs="*", default=sorted(FAMILIES), metavar="NAME")
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--quick", action="store_true", help="a long call of 200,000 characters, one round")
    chosen = options.parse_args()
    families = [FAMILIES[name] for name in chosen.families if FAMILIES[name].call.closes or FAMILIES[name].call.opens]
    rounds, long_chars = (1, 200_000) if chosen.quick else (chosen.rounds, LONG_CHARS)
    rows = ours(families, rounds, long_chars)
    print(f"{'format':<20}{'piece':>8}{'us/piece':>12}{'long:short':>12}")
    for row in rows:
        over = row["us_per_piece"] > LIMIT_US or row["long_to_short"] > LIMIT_RATIO
        figures = f"{row['piece_chars']:>8}{row['us_per_piece']:>12.2f}{row['long_to_short']:>12.2f}"
        print(f"{row['format']:<20}{figures}{'  over' if over else ''}")
    compared = list(peers(families, rounds, long_chars))
    for row in compared:
        print(f"{row['format']:<20}ours, streamed {row['ours_streamed_s']:.3f} s; mlx-lm, whole {row['mlx_lm_whole_s']:.3f} s")
    worst = {
        "us_per_piece": max(row["us_per_piece"] for row in rows),
        "long_to_short": max(row["long_to_short"] for row in rows),
    }
    result = {"benchmark": "parse", "long_chars": long_chars, "rounds": rounds, "python": platform.python_version()}
    print(json.dumps({**result, "worst": worst, "rows": rows, "peers": compared}))


if __name__ == "__main__":
    main()
