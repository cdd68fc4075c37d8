"""The format of CTranslate2, for `ctranslate2.Translator` in Python and C++."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import final

from glassformer.inference.engines.ctranslate2_spec import check_supported, library, write_model
from glassformer.inference.translator import Source
from glassformer.ship.export.answer import Answer, run_script
from glassformer.ship.export.check import Beam
from glassformer.ship.export.description import copy_program, max_positions, write_description
from glassformer.ship.storage.modelfile import ModelFile


@final
class CTranslate2Format:
    """A folder with `model.bin`, its vocabularies, `glassformer.json` (tokenizers, search) and `run.py`.

    The tokens of the library are named by their ids (`s12` of a source, `12` of a target): written forms could be those
    of special tokens. `text.py` makes ids of a text and text of ids.
    """

    precisions = ("float32", "int8", "float16")
    beam: Beam = "own"  # it gives the slot of a finished hypothesis to another one
    packages = ("glassformer", "ctranslate2", "numpy")

    def check_supported(self, model_file: ModelFile) -> None:
        library()
        check_supported(model_file.settings.model)

    def write(self, model_file: ModelFile, folder: Path, precision: str) -> None:
        quantization = None if precision == "float32" else precision
        write_model(model_file, folder, max_positions(model_file), quantization)
        copy_program(model_file, folder, "ctranslate2_engine.py")
        write_description(model_file, folder)

    def answer(self, folder: Path, texts: Sequence[Source], num_beams: int) -> list[Answer]:
        return run_script(folder, texts, num_beams)
