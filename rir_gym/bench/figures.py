"""From a run's records to the figures of its cells: each with its interval and the n behind it; None where unknown.

An episode is reduced to tallies at once, so that a run of any size fits into memory. This module knows no mechanism and
no environment by name.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rir_gym.bench.bootstrap import Figure, iqm_figure, paired_bootstrap, ratio_figures
from rir_gym.bench.knowing import KNOWING, knowing_tallies
from rir_gym.bench.metrics import wilson
from rir_gym.bench.sidecar import Truth
from rir_gym.bench.tree import common, recoveries
from rir_gym.bench.truth import TRUTH, Tally, truth_tallies
from rir_gym.errors import UsageError

__all__ = ["COUNTED", "CellFigures", "EpisodeFigures", "cell_figures", "episode_figures", "margin"]

COUNTED = (
    "agent_calls",
    "steps",
    "requests",
    "reviews",
    "coarse",
    "fine",
    "patches",
    "rollbacks",
    "corrections",
    "abandoned",
    "auxiliary",
    "subrequests",
    "reasks",
    "unreadable",
    "prompt_tokens",
    "reused_tokens",
    "generated_tokens",
)


_NAMES = ("score", *COUNTED, "depth", *TRUTH, *KNOWING)


@dataclass(frozen=True, slots=True)
class EpisodeFigures:
    """One episode, reduced to what a cell needs of it.

    Args:
        score: None where it is no finite number.
        tops, bottoms: its tallies, in the order of all names; a bottom of 0 is unknown.
        depths: of its rollbacks.
    """

    seed: int
    success: bool
    score: float | None
    tops: array[float]
    bottoms: array[float]
    depths: tuple[int, ...] = ()

    def tally(self, name: str) -> Tally:
        """(sum, how many) of one figure."""
        at = _NAMES.index(name)
        return self.tops[at], self.bottoms[at]


@dataclass(frozen=True, slots=True)
class CellFigures:
    """All figures of one cell by name.

    Args:
        n: episodes.
        figures: ``success`` (Wilson), ``score`` and ``iqm`` (of scores), ``COUNTED`` as means an episode, ``depth``
            as a mean a rollback, and the ratios of ``truth.TRUTH`` and ``knowing.KNOWING``.
        depths: how often each depth was rolled back.
        by_seed: success and score by seed, for paired differences.
    """

    n: int
    figures: Mapping[str, Figure]
    depths: Mapping[int, int]
    by_seed: Mapping[int, tuple[float, float | None]] = field(repr=False)
    labelled: int = 0

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values, without the seeds."""
        figures = {name: figure.to_json() for name, figure in self.figures.items()}
        depths = {str(depth): count for depth, count in sorted(self.depths.items())}
        return {"n": self.n, "labelled": self.labelled, "figures": figures, "depths": depths}


def episode_figures(record: Mapping[str, Any], truth: Truth | None) -> EpisodeFigures:
    """One record (schema 1), and what is known of it beside it, or None."""
    ledger, result, nodes = record["ledger"], record["result"], record["nodes"]
    tallies: dict[str, Tally] = {name: (float(ledger[name]), 1.0) if name in ledger else (0.0, 0.0) for name in COUNTED}
    depths = tuple(
        nodes[each.node]["step"] - nodes[common(nodes, each.node, each.target)]["step"]
        for each in recoveries(record)
        if each.done and each.target is not None and each.target != each.node
    )
    tallies["depth"] = (float(sum(depths)), float(len(depths)))
    tallies |= dict.fromkeys(TRUTH, (0.0, 0.0)) if truth is None else truth_tallies(record, truth)
    tallies |= knowing_tallies(record, truth)
    score = result["score"]
    known = None if isinstance(score, dict) or not math.isfinite(score) else float(score)
    tallies["score"] = (0.0, 0.0) if known is None else (known, 1.0)
    tops, bottoms = (array("d", [tallies[name][part] for name in _NAMES]) for part in (0, 1))
    return EpisodeFigures(record["header"]["seed"], bool(result["success"]), known, tops, bottoms, depths)


def cell_figures(episodes: Sequence[EpisodeFigures], *, labelled: int = 0) -> CellFigures:
    """The figures of one cell; the order of its episodes does not matter.

    Raises:
        UsageError: no episodes, or a seed twice.
    """
    if not episodes:
        raise UsageError("episodes=[]: a cell needs at least one")
    ordered = sorted(episodes, key=lambda episode: episode.seed)
    by_seed = {episode.seed: (float(episode.success), episode.score) for episode in ordered}
    if len(by_seed) != len(ordered):
        raise UsageError("episodes: a seed stands there twice")
    tops, bottoms = [episode.tops for episode in ordered], [episode.bottoms for episode in ordered]
    figures = dict(zip(_NAMES, ratio_figures(tops, bottoms), strict=True))
    rate, low, high = wilson(sum(episode.success for episode in ordered), len(ordered))
    scores = [episode.score for episode in ordered if episode.score is not None]
    iqm = iqm_figure([scores]) if scores else Figure(None, None, None, 0)
    whole = {"success": Figure(rate, low, high, len(ordered)), "iqm": iqm, **figures}
    depths = Counter(depth for episode in ordered for depth in episode.depths)
    return CellFigures(len(ordered), whole, dict(depths), by_seed, labelled)


def margin(a: CellFigures, b: CellFigures) -> Figure:
    """Success of a minus success of b on the seeds that both have, with its paired bootstrap interval."""
    seeds = sorted(a.by_seed.keys() & b.by_seed.keys())
    if not seeds:
        return Figure(None, None, None, 0)
    return paired_bootstrap([a.by_seed[s][0] for s in seeds], [b.by_seed[s][0] for s in seeds])
