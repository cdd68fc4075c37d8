"""Evidence for an answer, because attention weights alone are not an explanation (Jain and Wallace 2019).

It is occlusion, and the effect of each head.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from glassformer.data.tables import Pair
from glassformer.evaluation.metrics import exact_matches, group_by_source
from glassformer.glassbox.forward import ForwardPass
from glassformer.glassbox.run_records import HeadEffect, HeadEffects
from glassformer.glassbox.whatif import Edits, HeadOff, attentions
from glassformer.inference.translator import Translator
from glassformer.settings import DecodingSettings
from glassformer.storage.modelfile import ModelFile

Numbers = NDArray[np.float64]


def occlude(forward: ForwardPass, fed: Sequence[int], targets: Sequence[int], unknown_id: int | None) -> Numbers:
    """The decrease of the log-probability of each output token without each source token `[T S]`.

    A token is replaced by `unknown_id`, or if that is None, hidden by the masks of encoder and cross-attention.
    """
    ids, visible = (np.tile(row, (len(forward.ids) + 1, 1)) for row in (forward.ids, forward.visible))  # [S+1 S]
    if unknown_id is None:
        np.fill_diagonal(visible[1:], False)
    else:
        np.fill_diagonal(ids[1:], unknown_id)
    changed = np.flatnonzero((ids != ids[0]).any(axis=1) | (visible != visible[0]).any(axis=1))
    rows = [0, *changed]  # without rows that equal the source itself, which make no difference
    before, without_token = np.split(forward.scores_of(ids[rows], visible[rows], fed, targets), [1])  # [1 T], [n T]
    decrease = np.zeros((len(forward.ids), len(targets)))
    decrease[changed - 1] = before - without_token
    return decrease.T


def head_effects(
    model_file: ModelFile,
    pairs: Sequence[Pair],
    *,
    decoding: DecodingSettings | None = None,
    where: Sequence[str] | None = None,
) -> HeadEffects:
    """Translate the sources once with the whole model, and once for each head, whose columns of W_O are zero in a copy.

    Pairs of one source (in NFC) are one item, and any of its targets is right. `where[i]` names pair i in errors.
    """
    items = group_by_source(pairs)
    sources, references = [item.source for item in items], [item.references for item in items]
    names = None if where is None else [where[item.row] for item in items]
    model = model_file.settings.model

    def right_with(*edits: HeadOff) -> NDArray[np.bool_]:
        edited = replace(model_file, tensors=Edits(edits).weights(model_file.tensors, model))
        translator = Translator(edited)
        answers = translator.translate(sources, decoding=decoding, where=names)
        return exact_matches([answer.text for answer in answers], references) > 0

    whole = right_with()
    effects = []
    for name in attentions(model):
        for head in range(model.n_heads):
            right = right_with(HeadOff(name, head))
            newly_wrong, newly_right = int((whole & ~right).sum()), int((~whole & right).sum())
            effects.append(HeadEffect(name, head, float(right.mean()), newly_wrong, newly_right))
    return HeadEffects(len(pairs), len(items), float(whole.mean()), effects)
