"""Data quality: rules about a run's data and the verdicts on them. No Dagster.

`verdicts` says what a rule and a verdict are, `expectations` runs Great Expectations over small tables, and the other
modules hold the rules of each stage. Nothing here changes data; a blocking rule only says that going on would be
wrong.
"""
