"""What is hard to fork, to repeat or to keep in files: exact, or refused with the reason, by kind."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterator
from typing import Any

import odd_worlds as worlds
import pytest

from rir_gym import NotRestorable, RollbackRefused, RollbackWrapper
from rir_gym.snapshot.fork import packed
from rir_gym.snapshot.fork_audit import supported
from rir_gym.snapshot.fork_env import ForkedEnv
from rir_gym.testing import check_restore

pytestmark = [
    pytest.mark.skipif(supported() is not None, reason="worlds are forked on Linux only"),
    pytest.mark.timeout(180),
]


@contextlib.contextmanager
def forked(make: Any, **settings: Any) -> Iterator[RollbackWrapper]:
    env = RollbackWrapper.from_factory(make, snapshot=settings.pop("snapshot", "fork"), **settings)
    try:
        yield env
    finally:
        env.close()


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ("thread", "2 threads run in it"),
        ("child", "it has child processes"),
        ("itself", "it has child processes"),
        ("shared", "memory is mapped as shared"),
        ("shared_file", "memory is mapped as shared"),
        ("timer", "a timer runs in it"),
        ("pending", "a signal waits"),
        ("lock", "holds a lock"),
    ],
)
def test_what_begins_late_costs_the_checkpoints_while_it_lasts_and_nothing_else(what: str, why: str) -> None:
    with forked(functools.partial(worlds.Late, what)) as env:
        env.set_wrapper_attr("armed", True)
        env.reset(seed=1)
        seen = [env.step(1)[0] for _ in range(6)]
        assert set(env.restorable) - {6} == {0, 1, 2}
        assert why in str(env.refusal(4))
        env.rollback(1)
        assert [env.step(1)[0] for _ in range(5)] == seen[1:]  # it begins again, in another process
        env.reset(seed=1)
        assert [env.step(1)[0] for _ in range(2)] == seen[:2]
        assert env.rollback(0)[4]["rollback"]["ok"]


@pytest.mark.parametrize("make", [worlds.Signalled, worlds.Walker])
def test_handlers_places_and_copies_of_itself_that_end_are_exact(make: Any) -> None:
    here = os.getcwd()
    with forked(make) as env:
        assert check_restore(env, restores=24, steps=4).restores == 24
    assert os.getcwd() == here


def test_a_copy_of_itself_that_comes_back_from_the_step_answers_nobody() -> None:
    with pytest.raises(NotRestorable, match="it has child processes"):  # the copy has ended, and nobody has asked how
        RollbackWrapper.from_factory(worlds.Returning, snapshot="fork")
    env = ForkedEnv(packed(worlds.Returning))
    env.reset(seed=1)
    seen = [env.step(3)[0] for _ in range(5)]
    plain = worlds.Base()
    plain.reset(seed=1)
    assert seen == [plain.step(3)[0] for _ in range(5)]
    env.close()


@pytest.mark.parametrize("flushes", [True, False])
def test_a_file_that_is_open_across_checkpoints_is_exact_or_refused(flushes: bool) -> None:
    with pytest.raises(NotRestorable, match=r"log'? is open for writing"):
        RollbackWrapper.from_factory(functools.partial(worlds.Scribe, flushes=flushes), snapshot="fork")
    make = functools.partial(worlds.Scribe, kept=False, flushes=flushes)
    with pytest.raises(NotRestorable, match="has written to a file since"):
        RollbackWrapper.from_factory(make, snapshot="fork")


def test_a_relative_directory_is_refused_where_another_process_would_mean_another() -> None:
    with pytest.raises(NotRestorable, match="workdir='saves': an absolute path"):
        RollbackWrapper.from_factory(worlds.Relative, snapshot="fork")


@pytest.mark.parametrize("snapshot", ["fork", "keyframes:fork"])
def test_b11_after_a_step_that_never_returned_the_files_go_back_too(snapshot: str) -> None:
    with forked(worlds.Endless, snapshot=snapshot, step_timeout=2.0) as env:
        env.set_wrapper_attr("armed", True)
        env.reset(seed=1)
        seen = [env.step(1)[0] for _ in range(4)]
        *_, truncated, info = env.step(3)
        assert (truncated, info["timeout"], env.refusal(env.node.parent)) == (True, True, None)
        env.rollback(2)
        assert env.get_wrapper_attr("book")() == "11"
        assert [env.step(1)[0] for _ in range(2)] == seen[2:]


@pytest.mark.parametrize(
    "snapshot", ["heap", "pickle", "fork", "replay", "keyframes:heap", "keyframes:pickle", "keyframes:fork"]
)
def test_b10_commitments_hold_with_files_under_every_mechanism(snapshot: str) -> None:
    share = ("workdir",) if snapshot in ("replay",) else ()
    with forked(worlds.Ledger, snapshot=snapshot, share=share) as env:
        env.reset(seed=1)
        for action in (0, 1, 0):
            env.step(action)
        other = env.node
        env.rollback(1)
        assert env.get_wrapper_attr("book")() == "0"
        for action in (1, 3, 0, 2, 1):
            env.step(action)
        for to in (0, 1, 2, other):
            with pytest.raises(RollbackRefused, match="step 3 had an effect outside that cannot be taken back"):
                env.rollback(to)
        if snapshot != "replay":
            ends = env.node.step.observation
            env.rollback(4)
            assert env.get_wrapper_attr("book")() == "0130"
            assert [env.step(action)[0] for action in (2, 1)][-1] == ends
        assert env.get_wrapper_attr("book")() == "013021"
