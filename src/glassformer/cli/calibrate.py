"""`glassformer calibrate`: the probability that an answer is right, fitted on a table."""

from __future__ import annotations

from dataclasses import replace

from glassformer.cli import options as opt
from glassformer.cli.console import Reporter


def calibrate(
    model: opt.Model,
    table: opt.PairTable,
    columns: opt.Columns,
    reporter: Reporter,
    beam: opt.Beam = None,
    device: opt.Device = "auto",
) -> None:
    """Fit the probability that an answer is right on a table that was not trained on, and write it into the model.

    `train` does this at its end, with its held-out rows. Weights and answers stay as they are.
    """
    from glassformer.inference.calibration import calibrate
    from glassformer.inference.translator import Translator
    from glassformer.ship.storage.modelfile import ModelFile
    from glassformer.ship.storage.rundirectory import RunDirectory

    model_file = ModelFile.load(model)
    assert model_file.path is not None
    pairs = columns.read(reporter, table, model_file)
    translator = Translator(model_file, device=device)
    found = calibrate(translator, pairs.pairs, table=pairs.path, where=pairs.locations, num_beams=beam)
    with RunDirectory(model_file.path.parent).locked():
        replace(model_file, calibration=found).save(model_file.path)
    reporter.result(found.to_dict(), lambda: reporter.success(f"{found.summary}; wrote {model_file.path}"))
