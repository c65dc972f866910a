"""Simulated jobs with faults of known truth."""
