"""Sections of pages, by what was measured."""
