"""How text becomes tokens, and tokens become text again.

    learn(texts, settings) ──┐
    ascii68() ───────────────┼──> Tokenizer = SideSettings + Vocabulary + a way of cutting text
    Tokenizer.from_dict() ───┘

A text is brought to its normal form (`normal_form`), cut into pieces (`cutters`, `subwords`), and each piece is
looked up (`vocabulary`); `tokenizer` does the three in a row. `learning` finds the pieces in example texts, `saved`
is a tokenizer as it stands in a model file.

Special tokens live outside of that path: a user's "<eos>" is cut like any other text and never finds the
special one. A tokenizer is saved as settings, pieces and numbers; the rules of cutting are code, and never
come from a file.
"""

from glassformer.text.learning import ascii68, learn
from glassformer.text.tokenizer import Tokenizer
from glassformer.text.vocabulary import SPECIALS, Vocabulary

__all__ = ["SPECIALS", "Tokenizer", "Vocabulary", "ascii68", "learn"]
