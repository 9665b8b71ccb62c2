# Parts of the Rust toolchain. To be sourced.

# has_std TARGET: whether there is a standard library for it, which is installed if it can be.
has_std() {
    local folder
    folder="$(rustc --print target-libdir --target "$1" 2>/dev/null)" || return 1
    compgen -G "$folder/libstd-*" >/dev/null && return 0
    command -v rustup >/dev/null && timeout 600 rustup target add "$1" >&2 && compgen -G "$folder/libstd-*" >/dev/null
}

# has_component PROGRAM NAME...: whether a program of the toolchain is there; the components that it needs are added if they can be.
has_component() {
    "$1" --version >/dev/null 2>&1 && return 0
    command -v rustup >/dev/null && timeout 600 rustup component add "${@:2}" >&2 && "$1" --version >/dev/null 2>&1
}
