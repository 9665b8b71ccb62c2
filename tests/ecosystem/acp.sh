#!/usr/bin/env bash
# `toolgate acp` between real agents of the Agent Client Protocol, which have a scripted model, and the protocol's SDK as their editor.
set -uo pipefail

SDK=2.4.0
# The newest that runs on Node 20.
CLAUDE=0.49.0
CODEX=0.16.0
OPENCODE=1.18.33

export MODULES="$ECOSYSTEM/node_modules"
here="$PWD/tests/ecosystem/acp"
failed=0

row() { printf '%s\t%s\t%s\t%s\n' "$1" "$2" "$3" "$4" >>"$RESULTS"; }

case "$(uname -s)-$(uname -m)" in
Linux-x86_64) system=linux-x64 ;;
Linux-aarch64) system=linux-arm64 ;;
Darwin-arm64) system=darwin-arm64 ;;
Darwin-x86_64) system=darwin-x64 ;;
*)
    row "Agent Client Protocol" - CANNOT "the agents have no packages for this system"
    exit 0
    ;;
esac
opencode="opencode-$system"
if [[ "$system" == linux-x64 ]] && ! grep -qm1 avx2 /proc/cpuinfo; then opencode+=-baseline; fi

packages=(
    "@agentclientprotocol/sdk@$SDK" "@agentclientprotocol/claude-agent-acp@$CLAUDE" "@zed-industries/codex-acp@$CODEX"
    "$opencode@$OPENCODE"
)
if [[ "$(cat "$ECOSYSTEM/.installed" 2>/dev/null)" != "${packages[*]}" ]]; then
    rm -rf "$MODULES"
    npm install --prefix "$ECOSYSTEM" --cache "$ECOSYSTEM/cache" --no-audit --no-fund --ignore-scripts "${packages[@]}" >&2 || {
        row "Agent Client Protocol" - CANNOT "npm could not install the agents"
        exit 0
    }
    rm -rf "$ECOSYSTEM/cache"
    echo "${packages[*]}" >"$ECOSYSTEM/.installed"
fi
chmod +x "$MODULES/$opencode/bin/opencode"

# version PACKAGE: of what is installed.
version() { node -p "require('$MODULES/$1/package.json').version"; }

# agent KIND TITLE VERSION NOTE COMMAND...: what the editor saw.
agent() {
    local kind="$1" title="$2" version="$3" note="$4" said
    shift 4
    if said="$(timeout 200 node "$here/editor.mjs" "$kind" "$@" 2>&1)"; then
        row "$title" "$version" passed "$note"
    else
        printf '%s:\n%s\n' "$title" "$said"
        row "$title" "$version" FAILED "its log says why"
        failed=1
    fi
    printf '%s: %s\n' "$title" "$said"
}

shown="toolgate acp: prompts in the SDK's editor, a diff, refused, cancelled with the turn"
agent claude "Claude Code over ACP (npm: @agentclientprotocol/claude-agent-acp)" "$(version @agentclientprotocol/claude-agent-acp)" \
    "$shown" "$MODULES/.bin/claude-agent-acp"
agent codex "Codex over ACP (npm: @zed-industries/codex-acp)" "$(version @zed-industries/codex-acp)" \
    "$shown" "$MODULES/.bin/codex-acp"
agent opencode "OpenCode over ACP (npm)" "$("$MODULES/$opencode/bin/opencode" --version)" \
    "$shown" "$MODULES/$opencode/bin/opencode" acp
agent v2 "ACP SDK (npm: @agentclientprotocol/sdk)" "$(version @agentclientprotocol/sdk)" \
    "toolgate acp: editor and agent of the draft of version 2" node "$here/agent.mjs"
exit "$failed"
