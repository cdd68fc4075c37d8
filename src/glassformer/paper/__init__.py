"""The system of the paper: settings, the model in PyTorch and in NumPy, and the search."""
