#!/usr/bin/env bash
# Plugins that people publish for OpenCode: each runs in a service of its own, which lists what it brings.
set -uo pipefail

OH_MY_OPENCODE=4.19.4
DCP=3.1.14
DESTRUCTIVE_CHECK=1.0.5
BROWSER=4.6.1
SUPERPOWERS=v6.2.0

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
folder="$(mktemp -d)" || exit 1
service=
failed=0
# shellcheck disable=SC2317 # called by the trap
leave() {
    [[ -z "$service" ]] || { kill "$service" && wait "$service"; } 2>/dev/null
    rm -rf "$folder"
}
trap leave EXIT

row() { printf '%s\t%s\t%s\t%s\n' "$1" "$2" "$3" "$4" >>"$RESULTS"; }

packages=("oh-my-opencode@$OH_MY_OPENCODE" "@tarquinen/opencode-dcp@$DCP"
    "@sureshsankaran/opencode-destructive-check@$DESTRUCTIVE_CHECK" "@different-ai/opencode-browser@$BROWSER")
stamp="$ECOSYSTEM/.installed"
if [[ "$(cat "$stamp" 2>/dev/null)" != "${packages[*]}" ]]; then
    rm -rf "$ECOSYSTEM/node_modules"
    npm install --prefix "$ECOSYSTEM" --cache "$ECOSYSTEM/cache" --no-audit --no-fund --ignore-scripts "${packages[@]}" >&2 || {
        row "plugins of OpenCode (npm)" - CANNOT "npm cannot install them here"
        exit 0
    }
    rm -rf "$ECOSYSTEM/cache"
    echo "${packages[*]}" >"$stamp"
fi

# check TITLE VERSION PLUGIN WANTED NOTE: PLUGIN is an entry of the key `plugin`; WANTED is an expression of JavaScript that has
# `agents`, `tools`, `skills`, `servers`, `source` and `warnings` of the service.
check() {
    local title="$1" version="$2" plugin="$3" wanted="$4" note="$5" home said
    home="$folder/home"
    rm -rf "$home"
    mkdir -p "$home/.config/opencode" "$home/work" "$home/data"
    ln -s "$ECOSYSTEM/node_modules" "$home/.config/opencode/node_modules"
    printf '{"plugin": [%s]}\n' "$plugin" >"$home/.config/opencode/opencode.json"
    (cd "$home/work" && exec env -i PATH="$PATH" HOME="$home" TMPDIR="$home" OPENCODE_DISABLE_AUTOUPDATE=1 "$TOOLGATE_BIN" serve \
        --data-dir "$home/data" --socket "$home/s" --no-tcp >"$home/out" 2>"$home/log") &
    service=$!
    said="$(node "$here/opencode-plugins/ask.mjs" "$home/s" "$wanted" 2>&1)"
    if [[ $? == 0 ]]; then
        row "$title" "$version" passed "$note"
    else
        row "$title" "$version" FAILED "$(tr '\n\t|' '   ' <<<"$said" | cut -c 1-160)"
        { echo "$title:"; echo "$said"; tail -20 "$home/log"; } >&2
        failed=1
    fi
    kill "$service" 2>/dev/null
    wait "$service" 2>/dev/null
    service=
}

version_of() { node -p "require('$ECOSYSTEM/node_modules/$1/package.json').version"; }

name=oh-my-opencode
# All that it leaves and does not hide. The remote servers are named; whether they answer is not looked at.
agents='["Sisyphus - ultraworker", "Hephaestus - Deep Agent", "Prometheus - Plan Builder", "Metis - Plan Consultant",
    "Momus - Plan Critic", "Sisyphus-Junior", "explore", "librarian", "multimodal-looker", "oracle"]'
servers='["codegraph", "context7", "grep_app", "lsp", "websearch"]'
check "oh-my-opencode (npm)" "$(version_of $name)" "\"$name\"" \
    "$agents.every((one) => agents.includes(one)) && $servers.every((one) => servers.includes(one)) &&
    source.tools === 14 && tools.includes(\"call_omo_agent\") && warnings.some((one) => one.includes(\"by URL are not fetched\"))" \
    "its 10 agents, 5 MCP servers and 14 tools are there; its skills, which it names by URL, are not"
name=@tarquinen/opencode-dcp
check "opencode-dcp (npm)" "$(version_of $name)" "\"$name\"" 'tools.includes("compress")' "its tool is there"
name=@sureshsankaran/opencode-destructive-check
check "opencode-destructive-check (npm)" "$(version_of $name)" "\"$name\"" 'source.state === "TOOL_SOURCE_STATE_READY"' "it is loaded"
name=@different-ai/opencode-browser
check "opencode-browser (npm)" "$(version_of $name)" "\"$name\"" 'tools.includes("browser_click")' "its tools are there"

# Where github.com cannot be reached, git itself can be told of a mirror: README.md beside this file.
superpowers="$ECOSYSTEM/superpowers-$SUPERPOWERS"
if [[ ! -d "$superpowers" ]]; then
    timeout 60 git clone -q --depth 1 --branch "$SUPERPOWERS" https://github.com/obra/superpowers "$superpowers.new" >&2 &&
        mv "$superpowers.new" "$superpowers"
fi
if [[ -d "$superpowers" ]]; then
    check "superpowers (GitHub)" "$(node -p "require('$superpowers/package.json').version")" "\"file://$superpowers\"" \
        'skills.length === 14 && skills.includes("brainstorming")' "all of its 14 skills are there"
else
    row "superpowers (GitHub)" - CANNOT "github.com cannot be reached"
fi
exit "$failed"
