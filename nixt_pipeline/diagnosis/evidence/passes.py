"""Passes of the plugin's dump thread, each of which writes what was completed since the one before."""

# Passes are at least so far apart (the shortest interval in the plugin's documentation is 500 us).
PASS_US = 400
# Records of one pass are written within this, in no order.
SAME_PASS_US = 1_000
# Most of them within this: what one pass wrote of a communicator is no further apart.
ADJACENT_US = 20
