# crates.io: the client, and the contract that it depends on. Sourced by run.sh.

check_rust() {
    local status=0
    {
        staged &&
            quietly cargo package --manifest-path "$work/rust/Cargo.toml" --workspace --allow-dirty &&
            in_empty_project_rust
    } || status=1
    row "toolgate-client, toolgate-contract (crates.io)" "$version" $status \
        "cargo package builds both from their archives; an empty project makes a call"
}

# A workspace of the two crates. A package has all that it is built from inside it, and in this repository the contract and
# its build script stand where all languages find them.
staged() {
    local stage="$work/rust" contract
    contract="$stage/crates/contract"
    rm -rf "$stage/crates" "$stage/clients"
    mkdir -p "$stage/crates" "$stage/clients" || return 1
    export CARGO_TARGET_DIR="$stage/target" CARGO_PROFILE_DEV_DEBUG=0 CARGO_INCREMENTAL=0
    {
        printf '[workspace]\nmembers = ["crates/contract", "clients/rust"]\nresolver = "3"\n'
        awk '/^\[/ { wanted = /^\[workspace\./ } wanted' Cargo.toml
    } >"$stage/Cargo.toml"
    cp Cargo.lock "$stage/" && cp -r crates/contract "$contract" && cp -r clients/rust "$stage/clients/rust" &&
        cp -r proto/toolgate "$stage/toolgate" && mkdir "$contract/proto" && mv "$stage/toolgate" "$contract/proto/" &&
        cp LICENSE "$contract/" && sed 's#\.\./\.\./##' build.rs >"$contract/build.rs" &&
        sed -i 's#^build = .*#build = "build.rs"#' "$contract/Cargo.toml"
}

in_empty_project_rust() {
    local fresh="$work/rust-fresh" packages="$CARGO_TARGET_DIR/package"
    rm -rf "$fresh"
    mkdir -p "$fresh/src" && cp "$here/consumers/call.rs" "$fresh/src/main.rs" || return 1
    # They are not on crates.io yet: they are taken from their archives.
    cat >"$fresh/Cargo.toml" <<END
[package]
name = "consumer"
version = "0.0.0"
edition = "2024"

[dependencies]
toolgate-client = "$version"
tokio = { version = "1", features = ["full"] }

[patch.crates-io]
toolgate-client = { path = "$packages/toolgate-client-$version" }
toolgate-contract = { path = "$packages/toolgate-contract-$version" }

[workspace]
END
    quietly cargo build --manifest-path "$fresh/Cargo.toml" && greets "$CARGO_TARGET_DIR/debug/consumer"
}
