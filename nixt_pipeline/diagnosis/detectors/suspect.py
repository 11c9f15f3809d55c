"""What detectors find, before it is put into words."""


class Suspect:
    """Something that may be wrong. What its fields mean is said by the detector that finds it."""
