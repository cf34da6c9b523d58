"""The people who borrow books."""

from dataclasses import dataclass, field

from catalog import Book

MIN_AGE = 6


@dataclass
class Reader:
    name: str
    age: int
    loans: list[Book] = field(default_factory=list)


def may_join(age: int) -> bool:
    """Whether somebody of this age may have a card."""
    return age >= MIN_AGE
