"""Records as training data: what each format takes of a tree, and how it leaves this package (docs/exports.md)."""

from rir_gym.data.exports.export import FORMATS, Encode, ExportReport, Plan, Shape, export
from rir_gym.data.exports.moments import Moment, moments
from rir_gym.data.exports.tasks import Split
from rir_gym.data.exports.turns import Render, Turn, turns_of

__all__ = [
    "FORMATS",
    "Encode",
    "ExportReport",
    "Moment",
    "Plan",
    "Render",
    "Shape",
    "Split",
    "Turn",
    "export",
    "moments",
    "turns_of",
]
