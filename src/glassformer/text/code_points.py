"""Many texts as one array of code points, so that the characters of millions of rows are counted and looked up fast."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from glassformer.settings import SideSettings
from glassformer.text.normalization import normalized

N_CODE_POINTS = 0x110000


def code_points(texts: Sequence[str], settings: SideSettings) -> NDArray[np.uint32] | None:
    """Return the code points of the normalized texts, NUL after each; None if a text has NUL or a lone surrogate.

    NUL composes with no character and is no letter, so the joined texts are normalized as each by itself.
    """
    joined = "".join([f"{text.strip() if settings.trim else text}\0" for text in texts])
    try:
        codes = np.frombuffer(normalized(joined, settings).encode("utf-32-le"), np.uint32)
    except UnicodeEncodeError:
        return None
    return codes if np.count_nonzero(codes == 0) == len(texts) else None
