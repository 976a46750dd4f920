"""What an installed rir-gym must do, run from a folder that has nothing of the checkout: `python smoke.py FILE...`.

The arguments are the files of the checkout's three packages, relative to where packages are installed.
"""

from __future__ import annotations

import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import gymnasium as gym

import rir_gym as rg
from rir_envs.apothecary_policies import Expert, evidence_localizer, evidence_reviewer
from rir_gym.testing import check_restore
from rir_policies.mechanisms import MECHANISMS, NEEDS_MODEL
from rir_policies.scripted import ScriptedPatch

home = Path(str(files("rir_gym"))).parent
assert not (home / "pyproject.toml").exists(), f"{home} is a checkout, not an installation"
missing = [name for name in sys.argv[1:] if not (home / name).is_file()]
assert not missing, f"not installed: {missing}"
for package in ("rir_gym", "rir_envs", "rir_policies"):
    assert files(package).joinpath("py.typed").is_file(), package
heavy = {"torch", "transformers", "textworld", "rir_envs.textworld"} & set(sys.modules)
assert not heavy, heavy

for make in (lambda: gym.make("FrozenLake-v1"), lambda: gym.make("rir_gym/Apothecary-v0")):
    print(check_restore(make, restores=40))
env = gym.make("rir_gym/WorkspaceRollback-v0")
env.reset(seed=0)
env.close()
for name, build in MECHANISMS.items():
    if name in NEEDS_MODEL:
        continue
    pieces = {"act": Expert(), "reviewer": evidence_reviewer, "where": evidence_localizer, "what": ScriptedPatch()}
    world = rg.RollbackWrapper(gym.make("rir_gym/Apothecary-v0"))
    [episode] = rg.run([world], build(**pieces), budget=rg.Budget(28), seeds=[3])
    assert episode.ledger.agent_calls > 0, name
tool = Path(sys.executable).with_name("rir-gym")
for command in (["--help"], ["envs"], ["demo", "--episodes", "20", "--sweep-episodes", "10"], ["bench"]):
    done = subprocess.run([str(tool), *command], capture_output=True, text=True)
    assert done.returncode == 0, (command, done.stdout, done.stderr)
print(f"smoke: Python {sys.version.split()[0]}, gymnasium {gym.__version__}, {len(sys.argv) - 1} files, all well")
