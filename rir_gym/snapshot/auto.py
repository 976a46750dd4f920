"""The ladder: native → heap → pickle → deepcopy → fork → replay → refuse, each rung proven on what is at hand.

A mechanism is proven by doing: save, act (A), restore, act differently, restore, act A again, in two episodes of an
instance made for the purpose where one can be made. After each restore the whole Python structure must be what was
saved (``audit``), and A must give what it gave. What is not proven is refused with the reason and the object's path.
A probe cannot see rare hidden state inside C objects; what it could not look into stands in the report.
Fork stands before replay, since its restores take the same time however long the branch is, and behind the others,
since it moves the environment into another process. Keyframes are a rung of their own that is only used when asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import gymnasium as gym
import numpy as np

from rir_gym.arguments import check_amount
from rir_gym.errors import NotRestorable, RirError, UnknownName, UsageError
from rir_gym.snapshot.audit import classes, opaque
from rir_gym.snapshot.deepcopy import DeepCopy
from rir_gym.snapshot.files import left_as_they_were
from rir_gym.snapshot.fork import Fork
from rir_gym.snapshot.fork_audit import supported
from rir_gym.snapshot.fork_env import ForkedEnv, inside
from rir_gym.snapshot.fork_keeper import Keeper
from rir_gym.snapshot.heap import Heap
from rir_gym.snapshot.keyframes import Keyframes
from rir_gym.snapshot.layers import layers
from rir_gym.snapshot.makers import WINDOW, Make, maker_of, names_of
from rir_gym.snapshot.native import Native, adapter_for
from rir_gym.snapshot.outside import look, started
from rir_gym.snapshot.pickled import Pickle
from rir_gym.snapshot.probe import EPISODES, Deaths, probe, repeat_more
from rir_gym.snapshot.protocol import Report, Snapshotter
from rir_gym.snapshot.replay import Replay
from rir_gym.snapshot.streams import untouched
from rir_gym.snapshot.trial import COPIES, Trial
from rir_gym.snapshot.world import World

__all__ = ["LADDER", "NAMES", "choose", "maker_of"]

LADDER = ("native", "heap", "pickle", "deepcopy", "fork", "replay")
_KEYED = tuple(f"keyframes:{rung}" for rung in LADDER if rung != "replay")
NAMES = ("auto", *LADDER, "keyframes", *_KEYED)
_FORKS = ("fork", "keyframes:fork")
_OBJECTS_ONLY: dict[str, Deaths] = {"heap": "prevented", "pickle": "repeated", "deepcopy": "repeated"}
_NEVER = 10**9
_GLOBAL = "it draws from the global random or numpy.random, which a replay cannot rewind"
_ACROSS_EPISODES = (
    *("RecordVideo", "RenderCollection", "HumanRendering", "RecordEpisodeStatistics"),
    *("NormalizeObservation", "NormalizeReward"),
)
_proven: dict[tuple[str, ...], Report] = {}


def choose(
    env: gym.Env[Any, Any],
    *,
    name: str = "auto",
    share: Sequence[str] = (),
    make: Make | None = None,
    step_timeout: float | None = None,
) -> tuple[Snapshotter, Report]:
    """The mechanism to use on ``env`` and why. ``env`` may be reset and stepped; the caller resets it afterwards.

    Args:
        name: "auto", one rung to be proven alone, "keyframes" or "keyframes:" and a rung: replay from sparse tokens of
            the first rung that is proven, or of that one.
        share: attributes of a layer that are neither copied nor compared.
        make: gives a fresh instance; None means from ``env.spec`` where that is possible.
        step_timeout: seconds that a step may take; then only what forks is tried, which alone can end a step.

    Raises:
        UnknownName: no such mechanism.
        UsageError: ``step_timeout`` is no positive number, or ``name`` cannot end a step.
        NotRestorable: nothing could be proven; says why for each rung. Or the environment says that it must not be
            rolled back (an attribute ``snapshot_refused``, the reason).
    """
    rungs = _rungs(name, step_timeout)
    if reason := getattr(env.unwrapped, "snapshot_refused", None):
        raise NotRestorable(f"snapshot={name!r}: {type(env.unwrapped).__name__} says: {reason}")
    key = _key(env, rungs, share) if make is None else None
    make_fresh = make or maker_of(env)
    make_quiet = make or maker_of(env, window=False)
    if key is not None and key in _proven:
        report = _proven[key]
        return _mechanism(report.chosen, share, make_fresh, step_timeout), report
    reasons: dict[str, str] = {}
    trial = Trial(make_quiet, tuple(share), step_timeout)
    with untouched(), left_as_they_were(env):
        try:
            for rung in rungs:
                found = _prove(env, rung, share, make_quiet, trial)
                if not isinstance(found, str):
                    report = Report(rung, reasons, found)
                    if key is not None:
                        _proven[key] = report
                    spare = trial.spare() if rung in _FORKS else ()
                    return _mechanism(rung, share, make_fresh, step_timeout, spare), report
                reasons[rung] = found
        finally:
            trial.close()
    said = "; ".join(f"{rung}: {reason}" for rung, reason in reasons.items())
    raise NotRestorable(f"snapshot={name!r}: {type(env.unwrapped).__name__} cannot be put back faithfully. {said}")


def _rungs(name: str, step_timeout: float | None) -> tuple[str, ...]:
    """What is tried, in order."""
    if name not in NAMES:
        raise UnknownName("snapshot", name, NAMES)
    rungs = {"auto": LADDER, "keyframes": _KEYED}.get(name, (name,))
    if step_timeout is None:
        return rungs
    check_amount("step_timeout", step_timeout)
    if step_timeout == 0:
        raise UsageError(f"step_timeout={step_timeout!r}: a number of seconds above 0")
    if not (able := tuple([rung for rung in rungs if rung in _FORKS])):
        raise UsageError(f"step_timeout={step_timeout!r}: {name!r} cannot end a step; {', '.join(_FORKS)} can")
    return able


def _mechanism(
    rung: str,
    share: Sequence[str],
    make: Make | None,
    step_timeout: float | None = None,
    keepers: Sequence[Keeper] = (),
) -> Snapshotter:
    if rung in _KEYED:
        return Keyframes(_mechanism(rung.partition(":")[2], share, make, step_timeout, keepers))
    if rung in ("replay", "fork"):
        assert make is not None
        return Replay(make) if rung == "replay" else Fork(make, step_timeout, keepers=list(keepers))
    copying: dict[str, type[Native] | type[Heap] | type[DeepCopy] | type[Pickle]]
    copying = {"native": Native, "heap": Heap, "deepcopy": DeepCopy, "pickle": Pickle}
    return copying[rung](tuple(share))


def _key(env: gym.Env[Any, Any], rungs: Sequence[str], share: Sequence[str]) -> tuple[str, ...] | None:
    """Two environments of one spec, one stack and the same classes of objects inside are proven once a process."""
    try:
        spec = env.spec.to_json() if env.spec is not None else None
    except Exception:  # see maker_of
        return None
    if spec is None:
        return None
    return (spec, *rungs, "|", *share, "|", *names_of(env), "|", *classes(env, share=share))


def _cannot(env: gym.Env[Any, Any], rung: str, make: Make | None) -> str | None:
    """Why a rung is out of the question before it is tried, if so."""
    if rung == "native":
        known = any(adapter_for(layer) is not None for layer in layers(env))
        return None if known else "no layer has a state pair or a registered adapter"
    if rung not in ("replay", *_FORKS):
        return None
    if rung in _FORKS and (reason := supported()) is not None:
        return reason
    if make is None:
        return "no fresh instance can be made: give a spec (gym.make) or use RollbackWrapper.from_factory"
    stack = [type(layer).__name__ for layer in layers(env)]
    if rung == "replay" and (carried := [name for name in stack if name in _ACROSS_EPISODES]):
        return f"{carried[0]} acts on the outside or carries statistics across episodes; put it outside this wrapper"
    if env.get_wrapper_attr("render_mode") == WINDOW:
        if rung in _FORKS:
            return "a window belongs to one process: fork needs another render_mode"
        return "a fresh instance opens a window, and closing the old one may close it: replay needs another render_mode"
    return None


def _prove(
    env: gym.Env[Any, Any], rung: str, share: Sequence[str], make: Make | None, trial: Trial
) -> tuple[str, ...] | str:
    """What the proof could not look into where the rung is proven, else in words why it is not."""
    if (reason := _cannot(env, rung, make)) is not None:
        return reason
    mechanism = _mechanism(rung, share, make)
    if isinstance(mechanism, Keyframes):
        if isinstance(found := _prove(env, mechanism.base.name, share, make, trial), str):
            return found
        mechanism.spacing = _NEVER  # all that can be done again is done again
    before = look()
    if make is None:
        subject = env
    elif isinstance(made := _made(rung, make, trial), str):
        return made
    else:
        subject = made
    base = rung.rpartition(":")[2]
    deaths = _OBJECTS_ONLY.get(base, "as they are")
    adapter = next(filter(None, map(adapter_for, layers(env))), None) if base == "native" else None
    static = adapter.static if adapter is not None else ()
    world = World(subject, mechanism, share=share)
    again = rung == "replay" or rung in _KEYED
    try:
        if rung in COPIES and make is not None:
            subject.reset(seed=EPISODES)
            if opaque(subject, share=share) and (reason := trial.died_of(rung)) is not None:
                return reason
        for seed in range(EPISODES):
            if (reason := probe(world, seed, share, static, deaths)) is not None:
                return reason
        unseen = inside(world.env, opaque, share=tuple(share))
        held = set(inside(world.env, classes, share=tuple(share)))
        if make is not None and (more := set(classes(env, share=share)) - held):
            if rung == "replay" or rung in _FORKS:
                return f"the environment holds a {min(more)}, which a fresh instance does not"
            return _prove(env, rung, share, None, trial)  # what was proven is not what is at hand
        if again and unseen:
            repeat_more(world)
        if again and world.streams.used:
            return _GLOBAL
        if rung in _OBJECTS_ONLY and (thing := started(before, look())) is not None:
            return f"it started something outside its objects, which would not be put back: {thing}"
        return tuple(f"{path} ({kind})" for path, kind in unseen)
    except RirError as error:
        return _GLOBAL if again and world.streams.used else f"{error}{_suspects(subject, share)}"
    except Exception as error:  # the environment's own code, on a copy that may be half of one
        return f"{type(error).__name__}: {error}{_suspects(subject, share)}"
    finally:
        world.forget()
        if make is not None:
            world.env.close()
        else:  # its generator stands where the proof's last seed left it; without a wrapper it would be anew
            with suppress(Exception):
                env.reset(seed=int(np.random.SeedSequence().generate_state(1)[0]))


def _made(rung: str, make: Make, trial: Trial) -> gym.Env[Any, Any] | str:
    try:
        return trial.elsewhere() if rung in _FORKS else make()
    except RirError as error:
        return str(error)
    except Exception as error:  # foreign constructors
        return f"a fresh instance could not be made: {type(error).__name__}: {error}"


def _suspects(env: gym.Env[Any, Any], share: Sequence[str]) -> str:
    """The objects that copying code usually fails on, with their paths."""
    if isinstance(env, ForkedEnv):
        return ""
    found = [f"{path} is {kind}" for path, kind in opaque(env, share=share)[:3]]
    return f" ({', '.join(found)})" if found else ""
