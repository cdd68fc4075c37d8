"""Decisions before a run, as values: audit of a table, advice on settings, the plan, and checks of a plan."""
