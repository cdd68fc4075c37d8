"""`glassformer serve`: the live page and the HTTP API of a model, on this machine."""

from __future__ import annotations

from typing import Annotated

import typer

from glassformer.cli.console import Reporter
from glassformer.cli.options import DecodePrecision, Device, Ensemble, Model, Quiet
from glassformer.errors import MissingExtraError, TextError, quoted

Host = Annotated[str, typer.Option("--host", help="The address to listen on.")]
Port = Annotated[int, typer.Option("--port", min=0, max=65535, help="The port; 0: any free port.")]
Text = Annotated[str | None, typer.Option("--text", help="The text that the page opens with.")]
TimeLimit = Annotated[
    float, typer.Option("--time-limit", min=1, metavar="SECONDS", help="Maximum computing time of one request.")
]


def serve(
    model: Model,
    host: Host = "127.0.0.1",
    port: Port = 8000,
    text: Text = None,
    time_limit: TimeLimit = 60,
    ensemble: Ensemble = None,
    device: Device = "auto",
    precision: DecodePrecision = "float32",
    quiet: Quiet = False,
) -> None:
    """Serve a page that explains the translation of any text, and the same data as JSON over HTTP.

    The server listens on this machine only, unless --host names another address: it has no password. Ctrl-C stops it.
    """
    try:
        from glassformer.server.api import Served, create_app
        from glassformer.server.limits import Limits
        from glassformer.server.run import listen
        from glassformer.server.run import serve as run
    except ModuleNotFoundError as error:
        if error.name not in ("fastapi", "starlette", "uvicorn"):
            raise
        raise MissingExtraError("glassformer serve", package=error.name, extra="server") from None

    reporter = Reporter(quiet)
    if text is not None:
        _check_text(text)
    listening = listen(host, port)
    with listening:  # closed where the model cannot be loaded, too
        address, hosts = _names(host, listening.getsockname()[0])
        limits = Limits(compute_seconds=time_limit)
        options = {"ensemble": ensemble or [], "device": device, "precision": precision}
        served = Served.load(model, example=text, limits=limits, **options)
        reporter.print(f"open http://{address}:{listening.getsockname()[1]}   (Ctrl-C stops it)")
        if hosts == ["*"]:
            reporter.warn("anybody who reaches this machine can use the model")
        run(create_app(served, hosts), listening, limits, served.queue.close)
    reporter.print("stopped")


def _names(host: str, bound: str) -> tuple[str, list[str]]:
    """The address to open, and the hosts that requests may name; "*" where the server listens to everybody."""
    anywhere = bound in ("0.0.0.0", "::")  # which has other spellings, such as 0
    host = bound if anywhere else host
    address = f"[{host}]" if ":" in host else host
    return address, ["*"] if anywhere else [host.strip("[]"), address, "127.0.0.1", "localhost"]


def _check_text(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise TextError("the text is not UTF-8", where="--text", got=quoted(text)) from None
