"""The fleet: what changed from run to run, what is usual, and which hosts are named again and again.

Works on small results of each run, never on events.
"""
