"""A model over HTTP: JSON answers, and the glass box as a live page. docs/http-api.md is the reference.

limits       size, time and number of requests at once
hosts        requests for other hosts are refused
connections  the maximum number, and idle ones are closed
api          the routes: `create_app(served) -> FastAPI`
run          the socket and the event loop: `serve(app, listening, limits, stop)`
"""
