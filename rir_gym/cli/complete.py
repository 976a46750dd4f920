"""What shell completion offers for a value: each function gives what begins with what was typed, and never raises."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress

__all__ = ["env_ids", "mechanisms", "one_of", "suites"]


def one_of(*names: str) -> Callable[[str], list[str]]:
    """These words."""

    def offered(incomplete: str) -> list[str]:
        return _beginning(names, incomplete)

    return offered


def env_ids(incomplete: str) -> list[str]:
    """The ids of this distribution; another one's can be typed as well."""
    from rir_gym.ids import IDS

    return _beginning([known.id for known in IDS], incomplete)


def mechanisms(incomplete: str) -> list[str]:
    """Every mechanism."""
    with suppress(Exception):
        from rir_policies.mechanisms import MECHANISMS

        return _beginning(MECHANISMS, incomplete)
    return []


def suites(incomplete: str) -> list[str]:
    """The suites that come along."""
    with suppress(Exception):
        from rir_gym.bench.suite_file import suite_names

        return _beginning(suite_names(), incomplete)
    return []


def _beginning(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]
