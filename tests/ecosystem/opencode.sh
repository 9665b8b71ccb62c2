#!/usr/bin/env bash
# The plugin for OpenCode in two versions of the real OpenCode, as the suite of the example agents runs it.
set -uo pipefail

failed=0
row() { printf '%s\t%s\t%s\t%s\n' "$1" "$2" "$3" "$4" >>"$RESULTS"; }

clients/opencode/run.sh setup || {
    status=$?
    ((status == 3)) || exit 1
    row "OpenCode (npm)" - CANNOT "it cannot be installed here"
    exit 0
}
for version in 1.1.31 1.18.33; do
    if OPENCODE_VERSIONS="$version" clients/opencode/run.sh test; then
        row "OpenCode with the plugin (npm)" "$version" passed "its tools run in Toolgate, and prompts are its own dialogs"
    else
        row "OpenCode with the plugin (npm)" "$version" FAILED "the tests of clients/opencode say why"
        failed=1
    fi
done
exit "$failed"
