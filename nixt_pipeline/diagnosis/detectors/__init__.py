"""What may be wrong, from the evidence: one module for each cause."""
