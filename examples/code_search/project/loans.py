"""Lending books, and taking them back."""

from catalog import Book
from fees import late_fee

MAX_LOANS = 6
LOAN_DAYS = 21


class TooManyLoans(Exception):
    """A reader who has reached the limit wants one more."""


class AlreadyRenewed(Exception):
    """A loan can be renewed once."""


def lend(book: Book, loans: list[Book]) -> None:
    """Lend a book to a reader who has these loans."""
    if len(loans) >= MAX_LOANS:
        raise TooManyLoans(book.title)
    book.is_lent = True
    loans.append(book)


def renew(num_renewals: int) -> int:
    """How many days a loan gets on top."""
    if num_renewals > 0:
        raise AlreadyRenewed
    return LOAN_DAYS


def take_back(book: Book, loans: list[Book], days: int) -> int:
    """Take a book back. The fee in cents."""
    loans.remove(book)
    book.is_lent = False
    return late_fee(days - LOAN_DAYS)
