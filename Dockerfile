# glassformer serve: a small image that runs without root, on a read-only root file system.
#
#   docker build -t glassformer .
#   docker run --read-only --tmpfs /tmp -p 127.0.0.1:8000:8000 -v "$PWD/run:/models/dates:ro" glassformer
#
# torch comes from the package index of pip. Where that has only the CUDA build (gigabytes; PyPI on x86-64), name an index
# with CPU builds: --build-arg PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu --build-arg TORCH=2.13.0+cpu
ARG PYTHON=3.13

FROM python:${PYTHON}-slim AS build
ARG PIP_EXTRA_INDEX_URL=""
ARG TORCH=""
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
WORKDIR /build
COPY constraints.txt pyproject.toml README.md LICENSE ./
COPY src src
# torch first, by its pinned version, as in the Makefile; the other packages change more often.
RUN python -m venv /venv \
 && /venv/bin/python -m pip install -c constraints.txt "torch==${TORCH:-$(sed -n 's/^torch==//p' constraints.txt)}" \
 && /venv/bin/python -m pip install -c constraints.txt ".[server]" \
 && /venv/bin/python -m pip uninstall --yes pip

FROM python:${PYTHON}-slim
COPY --from=build /venv /venv
# A number, so that Kubernetes can see that it is not root.
USER 10001:10001
ENV PATH=/venv/bin:$PATH HOME=/tmp PYTHONDONTWRITEBYTECODE=1
WORKDIR /models
EXPOSE 8000
ENTRYPOINT ["glassformer", "serve", "--host", "0.0.0.0", "--log"]
CMD ["/models/dates"]
