#!/usr/bin/env bash
# `toolgate setup` for MCP clients that npm has: each finds the entry that was written for it in an empty home, starts Toolgate by
# it, and does not find it any more when it was taken out.
set -uo pipefail

CLAUDE=2.1.330
CODEX=0.169.0
GEMINI=0.61.0
OPENCODE=(1.1.31 1.18.33)

folder="$(mktemp -d)" || exit 1
trap 'rm -rf "$folder"' EXIT
modules="$ECOSYSTEM/node_modules"
failed=0

row() { printf '%s\t%s\t%s\t%s\n' "$1" "$2" "$3" "$4" >>"$RESULTS"; }

case "$(uname -s)-$(uname -m)" in
Linux-x86_64) system=linux-x64 ;;
Linux-aarch64) system=linux-arm64 ;;
Darwin-arm64) system=darwin-arm64 ;;
Darwin-x86_64) system=darwin-x64 ;;
*) system= ;;
esac

# install PACKAGE...: those of a system have the program itself, which others fetch by a script.
install() {
    local stamp="$ECOSYSTEM/.installed"
    [[ "$(cat "$stamp" 2>/dev/null)" == "$*" ]] && return 0
    rm -rf "$modules"
    npm install --prefix "$ECOSYSTEM" --cache "$ECOSYSTEM/cache" --no-audit --no-fund --ignore-scripts "$@" >&2 || return 1
    rm -rf "$ECOSYSTEM/cache"
    echo "$*" >"$stamp"
}

# A person with an empty home, who has told Gemini CLI to trust the project.
person() {
    home="$folder/home"
    project="$home/project"
    rm -rf "$home"
    mkdir -p "$project" "$home/.gemini" "$home/.config/opencode/node_modules"
    printf '{"%s": "TRUST_FOLDER"}\n' "$project" >"$home/.gemini/trustedFolders.json"
    # OpenCode would install its package for plugins first, unless it finds that written down.
    local dependencies='{"dependencies": {"@opencode-ai/plugin": "*"}}'
    echo "$dependencies" >"$home/.config/opencode/package.json"
    printf '{"packages": {"": %s}}\n' "$dependencies" >"$home/.config/opencode/package-lock.json"
}

# as_person COMMAND...: in the project, without colours and without a terminal.
as_person() {
    (cd "$project" && timeout 120 env -i PATH="$PATH" HOME="$home" TERM=dumb NO_COLOR=1 OPENCODE_DISABLE_AUTOUPDATE=1 "$@" </dev/null 2>&1)
}

# client NAME TITLE SHOWN VERSION COMMAND...: what `mcp list` of it shows when it is set up, as a pattern.
client() {
    local name="$1" title="$2" shown="$3" version said again
    shift 3
    version="$(as_person "$@" --version | grep -oE '[0-9]+\.[0-9]+\.[0-9]+' | head -1)"
    person
    said="$(as_person "$TOOLGATE_BIN" setup "$name" --yes && as_person "$@" mcp list)"
    again="$(as_person "$TOOLGATE_BIN" setup "$name" --yes --remove && as_person "$@" mcp list)"
    if ! grep -qE "$shown" <<<"$said"; then
        printf '%s with the entry:\n%s\n' "$title" "$said"
        row "$title" "${version:-?}" FAILED "its list does not show the entry as it should"
        failed=1
    elif grep -qE "$shown" <<<"$again"; then
        printf '%s without the entry:\n%s\n' "$title" "$again"
        row "$title" "${version:-?}" FAILED "its list still shows what was removed"
        failed=1
    else
        row "$title" "$version" passed "toolgate setup: its mcp list shows the entry, and nothing after --remove"
    fi
}

if [[ -z "$system" ]] || ! command -v node >/dev/null; then
    row "MCP clients (npm)" - CANNOT "their packages are for other systems, or there is no Node"
    exit 0
fi
baseline=
if [[ "$system" == linux-x64 ]] && ! grep -qm1 avx2 /proc/cpuinfo; then baseline=-baseline; fi
packages=("@anthropic-ai/claude-code-$system@$CLAUDE" "@openai/codex@$CODEX" "@google/gemini-cli@$GEMINI")
for version in "${OPENCODE[@]}"; do packages+=("opencode-$version@npm:opencode-$system$baseline@$version"); done
install "${packages[@]}" || exit 1
person

client claude-code "Claude Code (npm)" 'toolgate: .* mcp - . Connected' "$modules/@anthropic-ai/claude-code-$system/claude"
client codex "Codex CLI (npm)" '^toolgate +.*enabled' "$modules/.bin/codex"
client gemini "Gemini CLI (npm)" 'toolgate: .* mcp \(stdio\) - Connected' node "$modules/@google/gemini-cli/bundle/gemini.js"
for version in "${OPENCODE[@]}"; do
    client opencode "OpenCode (npm)" 'toolgate .*connected' "$modules/opencode-$version/bin/opencode"
done
exit "$failed"
