"""`glassformer calibrate`: the confidence of answers, fitted on a table."""

from __future__ import annotations

from dataclasses import replace

from glassformer.cli import options as opt
from glassformer.cli.console import Reporter
from glassformer.errors import counted


def calibrate(
    model: opt.Model,
    table: opt.PairTable,
    columns: opt.ColumnOptions,
    reporter: Reporter,
    beam: opt.Beam = None,
    device: opt.Device = "auto",
) -> None:
    """Fit the confidence of answers on a table that was not trained on, and write it into the model.

    Confidence is the probability that an answer is right.

    `train` does this at its end, with its held-out rows. Weights and answers stay as they are. Rows with a source that
    was trained on are left out.

    Examples:
        glassformer calibrate run more.csv
        glassformer calibrate run more.csv --beam 8
    """
    from glassformer.evaluation.calibration import calibrate
    from glassformer.inference.translator import Translator
    from glassformer.storage.modelfile import ModelFile, find_model
    from glassformer.storage.rundirectory import RunDirectory

    path = find_model(model)
    with RunDirectory(path.parent).locked():  # no training replaces the model meanwhile
        model_file = ModelFile.load(path)
        pairs = columns.read(reporter, table, model_file)
        translator = Translator(model_file, device=device)
        calibration = calibrate(translator, pairs.pairs, table=pairs.path, where=pairs.locations, num_beams=beam)
        replace(model_file, calibration=calibration).save(path)
        trained = translator.trained_sources
        if n_trained := int(trained.contains(pair.source for pair in pairs.pairs).sum()):
            reporter.warn(f"{counted(n_trained, 'row')} of {len(pairs.pairs):,} left out: the source was trained on")
        if trained.unknown:
            reporter.warn(f"there may be rows whose source was trained on, because {trained.unknown}")
    reporter.result(calibration.to_dict(), lambda: reporter.success(f"{calibration.summary}; wrote {path}"))
