# Webhook and certificate jobs: `rankfix` (the entry point) and `rankfix-certs`. No torch, no compiler, no root, no need of a shell.
#
#   make image                                                                           both images, as released: docs/images.md
#   docker build -t rankfix:0.1.0 .                                                      packages from PyPI
#   docker build --build-arg BASE=registry.example/python:3.13-slim -t rankfix:0.1.0 .   any base with Python 3.11 to 3.13
#
# BUILD needs a shell and venv, BASE nothing but Python. Both have to be of one Python version, in one place: what is installed in
# the first runs in the second.
ARG BASE=python:3.13-slim
ARG BUILD=${BASE}

FROM ${BUILD} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore PYTHONDONTWRITEBYTECODE=1 PYTHONHASHSEED=0
WORKDIR /src
# What the image is to have lies below /out, for a layer that is the same whenever it is made
RUN python3 -m venv /out/opt/rankfix && ln -s /out/opt/rankfix /opt/rankfix && rm /opt/rankfix/bin/*ctivate*
# The libraries first: they change less often than we do. Where there is a folder `wheels`, they come from there, and no network
# is needed.
COPY constraints.txt pyproject.toml LICENSE README.md wheel[s] ./
RUN if ls ./*.whl >/dev/null 2>&1; then printf '[global]\nno-index = true\nfind-links = /src\n' >/opt/rankfix/pip.conf; fi \
    && python3 -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["dependencies"], sep="\n")' >/tmp/needed.txt \
    && /opt/rankfix/bin/python -m pip install --quiet --no-compile --constraint constraints.txt --requirement /tmp/needed.txt
COPY webhook webhook
COPY certs certs
COPY trainer trainer
# One wheel, less the trainer; and kubernetes less its client for asyncio, which is as large as all the rest and imported by nobody
# here. Bytecode is made by processes that always get the same folders, since what one has compiled before
# shows in what it compiles next; nothing looks at run time whether it is current, since nothing changes in an image.
RUN /opt/rankfix/bin/python -m pip wheel --quiet --no-deps --wheel-dir /dist . \
    && /opt/rankfix/bin/python -m pip install --quiet --no-compile --no-deps /dist/*.whl \
    && rm -rf /opt/rankfix/lib/python3*/site-packages/trainer /opt/rankfix/lib/python3*/site-packages/kubernetes/aio \
        /opt/rankfix/bin/rankfix-train /opt/rankfix/pip.conf \
    && /opt/rankfix/bin/python -m pip uninstall --quiet --yes pip setuptools \
    && find /opt/rankfix/lib -name '*.py' -printf '%h\n' | LC_ALL=C sort -u \
        | xargs -n 40 -P "$(nproc)" python3 -m compileall -q -f -l --invalidation-mode unchecked-hash \
    && find /out -exec touch -h -d 1980-01-01Z {} +

FROM ${BASE}
LABEL org.opencontainers.image.title="rankfix" \
      org.opencontainers.image.description="Admission webhook that repairs RANK and WORLD_SIZE of Kubeflow PyTorchJob pods" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /out/ /
ENV PATH=/opt/rankfix/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
# By number, so that Kubernetes can see that it isn't root
USER 65532:65532
EXPOSE 8443
ENTRYPOINT ["rankfix"]
CMD ["serve"]
