#!/usr/bin/env bash
# Programs in languages that have no library here, with stubs that are generated from the contract.
#
# C# is not among them: the registries that the tests use have no .NET SDK for Linux and no Google.Protobuf for C#, which are
# published on NuGet only.
set -uo pipefail
programs=tests/ecosystem/stubs

say() { printf '%s\t%s\t%s\t%s\n' "$@" >>"$RESULTS"; }

# installed PACKAGE...: packages of the system, if they may be installed.
installed() {
    local package missing=() as=()
    for package in "$@"; do
        [[ "$(dpkg-query -W -f '${Status}' "$package" 2>/dev/null)" == *" installed" ]] || missing+=("$package")
    done
    ((${#missing[@]})) || return 0
    ((EUID == 0)) || as=(sudo -n)
    "${as[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=120 update </dev/null &&
        "${as[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=120 install -y \
            --no-install-recommends "${missing[@]}" </dev/null
}

# A service whose rules ask before a file is made.
serve() {
    folder="$(mktemp -d)" || exit 1
    mkdir "$folder/files"
    echo '{"permission": {"bash": {"*": "allow", "touch *": "ask"}}}' >"$folder/files/opencode.json"
    HOME="$folder" XDG_CONFIG_HOME="$folder" "$TOOLGATE_BIN" serve --no-tcp --socket "$folder/s" --data-dir "$folder/data" \
        --workspace "default=$folder/files" >"$folder/log" 2>&1 </dev/null &
    service=$!
    trap 'kill "$service" 2>/dev/null; wait "$service" 2>/dev/null; rm -rf "$folder"' EXIT
    local left=600
    until [[ -S "$folder/s" ]]; do
        ((left-- > 0)) && kill -0 "$service" 2>/dev/null || { cat "$folder/log"; exit 1; }
        sleep 0.1
    done
}

# ruby_program: generates the stubs, runs the program, and compares what it prints.
ruby_program() {
    local stubs="$ECOSYSTEM/ruby" name="Ruby, stubs of protoc (Debian)" printed
    if ! installed ruby ruby-grpc ruby-grpc-tools protobuf-compiler libprotobuf-dev >&2; then
        say "$name" - CANNOT "Debian's ruby-grpc cannot be installed"
        return 0
    fi
    rm -rf "$stubs" && mkdir -p "$stubs" || return 1
    protoc -I proto -I /usr/include --ruby_out="$stubs" --grpc_out="$stubs" --plugin=protoc-gen-grpc="$(command -v grpc_ruby_plugin)" \
        proto/toolgate/v1/*.proto || return 1
    serve
    printed="$(timeout 60 ruby "$programs/program.rb" "$stubs" "unix:$folder/s" 2>&1)"
    if diff <(echo "$printed") "$programs/printed.txt"; then
        say "$name" "$(ruby -e 'puts RUBY_VERSION'), grpc $(ruby -r grpc -e 'puts GRPC::VERSION')" passed \
            "tools listed, a call streamed and approved over Channel"
    else
        say "$name" "$(ruby -e 'puts RUBY_VERSION')" FAILED "it printed something else"
        return 1
    fi
}

ruby_program
