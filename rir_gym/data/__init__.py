"""Episode records: what one is, the files and stores they go into, and how many are collected at once."""

from rir_gym.data.read import BadLine, ReadReport, read_episodes

__all__ = ["BadLine", "ReadReport", "read_episodes"]
