"""The format of CTranslate2, for `ctranslate2.Translator` in Python and C++.

A folder with `model.bin`, its vocabularies, `glassformer.json` (tokenizers, search) and `run.py`. The tokens of the
library are named by their ids (`s12` of a source, `12` of a target): written forms could be those of special tokens.
`text.py` makes ids of a text and text of ids.
"""

from __future__ import annotations

from pathlib import Path

from glassformer.ship.export import ctranslate2_spec
from glassformer.ship.export.programs import Format, max_positions, script_answers, write_programs
from glassformer.ship.storage.modelfile import ModelFile


def check_supported(model_file: ModelFile) -> None:
    """Raise SettingsError for a model that the library cannot represent, MissingExtraError without the library."""
    ctranslate2_spec.library()
    ctranslate2_spec.check_supported(model_file.settings.model)


def write(model_file: ModelFile, folder: Path, precision: str) -> None:
    """Write the folder."""
    quantization = None if precision == "float32" else precision
    ctranslate2_spec.write_model(model_file, folder, max_positions(model_file), quantization)
    write_programs(model_file, folder, "ctranslate2_engine.py")


FORMAT = Format(
    precisions=("float32", "int8", "float16"),
    beam="own",  # it gives the slot of a finished hypothesis to another one
    packages=("glassformer", "ctranslate2", "numpy"),
    check_supported=check_supported,
    write=write,
    answer=script_answers,
    holds_members=False,
)
