# check=error=true

# The images of the service, docs/container.md tells how to use them:
#
#   docker build --tag toolgate .                                   with a shell and git: a place to work in
#   docker build --tag toolgate:static --target toolgate .          the service alone, to be put beside other tools
#
# Both run as a user without a name's rights, and write nothing outside of volumes. No VOLUME is declared: runtimes make
# one of it that nobody asked for, which can be written where the rest cannot, and no image on top can take it back.

# To pin the bases, give their digests: --build-arg DEBIAN=debian:trixie-slim@sha256:…
ARG RUST=rust:1.95-alpine
ARG DEBIAN=debian:trixie-slim

# Linked with musl, wholly static: one program for images of every distribution. With the library of GNU it would load
# parts of that library from the image that it is copied into, of another version, to look names up.
FROM ${RUST} AS build
RUN apk add --no-cache build-base ca-certificates linux-headers
WORKDIR /src
COPY Cargo.toml Cargo.lock build.rs LICENSE ./
COPY proto proto
COPY src src
COPY container container
ENV CARGO_PROFILE_RELEASE_STRIP=debuginfo
# The target is named though it is the machine's own: so the flags are for the program and not for macros and build
# scripts.
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target,sharing=locked \
    target="$(uname -m)-unknown-linux-musl" \
    && RUSTFLAGS="-C target-feature=+crt-static" cargo build --locked --release --bin toolgate --target "$target" \
    && container/rootfs.sh /rootfs "target/$target/release/toolgate" /etc/ssl/certs/ca-certificates.crt

FROM scratch AS toolgate
ARG VERSION=0.1.0
ARG REVISION=
LABEL org.opencontainers.image.title="Toolgate" \
      org.opencontainers.image.description="Runs an AI agent's tools behind one gRPC contract; the service alone" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=build /rootfs /
ENV HOME=/home/toolgate
WORKDIR /workspace
USER 65532:65532
EXPOSE 50551
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=15s --timeout=10s --start-period=30s --retries=3 CMD ["/usr/local/bin/toolgate", "health"]
ENTRYPOINT ["/usr/local/bin/toolgate"]
CMD ["serve"]

FROM ${DEBIAN} AS workspace
RUN apt-get update \
    && apt-get install --yes --no-install-recommends \
        bash ca-certificates curl git jq less openssh-client patch procps unzip xz-utils \
    && rm -rf /var/lib/apt/lists/*
RUN --mount=type=bind,from=build,source=/src,target=/src \
    --mount=type=bind,from=build,source=/rootfs,target=/rootfs \
    /src/container/rootfs.sh / /rootfs/usr/local/bin/toolgate
ARG VERSION=0.1.0
ARG REVISION=
LABEL org.opencontainers.image.title="Toolgate" \
      org.opencontainers.image.description="Runs an AI agent's tools behind one gRPC contract, with a shell and git" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
ENV HOME=/home/toolgate \
    LANG=C.UTF-8
WORKDIR /workspace
USER 65532:65532
EXPOSE 50551
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=15s --timeout=10s --start-period=30s --retries=3 CMD ["/usr/local/bin/toolgate", "health"]
ENTRYPOINT ["/usr/local/bin/toolgate"]
CMD ["serve"]
