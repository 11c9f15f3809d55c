"""One run, or several, against others: whether they became slower, and by how much."""
