"""The tools of the workspace one by one: forms of a command, paths, sizes, sums, tables, and what is never possible."""

from __future__ import annotations

import json
import time
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rir_envs.workspace_arithmetic import calculated
from rir_envs.workspace_commands import TOOLS, Command, parsed, submission
from rir_envs.workspace_names import COMMAND, FILE, FILES, OUTPUT, TOTAL, folder_problem, path_problem
from rir_envs.workspace_tables import entries, ledger, posted, queried
from rir_envs.workspace_tools import GONE, Refusal, asked, changed

SEALED = b"\xff" + b"\x90" * 14 + b"\nSubject: a letter\n"


def run(files: dict[str, bytes], action: str) -> tuple[dict[str, bytes], str] | str:
    """Files and words where the command changes something, else the words."""
    command = parsed(action)
    assert isinstance(command, Command), command
    if command.tool in ("write", "append", "move", "copy", "delete", "post"):
        result = changed(files, command)
        return str(result) if isinstance(result, Refusal) else (dict(result[0]), result[1])
    return str(asked(files, command))


# --- the form of a command ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "call"),
    [
        ("list", {"tool": "list"}),
        ("list notes", {"tool": "list", "folder": "notes"}),
        ("read a.txt 3", {"tool": "read", "path": "a.txt", "line": 3}),
        ('search "invoice 17"', {"tool": "search", "text": "invoice 17"}),
        ("write a.txt one\\ntwo\\\\n", {"tool": "write", "path": "a.txt", "text": "one\ntwo\\n"}),
        ("query a.csv select 1", {"tool": "query", "path": "a.csv", "sql": "select 1"}),
        (
            "post l.sqlite rent 1.5 r-1",
            {"tool": "post", "path": "l.sqlite", "account": "rent", "amount": 1.5, "reference": "r-1"},
        ),
        ("send lea a.doc", {"tool": "send", "to": "lea", "path": "a.doc"}),
        ("submit 3.14 or so", {"tool": "submit", "answer": "3.14 or so"}),
        ('submit("3")', {"tool": "submit", "answer": 3}),
    ],
)  # fmt: skip
def test_a_line_and_a_call_are_the_same_command(line: str, call: dict[str, object]) -> None:
    first, second = parsed(line), parsed(json.dumps(call))
    assert isinstance(first, Command)
    assert first == second


@pytest.mark.parametrize(
    "text",
    [
        *("", "   ", "\n", "ls", "READ a.txt", "read", "move a.txt", "write a.txt", "move a.txt b.txt c.txt", "\ud800"),
        *("{", "{}", "{" * 5000, '{"tool": []}', '{"tool": "read"}', '{"tool": "read", "path": 1e999999, "x": 1}'),
        *('{"tool": "read", "path": ["a"]}', '{"tool": "read", "path": "\\ud800"}', '{"tool": "list", "file": "a"}'),
        *("x" * (COMMAND + 1), "delete a.txt\ndelete b.txt", "日本 a.txt", '{"tool": "read", "path": null}'),
    ],
)
def test_what_is_no_command_is_a_short_reason(text: str) -> None:
    reason = parsed(text)
    assert isinstance(reason, str)
    assert 0 < len(reason) < 300
    reason.encode()


@given(st.text())
def test_any_text_is_a_command_or_a_reason(text: str) -> None:
    for action in (text, f"write {text}", f'{{"tool": "{text}"}}', f"submit({text})"):
        command = parsed(action)
        assert isinstance(command, str) or set(command.arguments) == set(TOOLS[command.tool])


@given(st.text())
def test_a_submission_submits_that_answer(text: str) -> None:
    command = parsed(submission(text))
    if isinstance(command, Command):
        assert (command.tool, command["answer"]) == ("submit", text.strip())


# --- paths and sizes ------------------------------------------------------------------------------------------------


@given(st.text(max_size=150))
def test_a_path_stays_inside_and_means_one_file_everywhere(text: str) -> None:
    if path_problem(text) is None:
        assert text == text.lower()
        assert text.isascii()
        assert ".." not in text
        assert not text.startswith(("/", ".", "-"))
        assert all("." not in folder for folder in text.split("/")[:-1])
        assert folder_problem(text) is not None  # nothing can be a file and a folder
    for problem in (path_problem(text), folder_problem(text)):
        assert problem is None or (problem.isascii() and len(problem) < 400)


def test_sizes_are_limited_and_a_refusal_changes_nothing() -> None:
    full = {f"a{i}.txt": b"x" for i in range(FILES)}
    assert str(run(full, "write new.txt x")).startswith("Refused: there can be at most")
    assert isinstance(run(full, "write a1.txt other"), tuple)
    big = {"a.txt": b"x" * (FILE - 3), **{f"b{i}.txt": b"x" * FILE for i in range(15)}}
    assert str(run(big, "append a.txt more")).startswith("Refused: a file holds")
    assert str(run({**big, "c.txt": b"x" * (TOTAL - sum(map(len, big.values())))}, "write d.txt x")).startswith(
        "Refused: all"
    )
    attached = {"huge.csv": b"x" * (2 * TOTAL)}
    assert isinstance(run(attached, "move huge.csv a/huge.csv"), tuple)
    assert str(run(attached, "copy huge.csv b.csv")).startswith("Refused: all files together")


def test_answers_are_limited_and_the_rest_can_be_read() -> None:
    files = {"a.txt": b"".join(b"line %d\n" % i for i in range(5000))}
    shown = run(files, "read a.txt")
    assert isinstance(shown, str)
    assert OUTPUT < len(shown) < OUTPUT + 100
    assert "(cut: " in shown
    assert run(files, "read a.txt 5000") == "a.txt:\nline 4999"
    assert run(files, "read a.txt 6000") == "a.txt:"
    for wrong in ("0", "-1", "x", "1.5", "9" * 50, "٣"):
        assert str(run(files, f"read a.txt {wrong}")).startswith("Refused: a line is")
    assert str(run({"a.csv": b"a\n" + b"1\n" * 4000}, "query a.csv select * from t")).count("\n") < 110


# --- what tools do --------------------------------------------------------------------------------------------------


def test_write_replaces_and_append_adds_a_line() -> None:
    files = {"a.txt": b"one"}
    assert run(files, "append a.txt two") == ({"a.txt": b"one\ntwo\n"}, "Appended a line to a.txt.")
    assert run(files, "append b.txt two") == ({"a.txt": b"one", "b.txt": b"two\n"}, "Appended a line to b.txt.")
    assert run(files, "write a.txt two") == ({"a.txt": b"two\n"}, f"Wrote 4 bytes to a.txt.{GONE}")
    assert files == {"a.txt": b"one"}
    for text in ("a\x00b", "a\x1bb", "a\rb"):
        call = json.dumps({"tool": "write", "path": "a.txt", "text": text})
        assert str(run(files, call)) == "Refused: a text holds no control characters."
    call = json.dumps({"tool": "append", "path": "a.txt", "text": "a\nb"})
    assert str(run(files, call)).startswith("Refused: append adds one line")


def test_a_stamped_document_can_be_read_and_added_to_and_not_typed() -> None:
    files = {"a.doc": SEALED, "l.sqlite": ledger(["rent 1.00 r-1"])}
    assert run(files, "read a.doc") == "a.doc (stamped):\nSubject: a letter"
    assert run(files, "search LETTER") == "Found in 1 lines:\na.doc: Subject: a letter"
    result = run(files, "append a.doc seen")
    assert isinstance(result, tuple)
    assert result[0]["a.doc"] == SEALED + b"seen\n"
    for command in ("read l.sqlite", "append l.sqlite x"):
        assert str(run(files, command)).startswith("Refused: l.sqlite is no text")
    for byte in range(0x80, 0x100):
        written = run({}, json.dumps({"tool": "write", "path": "a.doc", "text": chr(byte)}))
        assert isinstance(written, tuple)
        assert not written[0]["a.doc"].startswith(b"\xff")


def test_move_copy_and_delete() -> None:
    files = {"a.doc": SEALED, "b.doc": b"b\n"}
    assert run(files, "move a.doc x/c.doc") == ({"b.doc": b"b\n", "x/c.doc": SEALED}, "Moved a.doc to x/c.doc.")
    assert run(files, "copy a.doc b.doc") == ({"a.doc": SEALED, "b.doc": SEALED}, f"Copied a.doc to b.doc.{GONE}")
    assert run(files, "delete b.doc") == ({"a.doc": SEALED}, "Deleted b.doc.")
    for command in (
        "move a.doc a.doc",
        "copy none.doc b.doc",
        "delete none.doc",
        "move a.doc folder",
        "copy a.doc ../b.doc",
    ):
        assert str(run(files, command)).startswith("Refused: ")


def test_a_ledger_takes_rows_and_nothing_else() -> None:
    files = {"l.sqlite": ledger(["rent 1.00 r-1"]), "a.txt": b"x\n"}
    result = run(files, "post l.sqlite travel -12.50 r-2")
    assert isinstance(result, tuple)
    assert entries(result[0]["l.sqlite"]) == ("rent 1.00 r-1", "travel -12.50 r-2")
    rows = run(result[0], "query l.sqlite SELECT account, amount FROM entries ORDER BY account DESC")
    assert rows == "Rows:\naccount, amount\ntravel, -12.50\nrent, 1.00"
    for wrong in (
        "a.txt rent 1.00 r-1",
        "l.sqlite Rent 1.00 r-1",
        "l.sqlite rent 1,0 r-1",
        "l.sqlite rent ٣ r",
        "l.sqlite r 1e9 r",
    ):
        assert str(run(files, f"post {wrong}")).startswith("Refused: ")
    assert posted(b"SQLite format 3\0 junk", "a", "1", "b") is None
    assert entries(b"SQLite format 3\0 junk") is None


# --- sums -----------------------------------------------------------------------------------------------------------

numbers = st.decimals(min_value=0, max_value=10**6, allow_nan=False, allow_infinity=False, places=3).map(str)
sums = st.recursive(
    numbers,
    lambda inner: st.tuples(inner, st.sampled_from("+-*"), inner).map(lambda parts: f"({' '.join(parts)})"),
    max_leaves=6,
)


@given(sums)
def test_sums_are_exact(expression: str) -> None:
    value, why = calculated(expression)
    if why == "":
        exact = eval(_as_fractions(expression), {"Fraction": Fraction})  # noqa: S307 - made here
        assert abs(Fraction(str(value)) - exact) <= Fraction(1, 10**12)


def _as_fractions(expression: str) -> str:
    out, number = "", ""
    for sign in f"{expression} ":
        if sign.isdigit() or sign == ".":
            number += sign
        else:
            out, number = out + (f"Fraction('{number}')" if number else "") + sign, ""
    return out


@pytest.mark.parametrize(
    "wrong",
    [
        *("", "1 +", "1 // 2", "2 ** 9", "1 / 0", "1 % 0", "(1", "1)", "1 2", "a", "__import__('os')", "9" * 31, "1e9"),
        *("(" * 300, "-" * 300, "*".join(["9" * 30] * 8), "1" * 500, "٣ + 1", "1,5", "1..2", "\0"),
    ],
)  # fmt: skip
def test_what_is_no_sum_is_a_reason(wrong: str) -> None:
    value, why = calculated(wrong)
    assert value is None
    assert 0 < len(why) < 100


@given(st.text(alphabet="0123456789.+-*/%() ", max_size=60))
def test_any_sum_has_a_value_or_a_reason(text: str) -> None:
    value, why = calculated(text)
    assert (value is None) == (why != "")


# --- tables ---------------------------------------------------------------------------------------------------------


def test_csv_and_json_are_one_table() -> None:
    table = b"name,amount\nines,1.5\nomar,20\n"
    assert queried(table, "csv", "select sum(amount) from t") == (["sum(amount)", "21.5"], "")
    objects = json.dumps([{"a": 1, "b": [1]}, {"a": 2**70, "c": None}]).encode()
    assert queried(objects, "json", "select * from t") == (["a, b, c", "1, [1], ", f"{2**70}, , "], "")


@pytest.mark.parametrize(
    "sql",
    [
        *("drop table t", "insert into t values (1)", "update t set a = 1", "delete from t", "create table x (y)", ""),
        *("attach 'x.db' as x", "pragma journal_mode", "vacuum into 'x.db'", "select load_extension('x')", "begin"),
        *("select random()", "select date('now')", "select randomblob(9)", "select printf('%99999d', 1)", "\ud800"),
        "with recursive r(x) as (select 1 union all select x + 1 from r) select * from r",
        *("select a like '%a%a%b' from t", "select zeroblob(99999999)", "select 1; select 2", "select hex(a) from t"),
        *("select count(*) from t a, t b, t c, t d", "select " + "(" * 500, "select readfile('/etc/passwd')"),
        *("select * from nowhere", "select a || a || a from t x, t y, t z, t w order by 1"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("wide", [False, True])
def test_a_query_cannot_change_reach_out_or_take_long(sql: str, wide: bool) -> None:
    cell = "a" * 60_000 if wide else "a"
    table = ("a\n" + cell + "\n" + "b\n" * 600).encode()
    started = time.perf_counter()
    rows, why = queried(table, "csv", sql)
    assert time.perf_counter() - started < 2.5  # half a second by itself
    assert rows is None
    assert 0 < len(why) < 400


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"", "csv"),
        (b"\xff\xfe", "csv"),
        (b"a,a\n1,2\n", "csv"),
        (b"a\n" + b"1\n" * 6000, "csv"),
        (",".join(f"c{i}" for i in range(50)).encode(), "csv"),
        (b"[1, 2]", "json"),
        (b"[", "json"),
        (b"[" * 50_000, "json"),
        (b"[]", "json"),
        (b"1" * 5000, "json"),
        (b"", "sqlite"),
        (b"SQLite format 3\0" + b"\xff" * 3000, "sqlite"),
        (b"x" * 4096, "sqlite"),
    ],
)
def test_what_is_no_table_is_a_reason(data: bytes, kind: str) -> None:
    rows, why = queried(data, kind, "select * from t")
    assert rows is None
    assert 0 < len(why) < 400


def test_a_damaged_ledger_never_breaks_a_tool() -> None:
    whole = ledger([f"rent {i}.00 r-{i}" for i in range(50)])
    for at in range(0, len(whole), 97):
        damaged = whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :]
        for data in (damaged, whole[:at]):
            queried(data, "sqlite", "select * from entries")
            entries(data)
            posted(data, "a", "1", "b")
