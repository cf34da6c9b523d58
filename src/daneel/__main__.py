"""`daneel` and `python -m daneel`. Everything is imported within, so that Ctrl-C during that half second is no traceback."""

from __future__ import annotations

import sys


def main() -> None:
    """Entry point of the `daneel` script."""
    try:
        from daneel.cli.main import main as run

        run()
    except KeyboardInterrupt:
        print("daneel: interrupted", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
