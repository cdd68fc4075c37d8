"""The minimum memory of a run, checked before work begins: a lower bound, so that nothing that fits is refused."""

from __future__ import annotations

from glassformer.inference.engines.memory import FLOAT, check_fits
from glassformer.settings import Settings, TrainingSettings
from glassformer.storage.modelfile import count_parameters

SMALLEST_VOCABULARY = 4


def copies_of_weights(training: TrainingSettings) -> int:
    """Return how often a training has each weight: itself, its gradient, Adam's two means; with wsd, its average."""
    return 5 if training.schedule == "wsd" else 4


def check_training_fits(
    settings: Settings,
    device: str,
    sizes: tuple[int, int] = (SMALLEST_VOCABULARY, SMALLEST_VOCABULARY),
    n_tokens: int = 0,
) -> None:
    """Raise DeviceError for a model or a batch that the device cannot hold in training.

    `sizes` are sizes of vocabularies, `n_tokens` the tokens of the longer side of all rows. A batch counts
    with the output of each layer only, for a quarter of its tokens, because padding counts against its size.
    """
    model, training = settings.model, settings.training
    n_parameters = count_parameters(model, *sizes)
    weights = n_parameters * copies_of_weights(training) * FLOAT
    batch_tokens = min(training.batch_tokens // 4, n_tokens)
    batch = batch_tokens * model.d_model * max(model.n_encoder_layers, model.n_decoder_layers) * FLOAT
    check_fits(
        device,
        weights + batch,
        "train this model",
        f"{n_parameters:,} parameters in float32, their gradients and means, and a batch of "
        f"{training.batch_tokens:,} tokens",
        "a smaller model.d_model, model.d_ff, model.max_length, number of layers or heads, or vocabulary; or a smaller "
        "training.batch_tokens, with training.accumulate for the same update",
    )
