"""Probes of an encoder: from a battery of tasks and a folder to scores."""
