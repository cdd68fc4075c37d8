"""`glassformer serve`: the live page and the HTTP API of models, on this machine."""

from __future__ import annotations

import functools
import logging
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from glassformer.cli.console import Quiet, Reporter
from glassformer.cli.options import Computing, local
from glassformer.errors import GlassformerError, MissingExtraError, TextError, UsageError, quoted

if TYPE_CHECKING:
    from glassformer.serve.served import Models

_ORIGIN = re.compile(r"\*|https?://[^/?#@\s]+")
_NAMED = re.compile(r"(?P<name>[\w.-]{1,100})=(?P<path>.+)", re.DOTALL)


def _named(text: str) -> tuple[str, Path]:
    """Parse MODEL or NAME=MODEL; the default name is that of the run directory, the file or the repository."""
    match = None if Path(text).exists() else _NAMED.fullmatch(text)
    if match is not None:
        return match["name"], local(match["path"])
    path = Path(text.partition("@")[0] if text.startswith("hf:/") else text)
    if path.name == "model.safetensors":
        path = path.absolute().parent
    path = path.resolve()
    return (path.stem if path.suffix == ".safetensors" else path.name), local(text)


def _origin(text: str) -> str:
    """The origin of a page. Raises UsageError for what no browser sends as one."""
    if not _ORIGIN.fullmatch(text):
        what, expected = "this is not the origin of a page", "https://example.org, without a path, or *"
        raise UsageError(what, where="--allow-origin", got=quoted(text), expected=expected)
    return text


def serve(
    models: Annotated[
        list[Any],
        Argument(
            metavar="[NAME=]MODEL",
            help="A .safetensors model file, a run directory, or hf://owner/name; several are served by name.",
            parser=_named,
            envvar="GLASSFORMER_MODELS",
        ),
    ],
    computing: Computing,
    host: Annotated[str, Option(metavar="ADDRESS", help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, Option(min=0, max=65535, metavar="PORT", help="The port; 0: any free port.")] = 8000,
    allow_origin: Annotated[
        list[Any] | None,
        Option(
            metavar="ORIGIN",
            help="A site whose pages may read answers, as https://example.org, or '*' (repeatable; default: none).",
            parser=_origin,
        ),
    ] = None,
    text: Annotated[str | None, Option(metavar="TEXT", help="The text that the page opens with.")] = None,
    time_limit: Annotated[float, Option(min=1, metavar="SECONDS", help="Maximum computing time of one request.")] = 60,
    log: Annotated[bool, Option("--log", help="Print each request as a line of JSON, without its texts.")] = False,
    quiet: Quiet = False,
) -> None:
    """Serve a page that explains the translation of any text, and the same data as JSON over HTTP.

    The server listens on this machine only, unless --host names another address. Ctrl-C stops it, and the signal
    SIGHUP loads the models again. What is not given is read from the environment, such as GLASSFORMER_TIME_LIMIT=20,
    and the models from GLASSFORMER_MODELS.

    Examples:
        glassformer serve run
        glassformer serve dates=run1 units=run2 --port 9000
    """
    try:
        from glassformer.serve.api import create_app
    except ModuleNotFoundError as error:
        if error.name not in ("fastapi", "prometheus_client", "starlette", "uvicorn"):
            raise
        raise MissingExtraError("glassformer serve", package=error.name, extra="server") from None
    from glassformer.serve import run
    from glassformer.serve.limits import Limits
    from glassformer.serve.served import load_models

    reporter = Reporter(quiet=quiet)
    paths = _check(models, text, computing.ensemble)
    with run.listen(host, port) as listening:  # closed where a model cannot be loaded, too
        address, hosts = _names(host, listening.getsockname()[0])
        limits = Limits(compute_seconds=time_limit)
        options = {**vars(computing), "ensemble": computing.ensemble or []}
        served = load_models(paths, limits=limits, example=text, **options)
        reporter.print(f"open http://{address}:{listening.getsockname()[1]}   (Ctrl-C stops it)")
        if hosts == ["*"]:
            reporter.warn("anybody who reaches this machine can use the model")
        if log:
            handler, logger = logging.StreamHandler(sys.stdout), logging.getLogger("glassformer.serve.access")
            handler.setFormatter(logging.Formatter("%(message)s"))
            logger.addHandler(handler)
            logger.setLevel(logging.INFO)
            logger.propagate = False
        app = create_app(*served, hosts=hosts, origins=allow_origin or ())
        reload = functools.partial(_reload, app.state.models, reporter)
        run.serve(app, listening, limits, served[0].worker, reload)
    reporter.print("stopped")


def _reload(models: Models, reporter: Reporter) -> None:
    """Load the models again, and print what became of it."""
    try:
        models.reload()
    except (GlassformerError, OSError) as error:
        reporter.warn(f"the models were not loaded again: {error}")
    else:
        reporter.print("loaded the models again")


def _check(models: list[tuple[str, Path]], text: str | None, ensemble: list[Path] | None) -> dict[str, Path]:
    """The paths of the models by name. Raises UsageError for two of one name, TextError for the text."""
    paths: dict[str, Path] = {}
    for name, path in models:
        if name in paths:
            got, hint = f"{paths[name]}, {path}", f"OTHER={path}"
            raise UsageError("two models have the same name", where=quoted(name), got=got, hint=hint)
        paths[name] = path
    if ensemble and len(models) > 1:
        got = f"{len(models)} models and --ensemble"
        raise UsageError("an ensemble is one model", got=got, hint="serve them apart")
    try:
        (text or "").encode()
    except UnicodeEncodeError:
        raise TextError("the text is not UTF-8", where="--text", got=quoted(text)) from None
    return paths


def _names(host: str, bound: str) -> tuple[str, list[str]]:
    """The address to open, and the hosts that requests may name; "*" where the server listens to everybody."""
    anywhere = bound in ("0.0.0.0", "::")  # which has other spellings, such as 0
    host = bound if anywhere else host
    address = f"[{host}]" if ":" in host else host
    return address, ["*"] if anywhere else [host.strip("[]"), address, "127.0.0.1", "localhost"]
