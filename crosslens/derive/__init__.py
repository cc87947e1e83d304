"""Derived languages: a text turned into another one by a rule, with its labels, its trees and the
way back.

:mod:`crosslens.derive.transformation` says what a transformation is.
"""
