#!/usr/bin/env bash
# Every package as it is published, used in an empty project: tests/release/README.md.
exec tests/release/run.sh
