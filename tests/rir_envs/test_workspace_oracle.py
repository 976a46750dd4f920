"""Workspace's plans against search in small worlds, and what the oracle says after each way of spoiling a task."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator

import pytest

from rir_envs.workspace import WorkspaceEnv
from rir_envs.workspace_goal import Content, Goal, Message, done, missing, typed
from rir_envs.workspace_making import FAMILIES, made
from rir_envs.workspace_plan import way
from rir_envs.workspace_world import State, Task, advance, contents, messages, success

PATHS = ("a.doc", "b.doc", "c.doc")
TEXT = typed("hello\n")

World = tuple[tuple[tuple[str, Content], ...], tuple[Message, ...]]


# --- against search -------------------------------------------------------------------------------------------------


def small_goal(rng: random.Random) -> tuple[Goal, dict[str, Content]]:
    """Three documents and a text over four paths, some absent, some sent, one that grows."""
    documents = [Content(f"{name}.start") for name in "xyz"]
    files = {path: rng.choice(documents) for path in PATHS if rng.random() < 0.8}
    log = Content("log.start", ("one",) if rng.random() < 0.5 else ())
    if rng.random() < 0.4:
        files[rng.choice(PATHS)] = log
    wanted: dict[str, Content] = {}
    for path in PATHS:
        if rng.random() < 0.6:
            wanted[path] = rng.choice([*documents, *documents, TEXT, Content("log.start", ("one", "two"))])
    if rng.random() < 0.2:  # two documents in each other's places
        files |= {"a.doc": documents[0], "b.doc": documents[1]}
        wanted |= {"a.doc": documents[1], "b.doc": documents[0]}
    absent = frozenset(path for path in PATHS if path not in wanted and rng.random() < 0.6)
    sent = frozenset(("me", document) for document in documents if rng.random() < 0.15)
    return Goal("42", wanted, absent, sent), files


def successors(world: World, goal: Goal) -> Iterator[World]:
    files, sent = dict(world[0]), world[1]
    for path, content in files.items():
        rest = {at: held for at, held in files.items() if at != path}
        yield frozen(rest, sent)
        for to in (*PATHS, "tmp/e.doc"):
            if to != path:
                yield frozen({**rest, to: content}, sent)
                yield frozen({**files, to: content}, sent)
        if content.origin == "log.start" and len(content.more) < 2:
            yield frozen(
                {**files, path: Content(content.origin, (*content.more, "two" if content.more else "one"))}, sent
            )
        if ("me", content) in goal.messages and ("me", content) not in sent:
            yield frozen(files, (*sent, ("me", content)))
    for path in PATHS:
        if goal.places.get(path) == TEXT:
            yield frozen({**files, path: TEXT}, sent)


def frozen(files: dict[str, Content], sent: tuple[Message, ...]) -> World:
    return tuple(sorted(files.items(), key=str)), tuple(sorted(sent, key=str))


def searched(goal: Goal, files: dict[str, Content], *, deep: int) -> float:
    """The fewest commands to success, by breadth-first search; ``inf`` where none of at most ``deep`` does it."""
    start = frozen(files, ())
    seen, edge = {start}, [start]
    for steps in range(deep):
        if any(done(goal, dict(world[0]), world[1]) for world in edge):
            return steps + 1
        edge = [each for world in edge for each in dict.fromkeys(successors(world, goal)) if each not in seen]
        edge = list(dict.fromkeys(edge))
        seen.update(edge)
    return math.inf


def test_the_plan_is_as_short_as_search_finds_one() -> None:
    rng, rings, lost, proven = random.Random(3), 0, 0, 0
    for _ in range(300):
        goal, files = small_goal(rng)
        found = way(goal, files, ())
        deep = 4
        least = searched(goal, files, deep=deep)
        if found is None:
            lost += 1
            assert least == math.inf, (goal, files)
        elif least < math.inf:
            assert found.least <= least <= len(found.commands), (goal, files, found)
            assert not found.shortest or least == len(found.commands), (goal, files, found)
            proven += found.shortest
            rings += any("tmp/kept" in command for command in found.commands)
        else:
            assert len(found.commands) > deep, (goal, files, found)
    assert (lost > 10, proven > 40, rings > 0) == (True, True, True)


def test_two_documents_in_each_others_places_take_three_commands() -> None:
    x, y = Content("x.start"), Content("y.start")
    goal = Goal("1", {"a.doc": y, "b.doc": x})
    found = way(goal, {"a.doc": x, "b.doc": y}, ())
    assert found is not None
    assert (len(found.commands), found.shortest) == (4, True)
    with_a_copy = way(goal, {"a.doc": x, "b.doc": y, "c.doc": x}, ())
    assert with_a_copy is not None
    assert (len(with_a_copy.commands), with_a_copy.shortest) == (3, True)


def test_rows_have_no_order_and_lines_have_one() -> None:
    rows, lines = Content("l.sqlite", ("a", "b", "a")), Content("l.log", ("a", "b", "a"))
    assert missing(rows, Content("l.sqlite", ("b",))) == ("a", "a")
    assert missing(rows, Content("l.sqlite", ("b", "b"))) is None
    assert missing(lines, Content("l.log", ("b",))) is None
    assert missing(lines, Content("l.log", ("a",))) == ("b", "a")
    assert missing(lines, Content("other.log")) is None


# --- from anywhere --------------------------------------------------------------------------------------------------


def play(task: Task, state: State, *commands: str) -> State:
    for command in commands:
        state = advance(task, state, command)[0]
    return state


@pytest.mark.parametrize("family", FAMILIES)
def test_wherever_random_play_leads_a_plan_succeeds_or_something_needed_is_gone(family: str) -> None:
    rng = random.Random(family)
    for seed in range(6):
        task = made(family, 1 + seed % 3, seed)
        state, lost, least = State(task.files), False, 0
        for _ in range(12):
            found = way(task.goal, contents(task, state.files), messages(task, state))
            if found is None:
                lost = True
            else:
                assert not lost, "what was lost came back"
                assert not found.shortest or len(found.commands) >= least - 1, "nearer by more than a command"
                least = found.least
                assert success(task, play(task, state, *found.commands))
            files = sorted(state.files)
            if not files:
                break
            one, two = rng.choice(files), rng.choice([*files, "tmp/z.doc"])
            sane = found.commands[0] if found and not found.commands[0].startswith("submit") else "list"
            state = play(
                task, state, rng.choice([sane, sane, f"move {one} {two}", f"copy {one} {two}", f"delete {one}"])
            )


@pytest.mark.parametrize("family", FAMILIES)
def test_every_document_that_the_goal_needs_is_needed(family: str) -> None:
    task = made(family, 2, 1)
    needed = {content.origin for content in task.goal.places.values()} | {c.origin for _, c in task.goal.messages}
    assert len(needed - {""}) >= 1
    for path in task.files:
        state = play(task, State(task.files), f"delete {path}")
        found = way(task.goal, contents(task, state.files), ())
        assert (found is None) == (path in needed), path
        state = play(task, State(task.files), f"copy {path} tmp/a.doc", f"delete {path}")
        assert way(task.goal, contents(task, state.files), ()) is not None


SPOILT = (
    ("chapters", "move drafts/draft-1.doc book/chapter-03.doc"),
    ("ledger", "post books/ledger.sqlite rent 0.01 r-1"),
    ("ledger", "write books/ledger.sqlite rows"),
    ("logs", "append incidents/master.log 00:00 nothing"),
    ("logs", "write incidents/master.log 00:00 nothing"),
    ("logs", "append logs/{log} more"),
    ("orders", "append depots/shipped.log 0 nowhere"),
    ("orders", "send {depot} notes/stocktake.txt"),
    ("reminders", "send {person} accounts/unpaid.csv"),
    ("backups", "submit 0"),
)


@pytest.mark.parametrize(("family", "command"), SPOILT)
def test_what_cannot_be_taken_back_is_lost(family: str, command: str) -> None:
    env = WorkspaceEnv(family=family)
    env.reset(seed=0)
    task = env.get_state().task
    log = next((path[5:] for path in task.files if path.startswith("logs/")), "")
    people = task.recipients[0] if task.recipients else ""
    *_, info = env.step(command.format(log=log, depot=people, person=people))
    oracle = env.oracle
    assert info["oracle"]["failed"] is True
    assert (oracle.distance(), oracle.plan(), oracle.best_action()) == (math.inf, None, None)
    assert oracle.recoverable(10**6) is False
    env.close()


@pytest.mark.parametrize("family", ["orders", "reminders"])
def test_a_message_sent_twice_is_one_too_many(family: str) -> None:
    task = made(family, 2, 0)
    found = way(task.goal, task.start, ())
    assert found is not None
    state = State(task.files)
    for command in found.commands[:-1]:
        state = play(task, state, command)
    again = next(command for command in found.commands if command.startswith("send "))
    assert success(task, play(task, state, found.commands[-1]))
    assert not success(task, play(task, state, again, found.commands[-1]))


def test_a_backup_of_the_ledger_makes_a_wrong_entry_good_again() -> None:
    env = WorkspaceEnv(family="ledger")
    env.reset(seed=0)
    before = env.oracle.distance()
    assert before is not None
    env.step("copy books/ledger.sqlite tmp/kept.sqlite")
    env.step("post books/ledger.sqlite rent 0.01 r-1")
    assert env.oracle.distance() == before + 1
    for command in env.oracle.plan() or ():
        *_, info = env.step(command)
    assert info["oracle"]["success"] is True
    env.close()


def test_a_full_workspace_is_cleared_first_and_that_plan_is_a_bound() -> None:
    env = WorkspaceEnv(family="backups")
    env.reset(seed=0)
    before = env.oracle.distance()
    assert before is not None
    task = env.get_state().task
    state = State({**task.files, **{f"junk/a{i}.txt": b"x\n" for i in range(256 - len(task.files))}})
    env.set_state(type(env.get_state())(task, state, "", None, None))
    plan = env.oracle.plan()
    assert plan is not None
    assert len(plan) > before
    assert env.oracle.distance() is None
    assert env.oracle.recoverable(int(before) - 1) is False
    assert env.oracle.recoverable(int(before)) is None
    assert env.oracle.recoverable(len(plan)) is True
    for command in env.oracle.plan() or ():
        *_, info = env.step(command)
    assert info["oracle"]["success"] is True
    env.close()
