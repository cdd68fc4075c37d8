"""Operations written for speed, and what makes them fast. None of this is in the paper.

cpu            memory and threads of a CPU
dropout        dropout that draws few random bits, alone and in one pass with ReLU
packing        tokens of a batch without padding, and where attention needs them padded
"""
