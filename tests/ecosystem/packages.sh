#!/usr/bin/env bash
# The packages for Python, TypeScript and Go as they are published, used in empty projects: tests/release/README.md.
exec tests/release/run.sh python typescript go
