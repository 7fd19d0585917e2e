# The image: a wheel in a virtual environment, run by a user without write permission.
# BASE has python3.11, and in its venv module pip; `make image-test` builds on one of Debian's packages.
ARG BASE=python:3.11-slim

FROM $BASE AS build
WORKDIR /source
# If your index needs a configuration of pip or an authority of its own, pass both as secrets: they are
# files during these commands alone.
ENV PIP_CONFIG_FILE=/run/secrets/pip.conf
COPY requirements-image.lock ./
# Download everything in the lock and check its hashes; later steps use no network.
RUN --mount=type=secret,id=pip,target=/run/secrets/pip.conf \
    --mount=type=secret,id=ca,target=/run/secrets/ca.pem \
    python3.11 -m venv /build \
 && /build/bin/pip download --no-cache-dir --require-hashes --no-deps --dest /locked \
      --requirement requirements-image.lock
COPY pyproject.toml README.md LICENSE ./
COPY cli cli
COPY deploy deploy
COPY docs/diagnostics docs/diagnostics
COPY engine engine
COPY grammar grammar
COPY policies policies
COPY server server
# What `placet --version` says: here is no git to ask.
ARG VERSION=
# The image gets only the dependencies of the wheel, and a list of them. pip makes the bytecode: without it, each
# start would compile all modules, as nothing can be written later.
RUN sed -i "s/^ARCHIVED = .*/ARCHIVED = \"v$VERSION\"/" cli/version.py \
 && /build/bin/pip install --no-cache-dir --no-index --find-links /locked hatchling cyclonedx-bom \
 && /build/bin/hatchling build --target wheel --directory /wheel \
 && python3.11 -m venv --without-pip /placet \
 && /build/bin/pip --python /placet/bin/python install --no-cache-dir --no-index \
      --find-links /locked /wheel/*.whl \
 && echo 'policy a { for pods where false }' > /tmp/a.policy \
 && PYTHONHASHSEED=0 /placet/bin/placet check /tmp/a.policy \
 && mkdir -p /placet/share/placet \
 && /build/bin/cyclonedx-py environment --output-reproducible --output-format JSON \
      --output-file /placet/share/placet/sbom.cdx.json /placet/bin/python

FROM $BASE
# The pip of the base would let whoever gets in install more.
RUN rm -rf /usr/local/bin/pip* /usr/local/bin/wheel /usr/local/lib/python3.11/ensurepip \
      /usr/local/lib/python3.11/site-packages/* /usr/lib/python3.11/ensurepip /usr/share/python-wheels
COPY --from=build /placet /placet
# The chart and the manifests, of the version of the program.
COPY deploy /usr/share/placet/deploy
ARG VERSION=
ARG REVISION=
LABEL org.opencontainers.image.title="placet" \
      org.opencontainers.image.description="A kube-scheduler extender that filters and scores nodes from policies" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION"
# The root file system can be read-only. The user has no home of its own.
ENV PATH=/placet/bin:$PATH HOME=/tmp PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 65532:65532
EXPOSE 12345
ENTRYPOINT ["placet"]
CMD ["serve", "--policies", "/policies"]
