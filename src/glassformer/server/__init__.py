"""A model over HTTP: JSON answers, and the glass box as a live page. docs/http-api.md tells it in words.

limits   how much, how long, how many at once
api      the routes: `create_app(model) -> FastAPI`
run      a socket that is free, and the loop: `serve(app, host, port)`
"""
