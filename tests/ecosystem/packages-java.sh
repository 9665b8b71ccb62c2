#!/usr/bin/env bash
# The packages for Java as they are published, used in an empty project: tests/release/README.md.
exec tests/release/run.sh java
