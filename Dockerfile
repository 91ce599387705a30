FROM python:3.11-slim AS build

ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
# The address of an index with CPU builds of torch; without it the same version may bring gigabytes of CUDA packages.
ARG TORCH_INDEX=""

RUN python -m venv /opt/venv
ENV PATH=/opt/venv/bin:$PATH
WORKDIR /build
COPY constraints.txt ./
RUN pip install --constraint constraints.txt ${TORCH_INDEX:+--extra-index-url "$TORCH_INDEX"} torch==2.13.0
COPY . .
RUN pip install --constraint constraints.txt '.[offline]'


FROM python:3.11-slim

RUN useradd --create-home --uid 10001 softseek && install --directory --owner=softseek --group=softseek /data
COPY --from=build /opt/venv /opt/venv
ENV PATH=/opt/venv/bin:$PATH PYTHONUNBUFFERED=1
USER softseek
WORKDIR /home/softseek
VOLUME /data
EXPOSE 8080

# urlopen raises on 503, so a server that is not ready is not healthy.
HEALTHCHECK --interval=10s --timeout=5s --start-period=120s --retries=3 \
    CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8080/readyz', timeout=4)"]

# The first admin key comes from SOFTSEEK_ADMIN_KEY; without it, the start makes one in /data/admin.key.
CMD ["softseek", "serve", "--data", "/data", "--host", "0.0.0.0", "--port", "8080", "--make-admin-key"]
