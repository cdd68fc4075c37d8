"""At SIGHUP a server answers with the models that the files have now; one that cannot be read changes nothing."""

from __future__ import annotations

import json
import shutil
import signal
import time
from pathlib import Path

from glassformer.storage.modelfile import ModelFile
from tests.serve.serving import Running, commanded, read_answer


def digest_of(server: Running) -> str:
    return str(json.loads(server.text("/v1/model"))["digest"])


def answer_of(server: Running) -> object:
    with server.post("/v1/translate", {"texts": ["abc"]}) as opened:
        return read_answer(opened)[1]["answers"][0]


def wait_for(server: Running, words: str) -> None:
    while words not in server.complaints():
        assert server.process.is_alive()
        time.sleep(0.02)


def test_a_signal_loads_the_models_again_and_keeps_them_where_a_file_is_damaged(
    model_path: Path, tmp_path: Path
) -> None:
    path = Path(shutil.copy(model_path, tmp_path / "dates.safetensors"))
    with commanded("serve", path, "--port", "0", "--device", "cpu") as server:
        before = digest_of(server), answer_of(server)
        file = ModelFile.load(path)
        for tensor in file.tensors.values():
            tensor *= -1
        file.save(path)
        assert (digest_of(server), answer_of(server)) == before
        server.send_signal(signal.SIGHUP)
        wait_for(server, "loaded the models again")
        after = digest_of(server), answer_of(server)
        assert after[0] != before[0]
        assert after[1] != before[1]
        path.write_bytes(path.read_bytes()[:-1])
        server.send_signal(signal.SIGHUP)
        wait_for(server, "the models were not loaded again")
        assert (digest_of(server), answer_of(server)) == after
        server.send_signal(signal.SIGTERM)
        assert server.wait() == 0
