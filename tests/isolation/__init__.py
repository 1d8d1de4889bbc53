"""Simulated fleets with known faults, and how often the planner finds them and blames somebody else."""
