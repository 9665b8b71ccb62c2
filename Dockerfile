# check=error=true

# The images of the service, docs/operate/container.md tells how to use them:
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
COPY Cargo.toml Cargo.lock build.rs ./
COPY proto proto
COPY crates crates
COPY clients/rust clients/rust
COPY src src
COPY LICENSE /image/
COPY <<"EOF" /image/toolgate.toml
# How the service is configured in its images. Variables (`TOOLGATE_LISTEN_TCP`, …) and flags are stronger; a file that is
# mounted over this one, or that `TOOLGATE_CONFIG` names, is read in its place.
#
# Nobody else can reach what listens on 127.0.0.1 in a container: to be called from outside, it needs to know who calls.
# Programs in the container find the socket that is beside the data.

data_dir = "/var/lib/toolgate/data"
# `docker stop` kills after 10 s, and what follows this takes some of them.
drain_grace = "5s"

[[workspaces]]
name = "main"
directory = "/workspace"

[log]
format = "json"
EOF
COPY --chmod=0755 <<"EOF" /image/rootfs.sh
#!/bin/sh
# Makes a root file system of the images: all of it in an empty folder, or what the service adds to one that is there.
# Their test runs this too. To be run as root, by any shell of POSIX.
#
#   rootfs.sh FOLDER PROGRAM [CERTIFICATES]
#
# Nothing of the folder is for the service to write but what volumes are mounted over: `/tmp`, its home, its state, the
# folder of a socket that is shared, and the workspace. Those belong to the user of the images, and to the group 0: a
# cluster that chooses the user by itself leaves the group.
set -eu

NAME=toolgate
ID=65532

root="${1%/}"
program="$2"
certificates="${3:-}"
from="$(dirname "$0")"

# entry FILE LINE: adds the line of a name that the file does not have yet.
entry() {
    grep -q "^${2%%:*}:" "$root/etc/$1" 2>/dev/null || echo "$2" >>"$root/etc/$1"
}

umask 022
mkdir -p "$root/etc/toolgate" "$root/usr/local/bin" "$root/usr/share/doc/toolgate"
entry passwd "root:x:0:0:root:/root:/sbin/nologin"
entry passwd "$NAME:x:$ID:$ID:Toolgate:/home/$NAME:/sbin/nologin"
entry group "root:x:0:"
entry group "$NAME:x:$ID:"
install -m 0755 "$program" "$root/usr/local/bin/toolgate"
install -m 0644 "$from/toolgate.toml" "$root/etc/toolgate/toolgate.toml"
install -m 0644 "$from/LICENSE" "$root/usr/share/doc/toolgate/LICENSE"
if [ -n "$certificates" ]; then
    mkdir -p "$root/etc/ssl/certs"
    install -m 0644 "$certificates" "$root/etc/ssl/certs/ca-certificates.crt"
fi
mkdir -p "$root/tmp"
chmod 1777 "$root/tmp"
for folder in "home/$NAME" "var/lib/$NAME" "run/$NAME" workspace; do
    mkdir -p "$root/$folder"
    chown "$ID:0" "$root/$folder"
    chmod 0770 "$root/$folder"
done
# Whom a socket there is for, its own mode says; they have to get to it.
chmod 0771 "$root/run/$NAME"
EOF
# The target is named though it is the machine's own: so the flags are for the program and not for macros and build
# scripts.
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target,sharing=locked \
    target="$(uname -m)-unknown-linux-musl" \
    && RUSTFLAGS="-C target-feature=+crt-static" cargo build --locked --profile dist --bin toolgate --target "$target" \
    && /image/rootfs.sh /rootfs "target/$target/dist/toolgate" /etc/ssl/certs/ca-certificates.crt

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
RUN --mount=type=bind,from=build,source=/image,target=/image \
    --mount=type=bind,from=build,source=/rootfs,target=/rootfs \
    /image/rootfs.sh / /rootfs/usr/local/bin/toolgate
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
