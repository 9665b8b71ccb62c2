# `cargo install --path .`, by which the program is built and installed from the repository. Sourced by run.sh.
#
# Without optimisation: that it is built and installed is what can fail. With the feature that tests need of tokio, what the
# program is made of is not compiled once more.

check_cargo() {
    local prefix="$work/cargo" status=0 said
    rm -rf "$prefix"
    CARGO_TARGET_DIR="$target" quietly cargo install --locked --path . --debug --features tokio/test-util --root "$prefix" || status=1
    said="$("$prefix/bin/toolgate" --version)"
    [[ "$said" == "toolgate $version" ]] || { fail "it printed: $said"; status=1; }
    row "cargo install --path ." "$version" $status "builds and installs the program from the repository"
}
