"""What reading a generation costs: the splitter, fed a long tool call in pieces of one token's size.

For each family, a call whose argument has 100,000 characters and one of 1,000 are fed in pieces of 1, 4 and 64 characters.
The arms take turns in one run, and the best of a few rounds counts, so that a busy machine disturbs them alike.

The figure that matters is long:short, the cost of a piece in the long call over that in the short one. It is about 1 when a
piece costs the same however much came before, and would be about 100 if each piece looked at the whole call again.
Times are this machine's, now, and compare with nothing else. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import platform
import time

from daneel.formats.base import CallEvent, Tool
from daneel.formats.family import Family
from daneel.formats.registry import FAMILIES

LONG_CHARS, SHORT_CHARS = 100_000, 1_000
PIECE_CHARS = (1, 4, 64)
TOOLS = [Tool("write_file", "", {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]})]
PROSE = 'for line in lines:\n    total += parse(line)  # {braces}, <tags> and "quotes" as code has them\n'


def call_of(family: Family, num_chars: int) -> str:
    """A call of `write_file` as the family writes it, with `num_chars` characters of text in it."""
    text = (PROSE * (num_chars // len(PROSE) + 1))[:num_chars]
    return family.write_call("write_file", json.dumps({"text": text}))


def seconds_per_piece(family: Family, written: str, piece_chars: int) -> float:
    """Feed `written` once. Raises SystemExit when it is not read as the call that it is: then a time would mean nothing."""
    pieces = [written[start : start + piece_chars] for start in range(0, len(written), piece_chars)]
    parser = family.parser(TOOLS)
    started = time.perf_counter()
    events = [event for piece in pieces for event in parser.feed(piece)]
    events += parser.finish(truncated=False)
    elapsed_s = time.perf_counter() - started
    if [event.name for event in events if isinstance(event, CallEvent)] != ["write_file"]:
        raise SystemExit(f"{family.name}: the call was not read as one")
    return elapsed_s / len(pieces)


def main() -> None:
    options = argparse.ArgumentParser(description="What the splitter costs per piece.")
    options.add_argument("--rounds", type=int, default=3)
    rounds = options.parse_args().rounds
    families = list(FAMILIES.values())
    arms = {
        (family.name, size, piece): (family, call_of(family, size), piece)
        for family in families
        for size in (LONG_CHARS, SHORT_CHARS)
        for piece in PIECE_CHARS
    }
    best = dict.fromkeys(arms, float("inf"))
    for _ in range(rounds):
        for arm, (family, written, piece) in arms.items():
            repeats = 1 if arm[1] == LONG_CHARS else 20
            for _ in range(repeats):
                best[arm] = min(best[arm], seconds_per_piece(family, written, piece))
    rows = [
        {
            "format": family.name,
            "piece_chars": piece,
            "us_per_piece": round(best[family.name, LONG_CHARS, piece] * 1e6, 3),
            "long_to_short": round(best[family.name, LONG_CHARS, piece] / best[family.name, SHORT_CHARS, piece], 2),
        }
        for family in families
        for piece in PIECE_CHARS
    ]
    print(f"{'format':<10}{'piece':>8}{'us/piece':>12}{'long:short':>12}")
    for row in rows:
        print(f"{row['format']:<10}{row['piece_chars']:>8}{row['us_per_piece']:>12.2f}{row['long_to_short']:>12.2f}")
    print(json.dumps({"benchmark": "parse", "rounds": rounds, "python": platform.python_version(), "rows": rows}))


if __name__ == "__main__":
    main()
