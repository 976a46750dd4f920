"""Signals are computed from the branch alone."""

import numpy as np

from rir_gym.base import Signals, Step
from rir_gym.signals import signals


def branch(*pairs):
    return tuple(Step(action, observation) for action, observation in pairs)


def test_nothing_before_the_first_action():
    assert signals(branch((None, "a"))) == Signals(0, (), 0)


def test_repeated_actions_count_the_run_at_the_end():
    assert signals(branch((None, "a"), ("x", "b"), ("y", "c"), ("y", "d"))).repeated_actions == 2
    assert signals(branch((None, "a"), ("y", "b"), ("x", "c"), ("y", "d"))).repeated_actions == 1


def test_no_effect_steps_and_cycles():
    found = signals(branch((None, "a"), ("x", "a"), ("y", "b"), ("z", "a")))
    assert found.no_effect_steps == (1,)
    assert found.cycle_length == 2


def test_array_observations_are_compared_by_content():
    history = branch((None, np.zeros(3)), (0, np.zeros(3)), (1, np.ones(3)))
    assert signals(history).no_effect_steps == (1,)


def test_dict_observations_of_arrays_do_not_raise():
    history = branch((None, {"a": np.zeros(2)}), (0, {"a": np.zeros(2)}))
    assert signals(history).no_effect_steps == (1,)
