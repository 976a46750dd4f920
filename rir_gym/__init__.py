"""rir-gym: checkpoint any Gymnasium text environment, roll it back, and study when, where and what to remember."""
