"""The experiment that compares mechanisms: suites as data, statistics, ground truth, tables.

Nothing here knows a mechanism or an environment by name; ``rir_gym.cli.bench`` brings them together.
"""
