"""Environments of rir-gym, one a file."""
