"""Policies of rir-gym: models and the four roles."""
