"""Operations written for speed, and what makes them fast. None of this is in the paper.

    attention      equation 1, by the kernel that is the fastest for a device, a precision and a length
    cpu            memory and threads of a CPU
    cross_entropy  output layer, label-smoothed loss and both gradients in one pass
    dropout        dropout that draws few random bits, alone and in one pass with ReLU
    packing        tokens of a batch without padding, and where attention needs them padded
    products       matrix products of several layers at once; weights laid out beforehand, for search

Each computes what a few lines of PyTorch would; a test holds it to those lines.
"""
