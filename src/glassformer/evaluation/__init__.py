"""Metrics, reports on a table, comparisons, calibration, and where a model fails."""
