"""Colours, defined once: the same placement class has the same colour in every figure and table.

Okabe and Ito's palette, which people with any of the common colour-vision deficiencies can tell apart; only members
that stand out against both the light and the dark page are used.
"""

COLL_TYPE_COLOURS = {
    "nic-only": "#0072B2",
    "nvlink-only": "#009E73",
    "mixed": "#D55E00",
    "single-rank": "#CC79A7",
}
# The two ends of a message, in Paul Tol's "muted" scheme: apart from the placements above.
COLL_COLOURS = {"Send": "#117733", "Recv": "#BB7700"}

# What a time consists of, wherever waiting and transfer are separated.
WAIT_COLOUR = "#E69F00"
TRANSFER_COLOUR = "#56B4E9"
# Variation between ranks, and of each rank over time.
VARIATION_COLOURS = ("#332288", "#AA99DD")
# An onset, an excess: what the eye should go to.
ALERT_COLOUR = "#D55E00"

# Records without a communicator shape, and whatever a later version calls something new.
OTHER_COLOUR = "#888888"

# Readable on white and on near-black; the pages' style sheet replaces it for text with the page's own text colour.
INK = "#777777"

# Okabe and Ito's sky blue, for bars that stand for no placement.
NEUTRAL_COLOUR = "#56B4E9"

# One colour per decade of a count, monotonic in brightness (ColorBrewer's YlGnBu). They need an outline.
DECADE_COLOURS = ("#ffffcc", "#c7e9b4", "#7fcdbb", "#41b6c4", "#1d91c0", "#225ea8", "#0c2c84")

# Classes of a share, from 0 on: up to which share, and its colour (ColorBrewer's OrRd, monotonic in brightness).
SHARE_CLASSES = (
    (0.01, "#fff7ec"),
    (0.05, "#fdd49e"),
    (0.10, "#fdbb84"),
    (0.25, "#fc8d59"),
    (0.50, "#d7301f"),
    (1.00, "#7f0000"),
)


def colour_of(coll_type: str | None) -> str:
    """The colour of a placement class."""
    return COLL_TYPE_COLOURS.get(coll_type or "", OTHER_COLOUR)
