"""The answers that are allowed: texts that match a pattern, or one of several choices."""

from glassformer.inference.allowed.constraint import Constraint, options_of

__all__ = ["Constraint", "options_of"]
