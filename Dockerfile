FROM python:3.11-slim AS build

ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
# The address of an index with CPU builds of torch. Without it, the same version may bring gigabytes of CUDA packages, whose
# hashes are not listed.
ARG TORCH_INDEX=""

RUN python -m venv /opt/venv
ENV PATH=/opt/venv/bin:$PATH
WORKDIR /build
COPY constraints.txt requirements-torch.txt requirements.txt ./
# Every file must have a hash that these two files list.
RUN pip install --require-hashes --no-deps --only-binary :all: ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} \
    --requirement requirements-torch.txt
RUN pip install --require-hashes --no-deps --only-binary :all: --requirement requirements.txt
COPY . .
# Optional parts, separated by commas: postgres, ray (which includes postgres). Their packages have the versions of
# constraints.txt, but their hashes are not checked.
ARG EXTRAS=""
RUN test -z "$EXTRAS" || pip install --only-binary :all: --constraint constraints.txt --no-build-isolation ".[$EXTRAS]"
# With TORCH_INDEX this step installs nothing more than softseek itself.
RUN pip install --constraint constraints.txt --no-build-isolation ${TORCH_INDEX:+--no-index} '.[offline]' && pip check


FROM python:3.11-slim

RUN useradd --create-home --uid 10001 --user-group softseek \
    && install --directory --owner=softseek --group=softseek /data
COPY --from=build /opt/venv /opt/venv
# /data is the only place that the service writes to: SQLite's temporary files, which can be large, go there too.
ENV PATH=/opt/venv/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 SQLITE_TMPDIR=/data
USER 10001:10001
WORKDIR /home/softseek
VOLUME /data
EXPOSE 8080

# urlopen raises on 503, so a server that is not ready is not healthy.
HEALTHCHECK --interval=10s --timeout=5s --start-period=120s --retries=3 \
    CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8080/readyz', timeout=4)"]

# The first admin key comes from SOFTSEEK_ADMIN_KEY; without it, the start makes one in /data/admin.key.
CMD ["softseek", "serve", "--data", "/data", "--host", "0.0.0.0", "--port", "8080", "--make-admin-key"]
