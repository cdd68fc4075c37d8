"""What computes: PyTorch, its devices, libraries compiled from C, and the processes of a run."""
