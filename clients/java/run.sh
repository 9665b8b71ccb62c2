#!/usr/bin/env bash
# What the tests call of this library: setup, check, test, build, driver; `fmt` formats. Every build generates the messages
# and stubs of the contract into target/; `generate` does only that.
set -uo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
repository=$(cd "$here/../.." && pwd)
target=${TOOLGATE_TARGET:-$repository/target}
tools=$target/clients/java
contract=$repository/proto
generated=target/generated-sources/protobuf
cd "$here" || exit 1

maven() {
    # Maven resets the colour of a terminal that is not there.
    mvn -q -ntp -B -Dstyle.color=never "$@" 2>&1 | sed $'s/\e\\[0*m//g; /^$/d'
    return "${PIPESTATUS[0]}"
}

need() {
    local program
    for program in "$@"; do
        if ! command -v "$program" >/dev/null && [ "$(id -u)" = 0 ]; then
            apt-get install -y -qq openjdk-17-jdk-headless maven >/dev/null 2>&1
        fi
        if ! command -v "$program" >/dev/null; then
            echo "java: $program is not installed"
            exit 3
        fi
    done
}

# Changes when anything does that Maven would have to fetch.
fingerprint() {
    cat pom.xml run.sh | sha256sum | cut -d ' ' -f 1
}

setup() {
    need java javac mvn
    mkdir -p "$tools"
    local done=$tools/setup-$(fingerprint)
    [ -e "$done" ] && [ -d "$HOME/.m2/repository/io/grpc" ] && return 0
    renew_generated
    # Each goal once, so that all it needs is there when there is no network.
    maven test-compile surefire:test spotless:check -Dtest=TargetTest -Dsurefire.failIfNoSpecifiedTests=false || return 1
    class_path || return 1
    rm -f "$tools"/setup-*
    touch "$done"
}

class_path() {
    maven dependency:build-classpath -DincludeScope=test -Dmdep.outputFile="$tools/class-path"
}

# Deletes what an older contract gave: Maven's plugin generates anew, but leaves files of messages that are gone, which do
# not compile.
renew_generated() {
    if [ -n "$(find "$contract" pom.xml -newer "$generated" -print -quit 2>/dev/null)" ]; then
        rm -rf "$generated" target/protobuf-maven-plugin
    fi
}

generate() {
    rm -rf "$generated" target/protobuf-maven-plugin
    maven -o generate-sources
}

compile() {
    renew_generated
    maven -o test-compile
}

run_tests() {
    # Without it Maven leaves out the tests that need it.
    if [ ! -x "${TOOLGATE_BIN:-}" ]; then
        echo "java: TOOLGATE_BIN has to name the program of the service" >&2
        return 1
    fi
    renew_generated
    maven -o test
}

build() {
    local classes=target/classes/io/toolgate tests=target/test-classes/io/toolgate/driver
    if [ ! -e "$tests/Driver.class" ] || [ ! -d "$classes" ] ||
        [ -n "$(find src pom.xml "$contract" -newer "$tests/Driver.class" -type f -print -quit)" ]; then
        compile || return 1
        touch "$tests/Driver.class"
    fi
    [ -e "$tools/class-path" ] || class_path || return 1
    # An archive of the classes that a driver loads makes it start twice as fast.
    if [ ! -e "$tools/driver.jar" ] || [ "$tests/Driver.class" -nt "$tools/driver.jar" ]; then
        rm -f "$tools/driver.jsa"
        jar --create --no-compress --file "$tools/driver.jar" -C target/classes . -C target/test-classes . || return 1
    fi
    if [ ! -e "$tools/driver.jsa" ] || [ "$tools/driver.jar" -nt "$tools/driver.jsa" ]; then
        archive
    fi
}

archive() {
    echo '{"id": 1, "do": "connect", "client": "c", "target": "http://127.0.0.1:1"}
{"id": 2, "do": "greeter", "client": "c"}
{"id": 3, "do": "execute", "client": "c"}
{"id": 4, "do": "stop", "command": 2}
{"id": 5, "do": "stop", "command": 3}' |
        java -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ArchiveClassesAtExit="$tools/driver.jsa" \
            -cp "$(driver_class_path)" io.toolgate.driver.Driver >/dev/null 2>"$tools/archive.log" || true
}

driver_class_path() {
    # An archive takes classes from jars only.
    echo "$tools/driver.jar:$(cat "$tools/class-path")"
}

driver() {
    # The driver lives for one test: start fast rather than run fast for long.
    exec java -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto -XX:SharedArchiveFile="$tools/driver.jsa" \
        -cp "$(driver_class_path)" io.toolgate.driver.Driver
}

case "${1:-}" in
    setup) setup ;;
    generate) generate ;;
    check) maven -o spotless:check && compile ;;
    fmt) maven -o spotless:apply ;;
    test) run_tests ;;
    build) build ;;
    driver) driver ;;
    *)
        echo "usage: run.sh setup | generate | check | fmt | test | build | driver" >&2
        exit 2
        ;;
esac
