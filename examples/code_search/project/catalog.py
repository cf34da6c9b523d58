"""The books of a small library."""

from dataclasses import dataclass


@dataclass
class Book:
    title: str
    shelf: str
    is_lent: bool = False


def find_book(books: list[Book], title: str) -> Book:
    """The book of this title."""
    for book in books:
        if book.title == title:
            return book
    raise KeyError(title)


def shelf_of(books: list[Book], title: str) -> str:
    """Where the book stands."""
    return find_book(books, title).shelf
