"""Fast implementations of operations. None of this is in the paper.

    attention         equation 1 of padded sentences, by the fastest kernel for a device
    cpu               memory and threads of a CPU
    dropout           dropout, on a CPU in C
    library           what is compiled from C
    packed_attention  equation 1 of packed sentences in training on a CPU, in C
    packing           tokens of a batch without padding, and where attention needs them padded
    products          matrix products of several layers at once

Each equals a few lines of PyTorch; a test compares the two.
"""
