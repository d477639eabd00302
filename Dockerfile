# Webhook and certificate jobs: `rankfix` (the entry point) and `rankfix-certs`. No torch, no compiler, no root.
#
#   docker build -t rankfix:0.1.0 .
#   docker build --build-arg BASE=registry.example/python:3.13-slim -t rankfix:0.1.0 .   # any base with Python 3.11 to 3.13
#
# BUILD and BASE have to be of one Python version: what is installed in the first is copied into the second.
ARG BASE=python:3.13-slim
ARG BUILD=${BASE}

FROM ${BUILD} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /src
RUN python3 -m venv /opt/rankfix
# The libraries first: they change less often than we do, and the layer is kept
COPY constraints.txt pyproject.toml LICENSE README.md ./
RUN python3 -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["dependencies"], sep="\n")' > /tmp/needed.txt \
    && /opt/rankfix/bin/python -m pip install --constraint constraints.txt --requirement /tmp/needed.txt
COPY webhook webhook
COPY certs certs
COPY trainer trainer
RUN /opt/rankfix/bin/python -m pip install --no-deps . \
    && /opt/rankfix/bin/python -m pip uninstall --yes pip \
    && rm -rf /opt/rankfix/lib/python3*/site-packages/trainer /opt/rankfix/bin/rankfix-train \
    && /opt/rankfix/bin/python -m compileall -q /opt/rankfix/lib

FROM ${BASE}
LABEL org.opencontainers.image.title="rankfix" \
      org.opencontainers.image.description="Admission webhook that repairs RANK and WORLD_SIZE of Kubeflow PyTorchJob pods" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/rankfix /opt/rankfix
ENV PATH=/opt/rankfix/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
# By number, so that Kubernetes can see that it isn't root
USER 65532:65532
EXPOSE 8443
ENTRYPOINT ["rankfix"]
CMD ["serve"]
