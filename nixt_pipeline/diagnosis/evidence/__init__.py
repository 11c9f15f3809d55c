"""What the log shows, read once: the only place of the diagnosis with SQL."""
