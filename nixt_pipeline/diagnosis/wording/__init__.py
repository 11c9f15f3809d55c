"""Findings in sentences: the same for the terminal, Markdown, HTML and JSON."""
