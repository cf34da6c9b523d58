"""Goals about a SQLite database: count some rows; change one (held out).

daneel measure examples/goals/shop.py --serve qwen2.5-coder-1.5b --trials 5
"""

import sqlite3
from contextlib import closing
from pathlib import Path

from daneel import Harness, SafetyPolicy, ToolFailure, goal, tool
from daneel.bench.checks import states_number

DATABASE = "shop.db"
PRODUCTS = [("tea", 5), ("coffee", 7), ("cocoa", 8), ("sugar", 2)]
CITIES = {"Oslo": 14, "Bergen": 9, "Tromsø": 4}
CUSTOMERS = [(f"Customer {city[0]}{number}", city) for city, count in CITIES.items() for number in range(count)]
MAX_ROWS = 20
MAX_STEPS = 5_000_000
ALLOWED = {
    *(sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE),
    *(sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE, sqlite3.SQLITE_DELETE, sqlite3.SQLITE_TRANSACTION),
}
"""Rows may be read and changed. Not allowed are other files (ATTACH, VACUUM INTO), settings, and other tables."""


@tool(effects=["write"], max_result_chars=2000)  # what it reads is the shop's own, and no words of others
def run_sql(statement: str) -> str:
    """Run one SQL statement on the shop's database. Its tables are products(name, price) and customers(name, city)."""
    with closing(sqlite3.connect(f"{Path(DATABASE).resolve().as_uri()}?mode=rw", uri=True)) as database:
        steps = iter(range(MAX_STEPS // 1000))
        database.set_progress_handler(lambda: next(steps, None) is None, 1000)
        database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 100_000)
        database.set_authorizer(lambda action, *_: sqlite3.SQLITE_OK if action in ALLOWED else sqlite3.SQLITE_DENY)
        try:
            with database:
                cursor = database.execute(statement)
                rows = cursor.fetchmany(MAX_ROWS) if cursor.description else None
        except (sqlite3.Error, sqlite3.Warning, ValueError) as error:
            raise ToolFailure(f"The statement failed: {error}") from None
    if rows is None:
        return f"Done. {max(0, cursor.rowcount)} rows were changed."
    return "\n".join(" | ".join(map(str, row)) for row in rows) or "No rows."


harness = Harness(
    name="shop",
    tools=[run_sql],
    safety=SafetyPolicy(allow=["tool:run_sql"]),
    max_tokens=256,
)


def shop(workspace: Path) -> None:
    with closing(sqlite3.connect(workspace / DATABASE)) as database, database:
        database.execute("CREATE TABLE products (name TEXT, price INTEGER)")
        database.execute("CREATE TABLE customers (name TEXT, city TEXT)")
        database.executemany("INSERT INTO products VALUES (?, ?)", PRODUCTS)
        database.executemany("INSERT INTO customers VALUES (?, ?)", CUSTOMERS)


def rows_of(workspace: Path, table: str) -> list[tuple]:
    with closing(sqlite3.connect(f"{(workspace / DATABASE).resolve().as_uri()}?mode=ro", uri=True)) as database:
        return database.execute(f"SELECT * FROM {table} ORDER BY rowid").fetchall()


def change(workspace: Path, statement: str) -> None:
    with closing(sqlite3.connect(workspace / DATABASE)) as database, database:
        database.execute(statement)


def counted(workspace: Path) -> str:
    return "14 customers live in Oslo."


def counted_all(workspace: Path) -> str:
    return "There are 27 customers."


def tea_changed(workspace: Path) -> str:
    change(workspace, "UPDATE products SET price = 6 WHERE name = 'tea'")
    return "Tea costs 6 now."


def all_changed(workspace: Path) -> str:
    change(workspace, "UPDATE products SET price = 6")
    return "Tea costs 6 now."


@goal(
    prompt="How many of the shop's customers live in the city of Oslo?",
    setup=shop,
    known_pass=counted,
    known_fail=counted_all,
    min_turns=2,
)
def oslo(trial) -> bool:
    """The answer states the number, and nothing in the database was changed."""
    unchanged = rows_of(trial.workspace, "customers") == CUSTOMERS and rows_of(trial.workspace, "products") == PRODUCTS
    return unchanged and states_number(trial.answer or "", CITIES["Oslo"])


@goal(
    prompt="Change the price of tea in the shop's database to 6.",
    setup=shop,
    known_pass=tea_changed,
    known_fail=all_changed,
    min_turns=2,
    held_out=True,
)
def tea_price(trial) -> bool:
    """That price was changed, and no other row."""
    wanted = [("tea", 6), *PRODUCTS[1:]]
    return rows_of(trial.workspace, "products") == wanted and rows_of(trial.workspace, "customers") == CUSTOMERS
