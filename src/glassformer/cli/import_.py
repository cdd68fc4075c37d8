"""`glassformer import`: a MarianMT model (OPUS-MT) as a model file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Option

from glassformer.cli.console import Quiet, Reporter, check_output
from glassformer.cli.options import MarianFolder
from glassformer.errors import MissingExtraError
from glassformer.runtime.pytorch import check_pytorch


def import_(
    folder: MarianFolder,
    out: Annotated[Path, Option("--out", "-o", metavar="FILE", help="The model file to write.")],
    overwrite: Annotated[bool, Option("--overwrite", help="Replace --out.")] = False,
    quiet: Quiet = False,
) -> None:
    """Read a MarianMT model of Hugging Face, such as those of OPUS-MT, and write it as a model file.

    DIR is a folder with config.json, source.spm, target.spm, vocab.json and model.safetensors or pytorch_model.bin, or
    hf://owner/name. It is compared with transformers where that is installed, before anything is written.

    Examples:
        glassformer import opus-mt-en-de --out en-de.safetensors
        glassformer import hf://Helsinki-NLP/opus-mt-en-de --out en-de.safetensors
    """
    check_output(out, "--out", overwrite=overwrite)
    check_pytorch("glassformer import")
    from glassformer.export.agreement import compare_with_transformers
    from glassformer.storage.importers.marian import import_marian

    reporter = Reporter(quiet=quiet)
    model_file = import_marian(folder)
    model = model_file.settings.model
    layers = f"{model.n_encoder_layers} encoder and {model.n_decoder_layers} decoder layers of width {model.d_model}"
    reporter.print(f"{len(model_file.target_tokenizer):,} tokens, {layers}, {model_file.n_parameters:,} parameters")
    try:
        reporter.print(compare_with_transformers(model_file, folder))
    except MissingExtraError as error:
        reporter.warn(f"not compared with transformers: {error.what}")
    model_file.save(out)
    reporter.success(f"wrote {out} ({out.stat().st_size / 1e6:,.0f} MB)")
