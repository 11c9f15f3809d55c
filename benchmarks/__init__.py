"""Measurements of this project against known truths and against other tools; not part of what is installed."""
