# The tower in a container. docs/operations.md says how to run it.
#
#   docker build -t tower .
#   docker run -d --name tower -v ./factory:/etc/tower -v tower-state:/var/lib/tower tower

# Any image with Python 3.11 or newer (as `python`) on Debian will do: --build-arg BASE=registry.example/python:3.12-slim
ARG BASE=python:3.13-slim

FROM ${BASE} AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY tower ./tower
RUN python -m venv /opt/tower && /opt/tower/bin/pip install --no-cache-dir .

FROM ${BASE}
# tini is PID 1: it reaps whatever nobody waits for, and passes signals on. Agents need git, and so do snapshots.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends git tini \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /opt/tower /opt/tower

# Group 0 and its write bit let the image run under any uid that a cluster gives out (with gid 0), and the state goes
# into a folder below the volume, which then belongs to that uid alone.
RUN install -d -m 0770 -o 10001 -g 0 /var/lib/tower && install -d -m 0755 /etc/tower
VOLUME /var/lib/tower

ENV PATH=/opt/tower/bin:/usr/local/bin:/usr/bin:/bin \
    HOME=/var/lib/tower \
    TOWER_CONFIG=/etc/tower \
    TOWER_SOCKET=/var/lib/tower/state/tower.sock \
    TOWER_LAYOVER__STATE_DIR=/var/lib/tower/state \
    TOWER_LAYOVER__SOCKET=/var/lib/tower/state/tower.sock \
    TOWER_LAYOVER__ON_STOP=stop \
    TOWER_LAYOVER__GRACE_SEC=6
# A container's processes end with it, so work is stopped in order; grace and what follows it fit into the ten seconds
# after which the engine kills.
STOPSIGNAL SIGTERM

USER 10001:0
WORKDIR /etc/tower
HEALTHCHECK --interval=30s --timeout=5s --start-period=20s CMD ["tower", "status", "--health"]
ENTRYPOINT ["tini", "--", "tower"]
CMD ["serve"]
