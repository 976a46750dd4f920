"""Tables in files: one SELECT over a CSV, JSON or SQLite file, and one row more in a ledger. Knows no disk and no task.

Everything happens in a database in memory, made from the bytes of the file and thrown away: a query cannot change a
file, attach another or load code. It ends after a fixed number of SQLite's own instructions, which makes its end the
same everywhere, and, should these be slow ones, after half a second.
"""

from __future__ import annotations

import csv
import io
import json
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import lru_cache
from typing import Any

__all__ = ["entries", "ledger", "posted", "queried"]

_INSTRUCTIONS, _PER_CALL = 1_000_000, 1_000
_SECONDS = 0.5
_COLUMNS, _ROWS, _SHOWN, _CHARACTERS = 40, 5_000, 100, 20_000
_FUNCTIONS = frozenset(  # none that reads a clock, draws, or takes long for one call
    (
        *("count", "sum", "total", "avg", "min", "max", "abs", "round", "length", "lower", "upper", "substr"),
        *("coalesce", "ifnull", "nullif", "group_concat"),
    )
)
_ALLOWED = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ)
_LIMITS = (
    (sqlite3.SQLITE_LIMIT_LENGTH, 70_000),
    (sqlite3.SQLITE_LIMIT_SQL_LENGTH, 4_000),
    (sqlite3.SQLITE_LIMIT_COLUMN, 100),
    (sqlite3.SQLITE_LIMIT_EXPR_DEPTH, 50),
    (sqlite3.SQLITE_LIMIT_COMPOUND_SELECT, 10),
    (sqlite3.SQLITE_LIMIT_ATTACHED, 0),
)
_TABLE = "CREATE TABLE entries (account TEXT NOT NULL, amount TEXT NOT NULL, reference TEXT NOT NULL)"


def queried(data: bytes, kind: str, sql: str) -> tuple[list[str] | None, str]:
    """The rows as lines, the names of the columns first, and ""; or None and the reason.

    Args:
        kind: "csv", "json" (a list of objects, or one object) or "sqlite". CSV and JSON are one table ``t``.
        sql: one SELECT; functions are the usual ones without a clock or chance.
    """
    try:
        with _open(data, kind) as db:
            db.set_authorizer(_authorize)
            found = db.execute(sql)
            if found.description is None:
                return None, "one SELECT is expected"
            lines, size = [", ".join(column[0] for column in found.description)], 0
            for row in found:
                if len(lines) > _SHOWN or size > _CHARACTERS:
                    return [*lines, f"(only the first {len(lines) - 1} rows)"], ""
                lines.append(", ".join(map(_cell, row)))
                size += len(lines[-1])
            return lines, ""
    except sqlite3.OperationalError as error:
        return None, "the query takes too long" if "interrupt" in str(error) else f"SQL: {str(error)[:200]}"
    except (sqlite3.Error, sqlite3.Warning) as error:
        return None, f"SQL: {str(error)[:200]}"
    except (ValueError, csv.Error, RecursionError, MemoryError, OverflowError) as error:
        return None, f"it cannot be read as {kind}: {str(error)[:100]}"


def ledger(rows: Sequence[str]) -> bytes:
    """A SQLite file with a table ``entries`` (account, amount, reference); a row is these three with blanks between."""
    with closing(sqlite3.connect(":memory:")) as db:
        db.execute(_TABLE)
        db.executemany("INSERT INTO entries VALUES (?, ?, ?)", [row.split(" ") for row in rows])
        db.commit()
        return db.serialize()


@lru_cache(maxsize=512)
def entries(data: bytes) -> tuple[str, ...] | None:
    """The rows of a ledger in their order; None where it is none."""
    try:
        with _open(data, "sqlite") as db:
            found = db.execute("SELECT account, amount, reference FROM entries ORDER BY rowid").fetchmany(_ROWS)
            return tuple([" ".join(map(str, row)) for row in found])
    except (sqlite3.Error, ValueError):
        return None


def posted(data: bytes, account: str, amount: str, reference: str) -> bytes | None:
    """The ledger with one row more; None where it is no ledger."""
    try:
        with _open(data, "sqlite") as db:
            db.execute("INSERT INTO entries VALUES (?, ?, ?)", (account, amount, reference))
            db.commit()
            return db.serialize()
    except sqlite3.Error:
        return None


@contextmanager
def _open(data: bytes, kind: str) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as db:
        calls, end = iter(range(_INSTRUCTIONS // _PER_CALL)), time.monotonic() + _SECONDS
        db.set_progress_handler(lambda: int(next(calls, None) is None or time.monotonic() > end), _PER_CALL)
        if kind == "sqlite":
            if not data.startswith(b"SQLite format 3\0"):
                raise sqlite3.DatabaseError("file is not a database")
            db.deserialize(data)
            db.execute("PRAGMA trusted_schema = OFF")
        else:
            names, rows = _table(data, kind)
            db.execute(f"CREATE TABLE t ({', '.join(_quoted(name) for name in names)})")
            db.executemany(f"INSERT INTO t VALUES ({', '.join('?' * len(names))})", rows)
            db.commit()
        db.execute("PRAGMA temp_store = MEMORY")
        for limit, most in _LIMITS:
            db.setlimit(limit, most)
        yield db


def _table(data: bytes, kind: str) -> tuple[list[str], list[list[Any]]]:
    text = data.decode()
    if kind == "csv":
        names, *rows = list(csv.reader(io.StringIO(text))) or [[]]
        table = [[_number(cell) for cell in (*row, *[""] * len(names))[: len(names)]] for row in rows if row]
    else:
        loaded = json.loads(text)
        objects = loaded if isinstance(loaded, list) else [loaded]
        if not all(isinstance(each, dict) for each in objects):
            raise ValueError("a list of objects is expected")
        names = list(dict.fromkeys(name for each in objects for name in each))
        table = [[_plain(each.get(name)) for name in names] for each in objects]
    names = [name.strip() for name in names]
    if not 0 < len(names) <= _COLUMNS or len({name.casefold() for name in names}) < len(names) or len(table) > _ROWS:
        raise ValueError(f"1 to {_COLUMNS} columns of different names and at most {_ROWS} rows are expected")
    return names, table


def _number(cell: str) -> Any:
    cell = cell.strip()
    try:
        return int(cell) if str(int(cell)) == cell and len(cell) < 18 else cell
    except ValueError:
        pass
    try:
        return float(cell) if cell.replace(".", "", 1).lstrip("-").isdigit() and cell.isascii() else cell
    except ValueError:
        return cell


def _plain(value: Any) -> Any:
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return value if abs(value) < 2**62 else str(value)
    return value if isinstance(value, float | str) else json.dumps(value)


def _cell(value: Any) -> str:
    if isinstance(value, bytes):
        return f"({len(value)} bytes)"
    if isinstance(value, float):
        return format(value, ".12g")
    return "" if value is None else str(value)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""').replace("\0", "") + '"'


def _authorize(action: int, first: str | None, second: str | None, *_: str | None) -> int:
    if action in _ALLOWED or (action == sqlite3.SQLITE_FUNCTION and (second or "").lower() in _FUNCTIONS):
        return sqlite3.SQLITE_OK
    return sqlite3.SQLITE_DENY
