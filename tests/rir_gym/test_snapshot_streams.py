"""The process-global generators: read cheaply, compared exactly, rewound for the environment only."""

from __future__ import annotations

import random

import numpy as np
import pytest

from rir_gym.base import Node, Step
from rir_gym.snapshot import process_rng
from rir_gym.snapshot.process_rng import ProcessRng, read, same, seeded, write
from rir_gym.snapshot.streams import GlobalStreams, untouched


@pytest.fixture(autouse=True)
def _global_generators_are_put_back() -> object:
    with untouched():
        yield


DRAWS = {
    "random": random.random,
    "gauss": lambda: random.gauss(0, 1),
    "seed": lambda: random.seed(1),
    "shuffle": lambda: random.shuffle([1, 2, 3]),
    "np random": np.random.random,
    "np randn": np.random.randn,
    "np seed": lambda: np.random.seed(1),
    "np shuffle": lambda: np.random.shuffle(np.arange(3)),
    "a whole block": lambda: [random.getrandbits(32) for _ in range(624)],
    "a whole np block": lambda: np.random.bytes(4 * 624),
}


@pytest.mark.parametrize("name", DRAWS)
def test_every_draw_is_noticed_the_spare_normal_ones_too(name: str) -> None:
    random.seed(2)
    np.random.seed(2)
    for _ in range(3):  # of two normal draws the second moves no word
        before = read()
        assert same(before, read())
        DRAWS[name]()
        after = read()
        if "seed" not in name or _ == 0:
            assert not same(before, after)


def test_the_memory_says_what_the_functions_say(monkeypatch: pytest.MonkeyPatch) -> None:
    assert process_rng._python_readable()
    assert process_rng._gauss_offset() > 0
    random.seed(9)
    np.random.seed(9)
    for _ in range(40):
        fast = read()
        with monkeypatch.context() as slow:
            slow.setattr(process_rng, "_python_readable", lambda: False)
            slow.setattr(process_rng, "_gauss_offset", lambda: 0)
            assert read() == fast
        random.gauss(0, 1)
        np.random.randn()
        [random.random() for _ in range(37)]


def test_writing_brings_every_draw_back() -> None:
    random.seed(4)
    np.random.seed(4)
    random.gauss(0, 1)
    np.random.randn()
    kept = read()

    def draw() -> list[float]:
        return [random.gauss(0, 1), random.random(), float(np.random.randn()), float(np.random.random())]

    first = draw()
    write(kept)
    assert draw() == first


def test_another_bit_generator_is_kept_too() -> None:
    own = np.random.get_bit_generator()
    np.random.set_bit_generator(np.random.PCG64(3))
    try:
        kept = read()
        first = np.random.random()
        assert not same(kept, read())
        write(kept)
        assert np.random.random() == first
    finally:
        np.random.set_bit_generator(own)


def test_a_seeded_state_follows_from_its_seed() -> None:
    drawn = []
    for entropy in (1, 1, 2):
        write(seeded(np.random.SeedSequence(entropy)))
        drawn.append((random.random(), float(np.random.random())))
    assert drawn[0] == drawn[1]
    assert drawn[0][0] != drawn[2][0]
    assert drawn[0][1] != drawn[2][1]


def test_untouched_also_when_what_runs_inside_raises() -> None:
    before: ProcessRng = read()

    @untouched()
    def draw_and_fail() -> None:
        random.random()
        np.random.randn()
        raise RuntimeError("after the draws")

    with pytest.raises(RuntimeError, match="after the draws"):
        draw_and_fail()
    assert same(before, read())


def node(number: int, parent: Node | None) -> Node:
    return Node(number, parent, parent.t + 1 if parent else 0, Step(None, number))


def step(streams: GlobalStreams, source: Node, number: int, draws: int = 1) -> tuple[Node, list[float]]:
    drawn = streams.step(source, lambda: [random.random() for _ in range(draws)])
    reached = node(number, source)
    streams.arrived(reached)
    return reached, drawn


def test_the_stream_at_a_node_is_what_its_first_draw_began_with() -> None:
    """Others may draw from the shared generators between the step that led to a node and the one that leaves it."""
    streams = GlobalStreams()
    random.seed(0)
    streams.begin(lambda: None)
    root = node(0, None)
    quiet, _ = step(streams, root, 1, draws=0)
    random.random()  # an agent
    first, drawn_one = step(streams, quiet, 2)
    random.random()  # an agent
    _, drawn_two = step(streams, first, 3)
    outside = random.getstate()
    for source, expected in ((first, drawn_two), (quiet, drawn_one), (root, drawn_one), (first, drawn_two)):
        streams.rewind(source)
        assert step(streams, source, 9)[1] == expected
    assert random.getstate() == outside


def test_an_environment_that_draws_nothing_touches_nothing() -> None:
    streams = GlobalStreams()
    streams.begin(lambda: None)
    root = node(0, None)
    leaf, _ = step(streams, root, 1, draws=0)
    before = random.getstate()
    streams.rewind(root)
    streams.reseed(np.random.SeedSequence(1))
    step(streams, leaf, 2, draws=0)
    assert random.getstate() == before
    assert not streams.used


def test_reseeding_gives_the_environment_a_private_stream() -> None:
    drawn = []
    for entropy in (1, 1, 2):
        streams = GlobalStreams()
        streams.begin(random.random)
        assert streams.used
        before = random.getstate()
        streams.reseed(np.random.SeedSequence(entropy))
        drawn.append(step(streams, node(0, None), 1)[1])
        assert random.getstate() == before
    assert drawn[0] == drawn[1] != drawn[2]


def test_a_new_episode_is_back_on_the_shared_generators() -> None:
    streams = GlobalStreams()
    streams.begin(random.random)
    streams.reseed(np.random.SeedSequence(1))
    before = random.getstate()
    streams.begin(random.random)
    assert random.getstate() != before
