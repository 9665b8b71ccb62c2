#!/usr/bin/env bash
# The packages for Rust as they are published, used in an empty project: tests/release/README.md.
exec tests/release/run.sh rust
