"""rir-gym: checkpoint any Gymnasium text environment, roll it back, and study when, where and what to remember.

The public names below are the core; environments live in ``rir_envs``, models and roles in ``rir_policies``. Importing
this package registers its environment ids and loads neither torch nor transformers nor a game engine.
"""

from rir_gym.base import (
    Checkpoint,
    Decision,
    DecisionKind,
    Mechanism,
    Node,
    Patch,
    Restore,
    RestorePoint,
    Restriction,
    Step,
    Verdict,
    VerdictKind,
    View,
)
from rir_gym.episode import Episode
from rir_gym.errors import MechanismError, NotRestorable, RirError, RollbackRefused, UsageError
from rir_gym.ids import register_ids
from rir_gym.ledger import Budget, Ledger
from rir_gym.loop import run
from rir_gym.memory import Fact, ReflectionMemory
from rir_gym.rollback import RollbackWrapper
from rir_gym.snapshot.native import register_adapter
from rir_gym.spaces import Unicode

__all__ = [
    "Budget",
    "Checkpoint",
    "Decision",
    "DecisionKind",
    "Episode",
    "Fact",
    "Ledger",
    "Mechanism",
    "MechanismError",
    "Node",
    "NotRestorable",
    "Patch",
    "ReflectionMemory",
    "Restore",
    "RestorePoint",
    "Restriction",
    "RirError",
    "RollbackRefused",
    "RollbackWrapper",
    "Step",
    "Unicode",
    "UsageError",
    "Verdict",
    "VerdictKind",
    "View",
    "register_adapter",
    "run",
]

__version__ = "0.1.0"

register_ids()
