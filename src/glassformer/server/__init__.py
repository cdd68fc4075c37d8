"""A model over HTTP: JSON answers, and the glass box as a live page. docs/http-api.md tells it in words.

limits       how much, how long, how many at once
hosts        which requests mean this server
connections  how many are open, and which are closed
api          the routes: `create_app(served) -> FastAPI`
run          a socket that is free, and the loop: `serve(app, listening, limits, stop)`
"""
