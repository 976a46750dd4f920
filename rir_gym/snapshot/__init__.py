"""Snapshot mechanisms, one a file, behind one small protocol."""
