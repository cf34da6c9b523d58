"""`python -m daneel`: the same as the `daneel` script."""

from __future__ import annotations

from daneel.cli.main import main

if __name__ == "__main__":
    main()
