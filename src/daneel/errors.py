"""The one exception every floor may raise when the person at the terminal can put it right.

The command line prints its message as one sentence and exits with 2; no traceback.
"""

from __future__ import annotations


class UserError(Exception):
    """Bad input from a person: a file, a flag, a name. The message says what is wrong and what to do."""
