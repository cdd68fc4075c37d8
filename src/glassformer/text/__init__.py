"""Conversion of text to tokens, and of tokens to text.

    learn(texts, settings) ──┐         learn_both(pairs, settings) does it for both sides
    ascii68() ───────────────┼──> Tokenizer = SideSettings + Vocabulary + a segmenter
    Tokenizer.from_dict() ───┘

Text never becomes a special token: a user's "<eos>" is split like any other text and never matches the special
one. A tokenizer is saved as settings, pieces and numbers. The rules of segmentation are code and are never read from
a file.
"""

from glassformer.text.learning import ascii68, grow, grow_both, learn, learn_both
from glassformer.text.segmenters import SPECIALS
from glassformer.text.tokenizer import Tokenizer
from glassformer.text.vocabulary import Vocabulary

__all__ = ["SPECIALS", "Tokenizer", "Vocabulary", "ascii68", "grow", "grow_both", "learn", "learn_both"]
