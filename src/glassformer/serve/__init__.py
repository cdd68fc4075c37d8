"""Models over HTTP: JSON answers, and the glass box as a live page. docs/http-api.md is the reference.

limits     size, time and host of a request
bodies     what requests and answers contain
served     the loaded models, computed by one worker (`glassformer.inference.worker`)
observe    request ids, metrics, the log
reference  the page at /docs
api        the routes: `create_app(served, …) -> FastAPI`
run        the socket, the connections and the end of a server: `serve(app, listening, limits, worker, reload)`
"""
