#!/usr/bin/env bash
# The adapters for Spring AI and LangChain4j, with both as they are published and a model that follows a script.
set -uo pipefail
poms=clients/java/adapters/pom.xml
maven() { mvn -q -ntp -B -Dstyle.color=never -f "$poms" "$@" 2>&1 </dev/null; }

# Maven and a JDK. The client is compiled with the adapters, of the same state; its own tests are elsewhere.
clients/java/run.sh setup || exit 1
result=0
for adapter in "Spring AI" LangChain4j; do
    module="$(tr 'A-Z ' 'a-z-' <<<"$adapter")"
    status=passed
    output="$(maven spotless:check -pl ".,$module" &&
        maven test -pl "$module" -am -Dtest=ToolgateToolsTest -Dsurefire.failIfNoSpecifiedTests=false)" ||
        { status=FAILED result=1; echo "$output"; }
    version="$(sed -n "s#.*<$module.version>\(.*\)</.*#\1#p" "$poms")"
    printf '%s\t%s\t%s\t%s\n' "$adapter (Maven)" "$version" "$status" \
        "tools with schemas, prompts by a handler, pictures, errors for the model, cancelled with the thread" >>"$RESULTS"
done
exit $result
