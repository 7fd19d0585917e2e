# The image: a wheel in a virtual environment, run by a user without write permission.
FROM python:3.11-slim AS build
WORKDIR /source
COPY requirements.lock pyproject.toml README.md LICENSE ./
COPY cli cli
COPY engine engine
COPY grammar grammar
COPY policies policies
COPY server server
COPY deploy/kustomize deploy/kustomize
# Download everything in the lock and check its hashes; later steps use no network. The image gets only
# the dependencies of the wheel, without the development tools.
RUN pip download --no-cache-dir --require-hashes --no-deps --requirement requirements.lock --dest /locked
RUN python -m venv /build && python -m venv /placet \
 && /build/bin/pip install --no-cache-dir --no-index --find-links /locked hatchling \
 && /build/bin/hatchling build --target wheel --directory /wheel \
 && /placet/bin/pip install --no-cache-dir --no-index --find-links /locked /wheel/*.whl \
 && /placet/bin/pip uninstall --yes pip setuptools

FROM python:3.11-slim
COPY --from=build /placet /placet
# The root file system can be read-only. If HOME is writable, the parse tables are cached there;
# otherwise each start computes them.
ENV PATH=/placet/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 65532:65532
EXPOSE 12345
ENTRYPOINT ["placet"]
CMD ["serve", "--policies", "/policies"]
