# glassformer serve: a small image that runs without root, on a read-only root file system.
#
#   docker build -t glassformer .
#   docker run --read-only --tmpfs /tmp -p 127.0.0.1:8000:8000 -v "$PWD/run:/models/dates:ro" glassformer
#
# It has no torch, which serving does not need.
ARG PYTHON=3.13

FROM python:${PYTHON}-slim AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
# The compiler is for the search, which takes half the time.
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev
WORKDIR /build
COPY constraints.txt pyproject.toml README.md LICENSE ./
COPY src src
RUN python -m venv /venv \
 && /venv/bin/python -m pip install -c constraints.txt ".[server]" \
 && /venv/bin/python -m pip uninstall --yes pip

FROM python:${PYTHON}-slim
COPY --from=build /venv /venv
# A number, so that Kubernetes can see that it is not root.
USER 10001:10001
ENV PATH=/venv/bin:$PATH HOME=/tmp PYTHONDONTWRITEBYTECODE=1
# The options of the server: docker run -e GLASSFORMER_TIME_LIMIT=20 changes one.
ENV GLASSFORMER_MODELS=/models/dates GLASSFORMER_HOST=0.0.0.0 GLASSFORMER_LOG=1
WORKDIR /models
EXPOSE 8000
ENTRYPOINT ["glassformer", "serve"]
