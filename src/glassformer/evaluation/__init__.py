"""Evaluation of a model on the pairs of a table."""

from glassformer.evaluation.report import Example, Measure, Report, TrainedOn, evaluate, score_texts

__all__ = ["Example", "Measure", "Report", "TrainedOn", "evaluate", "score_texts"]
