"""Runs of several trainings: studies of what languages share, and from one language to another."""
