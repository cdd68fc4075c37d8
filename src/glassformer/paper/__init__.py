"""The system of the paper: settings, the model in PyTorch and in NumPy, its kernels, and the search."""
