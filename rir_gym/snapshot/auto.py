"""The ladder: native → heap → pickle → deepcopy → replay → refuse, each rung proven on the environment at hand.

A mechanism is proven by doing: save, act (A), restore, act differently, restore, act A again, in two episodes of an
instance made for the purpose where one can be made. After each restore the whole Python structure must be what was
saved (``audit``), and A must give what it gave. What is not proven is refused with the reason and the object's path.
A probe cannot see rare hidden state inside C objects; what it could not look into stands in the report.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import gymnasium as gym
import numpy as np

from rir_gym.errors import NotRestorable, RirError, SnapshotError, UnknownName
from rir_gym.snapshot.audit import classes, opaque
from rir_gym.snapshot.deepcopy import DeepCopy
from rir_gym.snapshot.heap import Heap
from rir_gym.snapshot.layers import layers
from rir_gym.snapshot.native import Native, adapter_for
from rir_gym.snapshot.outside import look, started
from rir_gym.snapshot.pickled import Pickle
from rir_gym.snapshot.probe import EPISODES, Deaths, probe, repeat_more
from rir_gym.snapshot.protocol import Report, Snapshotter
from rir_gym.snapshot.replay import Replay
from rir_gym.snapshot.streams import untouched
from rir_gym.snapshot.transparency import name_of
from rir_gym.snapshot.world import World

__all__ = ["LADDER", "choose", "maker_of"]

Make = Callable[[], gym.Env[Any, Any]]

LADDER = ("native", "heap", "pickle", "deepcopy", "replay")
_OBJECTS_ONLY: dict[str, Deaths] = {"heap": "prevented", "pickle": "repeated", "deepcopy": "repeated"}
_WINDOW = "human"
_ACROSS_EPISODES = (
    *("RecordVideo", "RenderCollection", "HumanRendering", "RecordEpisodeStatistics"),
    *("NormalizeObservation", "NormalizeReward"),
)
_proven: dict[tuple[str, ...], Report] = {}


def choose(
    env: gym.Env[Any, Any], *, name: str = "auto", share: Sequence[str] = (), make: Make | None = None
) -> tuple[Snapshotter, Report]:
    """The mechanism to use on ``env`` and why. ``env`` may be reset and stepped; the caller resets it afterwards.

    Args:
        name: "auto", or one rung to be proven alone.
        share: attributes of a layer that are neither copied nor compared.
        make: gives a fresh instance; None means from ``env.spec`` where that is possible.

    Raises:
        UnknownName: no such mechanism.
        NotRestorable: nothing could be proven; says why for each rung.
    """
    if name not in (*LADDER, "auto"):
        raise UnknownName("snapshot", name, (*LADDER, "auto"))
    key = _key(env, name, share) if make is None else None
    make_fresh = make or maker_of(env)
    make_quiet = make or maker_of(env, window=False)
    if key is not None and key in _proven:
        report = _proven[key]
        return _mechanism(report.chosen, share, make_fresh), report
    reasons: dict[str, str] = {}
    with untouched():
        for rung in LADDER if name == "auto" else (name,):
            found = _prove(env, rung, share, make_quiet)
            if not isinstance(found, str):
                report = Report(rung, reasons, found)
                if key is not None:
                    _proven[key] = report
                return _mechanism(rung, share, make_fresh), report
            reasons[rung] = found
    said = "; ".join(f"{rung}: {reason}" for rung, reason in reasons.items())
    raise NotRestorable(f"snapshot={name!r}: {type(env.unwrapped).__name__} cannot be put back faithfully. {said}")


def maker_of(env: gym.Env[Any, Any], *, window: bool = True) -> Make | None:
    """A function that makes the same stack from the environment's spec, where it has one that can be made again.

    ``window=False``: what it makes opens no window, even where the environment does (``render_mode="human"``).
    """
    try:
        spec = copy.deepcopy(env.spec)
        if spec is None or spec.entry_point is None or any(each.kwargs is None for each in spec.additional_wrappers):
            return None
        if not window and spec.kwargs.get("render_mode") == _WINDOW:
            spec.kwargs["render_mode"] = None
        spec.to_json()
    except Exception:  # a spec of wrappers that do not record their arguments, or arguments that are no JSON
        return None
    wanted = _names(env)

    def make() -> gym.Env[Any, Any]:
        made = gym.make(copy.deepcopy(spec))
        for layer in layers(made):  # ``gym.make(...).unwrapped`` has the spec of the whole stack
            if _names(layer) == wanted:
                return layer
        made.close()
        raise SnapshotError(f"a fresh instance is {_names(made)}, the live one {wanted}")

    try:
        make().close()
    except Exception:  # foreign constructors
        return None
    return make


def _class_name(layer: gym.Env[Any, Any]) -> str:
    return type(layer).__name__


def _names(env: gym.Env[Any, Any]) -> list[str]:
    return [name_of(type(layer)) for layer in layers(env)]


def _mechanism(rung: str, share: Sequence[str], make: Make | None) -> Snapshotter:
    if rung == "replay":
        assert make is not None
        return Replay(make)
    copying: dict[str, type[Native] | type[Heap] | type[DeepCopy] | type[Pickle]]
    copying = {"native": Native, "heap": Heap, "deepcopy": DeepCopy, "pickle": Pickle}
    return copying[rung](tuple(share))


def _key(env: gym.Env[Any, Any], name: str, share: Sequence[str]) -> tuple[str, ...] | None:
    """Two environments of one spec, one stack and the same classes of objects inside are proven once a process."""
    try:
        spec = env.spec.to_json() if env.spec is not None else None
    except Exception:  # see maker_of
        return None
    if spec is None:
        return None
    return (spec, name, *share, "|", *_names(env), "|", *classes(env, share=share))


def _prove(env: gym.Env[Any, Any], rung: str, share: Sequence[str], make: Make | None) -> tuple[str, ...] | str:
    """What the proof could not look into where the rung is proven, else in words why it is not."""
    adapter = next(filter(None, map(adapter_for, layers(env))), None) if rung == "native" else None
    if rung == "native" and adapter is None:
        return "no layer has a state pair or a registered adapter"
    if rung == "replay" and make is None:
        return "no fresh instance can be made: give a spec (gym.make) or use RollbackWrapper.from_factory"
    if rung == "replay" and (carried := [name for name in map(_class_name, layers(env)) if name in _ACROSS_EPISODES]):
        return f"{carried[0]} acts on the outside or carries statistics across episodes; put it outside this wrapper"
    if rung == "replay" and env.get_wrapper_attr("render_mode") == _WINDOW:
        return "a fresh instance opens a window, and closing the old one may close it: replay needs another render_mode"
    before = look()
    subject = env if make is None else _made(make)
    if isinstance(subject, str):
        return subject
    deaths = _OBJECTS_ONLY.get(rung, "as they are")
    static = adapter.static if adapter is not None else ()
    world = World(subject, _mechanism(rung, share, make), share=share)
    try:
        for seed in range(EPISODES):
            if (reason := probe(world, seed, share, static, deaths)) is not None:
                return reason
        unseen = opaque(world.env, share=share)
        if make is not None and (more := set(classes(env, share=share)) - set(classes(world.env, share=share))):
            if rung == "replay":
                return f"the environment holds a {min(more)}, which a fresh instance does not"
            return _prove(env, rung, share, None)  # what was proven is not what is at hand
        if world.repeats and unseen:
            repeat_more(world)
        if rung == "replay" and world.streams.used:
            return "it draws from the global random or numpy.random, which a replay cannot rewind"
        if rung in _OBJECTS_ONLY and (thing := started(before, look())) is not None:
            return f"it started something outside its objects, which would not be put back: {thing}"
        return tuple(f"{path} ({kind})" for path, kind in unseen)
    except RirError as error:
        return f"{error}{_suspects(subject, share)}"
    except Exception as error:  # the environment's own code, on a copy that may be half of one
        return f"{type(error).__name__}: {error}{_suspects(subject, share)}"
    finally:
        world.forget()
        if make is not None:
            world.env.close()
        else:  # its generator stands where the proof's last seed left it; without a wrapper it would be anew
            with suppress(Exception):
                env.reset(seed=int(np.random.SeedSequence().generate_state(1)[0]))


def _made(make: Make) -> gym.Env[Any, Any] | str:
    try:
        return make()
    except Exception as error:  # foreign constructors
        return f"a fresh instance could not be made: {type(error).__name__}: {error}"


def _suspects(env: gym.Env[Any, Any], share: Sequence[str]) -> str:
    """The objects that copying code usually fails on, with their paths."""
    found = [f"{path} is {kind}" for path, kind in opaque(env, share=share)[:3]]
    return f" ({', '.join(found)})" if found else ""
