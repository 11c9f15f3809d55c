"""A stretch of time."""

# From and until, in Unix microseconds.
Span = tuple[int, int]
