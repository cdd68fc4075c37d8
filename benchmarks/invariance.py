"""Whether a text has the same answer alone and in any batch, where two tokens are tied but for rounding.

    python -m benchmarks.invariance [--engine numpy|torch] [--texts N] [--seeds N]

Weights are random. A half of the target tokens have a twin, whose row of the output layer is the same but for noise, so
that every search meets ties. Each text is searched alone, with all others, in another order, and twice in one batch.
Counted are texts whose best answer or whose score (any bit of it) is not the one they have alone. With the engine of
NumPy, scores differ by rounding; answers never do.
"""

from __future__ import annotations

import argparse
import json
import random
from typing import Any

import torch

from glassformer.inference.engines import Engine, search
from glassformer.inference.engines.compiled import prepare
from glassformer.inference.engines.numpy import NumPyEngine
from glassformer.inference.engines.torch import TorchEngine
from glassformer.paper.model import Transformer
from glassformer.paper.search import Hypothesis
from glassformer.paper.settings import DecodingSettings, ModelSettings, SideSettings
from glassformer.text import learn

PAD, BOS, EOS, UNK = range(4)
SHAPES: dict[str, tuple[int, int, dict[str, Any]]] = {
    "characters": (68, 16, {"d_model": 128, "d_ff": 512, "n_heads": 4, "n_encoder_layers": 3, "n_decoder_layers": 3}),
    "prose": (8000, 30, {"d_model": 256, "d_ff": 1024, "n_heads": 4, "n_encoder_layers": 3, "n_decoder_layers": 3}),
}
"""Vocabulary, longest source and model."""
SEARCHES = {
    "greedy": DecodingSettings(num_beams=1),
    "beam 5": DecodingSettings(num_beams=5),
    "beam 5, n-best": DecodingSettings(num_beams=5, num_return_sequences=5),
}


def with_constructed_ties(kind: str, vocabulary: int, noise: float, seed: int, **changes: Any) -> Engine:
    """An engine in which every second token is as probable as the one before it, except for `noise` in its weights."""
    torch.manual_seed(seed)
    settings = ModelSettings(tied_embeddings="none", **changes)
    model = Transformer(settings, vocabulary, vocabulary).eval()
    with torch.no_grad():
        for layer in model.decoder:
            for weight in layer.cross_attention.parameters():
                weight *= 2  # so that the answer depends on the source
        rows = model.output_projection.weight
        rows *= 3
        twins = rows[4::2]
        rows[5::2] = twins[: len(rows[5::2])] + noise * torch.randn_like(rows[5::2])
    if kind == "torch":
        return TorchEngine([model], BOS, EOS, (PAD, BOS, UNK))
    weights = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    special = learn(["a"], SideSettings(kind="characters"))  # its special tokens have the same numbers
    return NumPyEngine([prepare(settings, weights)], special)


def sources_of(n: int, longest: int, vocabulary: int, seed: int) -> list[list[int]]:
    chance = random.Random(seed)
    return [[BOS, *(chance.randrange(4, vocabulary) for _ in range(chance.randint(1, longest))), EOS] for _ in range(n)]


def compare(engine: Engine, sources: list[list[int]], decoding: DecodingSettings, steps: int) -> dict[str, Any]:
    """How many texts have another answer, or another score, than alone; the largest difference of a token's score."""
    alone = [search(engine, [source], decoding, steps)[0] for source in sources]
    order = list(range(len(sources)))
    random.Random(0).shuffle(order)
    answers, scores, largest = set[int](), set[int](), 0.0
    for rows in (range(len(sources)), order, [*range(len(sources))] * 2):
        for row, found in zip(rows, search(engine, [sources[row] for row in rows], decoding, steps), strict=True):
            if [answer.ids for answer in found] != [answer.ids for answer in alone[row]]:
                answers.add(row)
            if found != alone[row]:
                scores.add(row)
            largest = max(largest, _difference(found[0], alone[row][0]))
    return {"answers": len(answers), "any bit": len(scores), "largest": largest}


def _difference(one: Hypothesis, other: Hypothesis) -> float:
    """Of the scores of tokens, up to where the answers part."""
    pairs = zip(one.ids, other.ids, one.token_scores, other.token_scores, strict=False)
    largest = 0.0
    for token, other_token, score, other_score in pairs:
        if token != other_token:
            break
        largest = max(largest, abs(score - other_score))
    return largest


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", choices=("numpy", "torch"), default="numpy")
    parser.add_argument("--texts", type=int, default=150)
    parser.add_argument("--seeds", type=int, default=1)
    options = parser.parse_args()
    for name, (vocabulary, longest, changes) in SHAPES.items():
        for noise in (1e-8, 1e-7, 1e-6):
            for seed in range(options.seeds):
                engine = with_constructed_ties(options.engine, vocabulary, noise, seed, **changes)
                sources = sources_of(options.texts, longest, vocabulary, seed)
                for kind, decoding in SEARCHES.items():
                    case = {
                        "engine": options.engine,
                        "model": name,
                        "noise": noise,
                        "seed": seed,
                        "search": kind,
                        "texts": len(sources),
                    }
                    print(json.dumps(case | compare(engine, sources, decoding, 12)), flush=True)


if __name__ == "__main__":
    main()
