"""What runs a search: PyTorch."""
