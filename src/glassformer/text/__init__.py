"""How text becomes tokens, and tokens become text again.

    learn(texts, settings) ──┐
    ascii68() ───────────────┼──> Tokenizer = SideSettings + Vocabulary + a way of cutting text
    Tokenizer.from_dict() ───┘

    normal_form   a text in the form in which it is cut
    cutters       the ways of cutting that need no library: characters, words, bytes
    subwords      the one that does
    vocabulary    pieces <-> ids, special tokens among them
    tokenizer     all of these in a row: text <-> ids
    saved         a tokenizer as it stands in a model file
    learning      the pieces, from example texts

Special tokens live outside of that path: a user's "<eos>" is cut like any other text and never finds the
special one. A tokenizer is saved as settings, pieces and numbers; the rules of cutting are code, and never
come from a file.
"""

from glassformer.text.learning import ascii68, learn
from glassformer.text.tokenizer import Tokenizer
from glassformer.text.vocabulary import SPECIALS, Vocabulary

__all__ = ["SPECIALS", "Tokenizer", "Vocabulary", "ascii68", "learn"]
