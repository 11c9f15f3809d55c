"""Simulated jobs: what their ranks do and the log that it leaves (`job`), and those of `nixt demo` (`demo`)."""
