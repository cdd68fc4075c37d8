"""Models over HTTP: JSON answers, and the glass box as a live page. docs/http-api.md is the reference.

limits       size and time of a request
bodies       what a request may contain
served       the loaded models, computed by one worker (`glassformer.inference.batching`)
hosts        requests for other hosts are refused; HEAD and OPTIONS
observe      request ids, metrics, the log
connections  the maximum number, idle ones are closed; the end of a server
api          the routes: `create_app(served, …) -> FastAPI`
workers      several processes on one socket
run          the socket and the event loop: `serve(app, listening, limits, worker)`
"""
