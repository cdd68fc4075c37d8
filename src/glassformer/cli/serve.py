"""`glassformer serve`: the live page and the HTTP API of a model, on this machine."""

from __future__ import annotations

from typing import Annotated

import typer

from glassformer.cli.console import Reporter
from glassformer.cli.options import DecodePrecision, Device, Model, Quiet
from glassformer.errors import MissingExtraError, TextError, quoted


def serve(
    model: Model,
    host: Annotated[str, typer.Option("--host", help="The address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="The port; 0 takes one that is free.")] = 8000,
    text: Annotated[str | None, typer.Option("--text", help="The text that the page opens with.")] = None,
    time_limit: Annotated[
        float, typer.Option("--time-limit", min=1, metavar="SECONDS", help="How long one request may compute.")
    ] = 60,
    device: Device = "auto",
    precision: DecodePrecision = "float32",
    quiet: Quiet = False,
) -> None:
    """Open a model in the browser: every number of any text, live; and the same as JSON over HTTP.

    It listens on this machine alone, unless --host says otherwise: there is no password. Ctrl-C ends it.
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
    place = listening.getsockname()[0]
    anywhere = place in ("0.0.0.0", "::")  # which has other spellings, such as 0
    host = place if anywhere else host
    address = f"[{host}]" if ":" in host else host
    limits = Limits(compute_seconds=time_limit)
    served = Served.load(model, example=text, limits=limits, device=device, precision=precision)
    app = create_app(served, ["*"] if anywhere else [host.strip("[]"), address, "127.0.0.1", "localhost"])
    reporter.print(f"open http://{address}:{listening.getsockname()[1]}   (Ctrl-C ends it)")
    if anywhere:
        reporter.warn("anybody who reaches this machine can use the model")
    run(app, listening, limits, served.queue.close)
    reporter.print("stopped")


def _check_text(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise TextError("the text is not UTF-8", where="--text", got=quoted(text)) from None
