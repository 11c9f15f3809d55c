"""Loaded by the server from which workers are forked: importing it readies everything that decoding needs."""

from nixt_pipeline.inspector.template import TemplateDecoder
from nixt_pipeline.settings import Thresholds
from nixt_pipeline.store import parts

__all__ = ["parts"]

# Loads the compiled scanner, or compiles it the first time.
list(TemplateDecoder(0, Thresholds()).decode(b"\n"))
