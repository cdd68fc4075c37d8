"""Answers that are allowed: those that match a pattern, or one of several choices."""

from glassformer.inference.allowed.constraint import UNMATCHED, Constraint, options_of

__all__ = ["UNMATCHED", "Constraint", "options_of"]
