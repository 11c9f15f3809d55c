"""Tests of `nixt_pipeline.simulation`."""
