"""The memory of a device, and the minimum that a search needs, which is checked before it begins."""

from __future__ import annotations

from glassformer.errors import DeviceError, counted
from glassformer.settings import DecodingSettings, ModelSettings
from glassformer.storage.container import memory_limit

FLOAT = 4  # bytes
UNKNOWN_MEMORY = 2**46  # bytes: 64 TiB, where the system does not report its memory


def memory_of(device: str) -> int:
    """Return all memory of a device, such as "cpu" or PyTorch's "cuda:1", in bytes, whether in use or free."""
    if device.startswith("cuda"):
        import torch  # which found this device

        return int(torch.cuda.get_device_properties(device).total_memory)
    return memory_limit() or UNKNOWN_MEMORY


def check_search_fits(
    model: ModelSettings, vocabulary_size: int, decoding: DecodingSettings, max_new_tokens: int, engine: object
) -> None:
    """Raise DeviceError for a search whose hypotheses of one text the device cannot hold at their full length."""
    n_hypotheses = max(decoding.num_beams, decoding.num_return_sequences)
    length = min(max_new_tokens, model.max_length) if model.positions == "learned" else max_new_tokens
    cache = model.n_decoder_layers * model.n_heads * (model.d_k + model.d_v) * FLOAT // 2  # of a token, in bfloat16
    check_fits(
        str(getattr(engine, "device", "cpu")),
        n_hypotheses * (length * cache + vocabulary_size * FLOAT),
        "search",
        f"{counted(n_hypotheses, 'hypothesis', 'hypotheses')} of {length:,} tokens",
        "a smaller decoding.num_beams, decoding.num_return_sequences or decoding.max_new_tokens",
    )


def check_fits(device: str, needed: int, work: str, of_what: str, hint: str) -> None:
    """Raise DeviceError when `work` needs more bytes than the device has. `needed` is a lower bound."""
    available = memory_of(device)
    if needed > available:
        raise DeviceError(
            f"not enough memory on {device} to {work}",
            got=f"{gigabytes(available)} in total",
            expected=f"at least {gigabytes(needed)}, for {of_what}",
            hint=hint,
        )


def gigabytes(n_bytes: int) -> str:
    return f"{n_bytes / 1e9:,.1f} GB"
