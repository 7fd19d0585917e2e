# The image: a wheel in a virtual environment, run by a user who may write nowhere.
FROM python:3.11-slim AS build
WORKDIR /source
COPY requirements.lock pyproject.toml README.md LICENSE ./
COPY cli cli
COPY engine engine
COPY grammar grammar
COPY policies policies
COPY server server
# Everything in the lock, checked against its hashes; from there on nothing is fetched. Of it the image
# gets what the wheel declares, and none of the development tools.
RUN pip download --no-cache-dir --require-hashes --no-deps --requirement requirements.lock --dest /locked
RUN python -m venv /build && python -m venv /placet \
 && /build/bin/pip install --no-cache-dir --no-index --find-links /locked hatchling \
 && /build/bin/hatchling build --target wheel --directory /wheel \
 && /placet/bin/pip install --no-cache-dir --no-index --find-links /locked /wheel/*.whl \
 && /placet/bin/pip uninstall --yes pip setuptools

FROM python:3.11-slim
COPY --from=build /placet /placet
# The root file system can be read-only. The parse tables are cached where HOME can be written, and
# made at each start where it cannot.
ENV PATH=/placet/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 65532:65532
EXPOSE 12345
ENTRYPOINT ["placet"]
CMD ["serve", "--policies", "/policies"]
