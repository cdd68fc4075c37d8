"""A table scored: how good a model is on pairs that it did not see."""

from glassformer.evaluation.report import Example, Measure, Report, evaluate, score_texts

__all__ = ["Example", "Measure", "Report", "evaluate", "score_texts"]
