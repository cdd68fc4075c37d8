"""The program that makes the automaton of a pattern, in a separate process: some patterns need endless memory.

It reads a JSON object from standard input: `pattern`, `tokens` (bytes of each, as Latin-1), `ids` (one for each token),
and the limits `n_bytes` and `seconds`. It writes 64-bit integers: the first state, the number of final states, these,
and three for each transition: state, token, next state. The status is REFUSED for an error of the library, which is
then on standard error.
"""

from __future__ import annotations

import contextlib
import json
import sys
from array import array
from typing import Any

REFUSED = 2


def main() -> int:
    request: dict[str, Any] = json.load(sys.stdin)
    with contextlib.suppress(ImportError):  # Windows has no such limits
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (request["n_bytes"],) * 2)
        resource.setrlimit(resource.RLIMIT_CPU, (request["seconds"],) * 2)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    from outlines_core import Index, Vocabulary

    ids_of: dict[bytes, list[int]] = {}
    for token, token_id in zip(request["tokens"], request["ids"], strict=True):
        ids_of.setdefault(token.encode("latin-1"), []).append(token_id)
    end = 1 + max(request["ids"])  # a token that the library requires
    try:
        index = Index(request["pattern"], Vocabulary(end, ids_of))
    except ValueError as error:
        sys.stderr.write(str(error))
        return REFUSED
    finals = sorted(index.get_final_states())
    numbers = array("q", [index.get_initial_state(), len(finals), *finals])
    for state, row in index.get_transitions().items():
        for token, target in row.items():
            if token != end:
                numbers.extend((state, token, target))
    sys.stdout.buffer.write(numbers.tobytes())
    return 0


if __name__ == "__main__":
    sys.exit(main())
