"""glassformer."""
