"""A model outside of this process: its file and run directory, exports, and the server."""
