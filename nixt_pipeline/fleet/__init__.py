"""The fleet: what changed from run to run, what is usual, and which hosts are flagged repeatedly.

Works on small results of each run, never on events.
"""
