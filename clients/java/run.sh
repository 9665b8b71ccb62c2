#!/usr/bin/env bash
# What the tests call of this library: setup, generate [--check], check, test, build, driver; `fmt` formats.
set -uo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
repository=$(cd "$here/../.." && pwd)
target=${TOOLGATE_TARGET:-$repository/target}
tools=$target/clients/java
cd "$here" || exit 1

maven() {
    # Maven resets the colour of a terminal that is not there.
    mvn -q -ntp -B -Dstyle.color=never "$@" 2>&1 | sed $'s/\e\\[0*m//g; /^$/d'
    return "${PIPESTATUS[0]}"
}

property() {
    sed -n "s|.*<$1>\(.*\)</$1>.*|\1|p" pom.xml
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

platform() {
    local system machine
    system=$(uname -s | sed 's/Darwin/osx/; s/Linux/linux/')
    machine=$(uname -m | sed 's/aarch64/aarch_64/; s/arm64/aarch_64/')
    echo "$system-$machine"
}

# Fetches a program from Maven Central: group:artifact:version and the name it gets.
program() {
    local artifact=$1 name=$2 version
    version=$(echo "$artifact" | cut -d : -f 3)
    if [ ! -x "$tools/$version/$name" ]; then
        maven dependency:copy -Dartifact="$artifact:exe:$(platform)" -DoutputDirectory="$tools/$version" || return 1
        mv "$tools/$version/$(echo "$artifact" | cut -d : -f 2)-$version-$(platform).exe" "$tools/$version/$name" &&
            chmod +x "$tools/$version/$name"
    fi
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
    program "com.google.protobuf:protoc:$(property protobuf.version)" protoc || return 1
    program "io.grpc:protoc-gen-grpc-java:$(property grpc.plugin.version)" protoc-gen-grpc-java || return 1
    # Each goal once, so that all it needs is there when there is no network.
    maven test-compile surefire:test spotless:check -Dtest=TargetTest -Dsurefire.failIfNoSpecifiedTests=false || return 1
    class_path || return 1
    rm -f "$tools"/setup-*
    touch "$done"
}

class_path() {
    maven dependency:build-classpath -DincludeScope=test -Dmdep.outputFile="$tools/class-path"
}

generate() {
    local out=src/generated/java
    if [ "${1:-}" = --check ]; then
        out=$(mktemp -d)
        # Now, not at the exit: the variable is local.
        trap "rm -rf '$out'" EXIT
    else
        rm -rf "$out"
        mkdir -p "$out"
    fi
    PATH=$tools/$(property protobuf.version):$tools/$(property grpc.plugin.version):$PATH:$repository/target/tools/bin \
        buf generate "$repository/proto" --template buf.gen.yaml --output "$out" || return 1
    if [ "${1:-}" = --check ] && ! diff -r src/generated/java "$out"; then
        echo "clients/java/src/generated differs from proto/: run clients/java/run.sh generate" >&2
        return 1
    fi
}

build() {
    local classes=target/classes/io/toolgate tests=target/test-classes/io/toolgate/driver
    if [ ! -e "$tests/Driver.class" ] || [ ! -d "$classes" ] ||
        [ -n "$(find src pom.xml -newer "$tests/Driver.class" -type f -print -quit)" ]; then
        maven -o test-compile || return 1
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
    generate) generate "${2:-}" ;;
    check) maven -o spotless:check && maven -o test-compile ;;
    fmt) maven -o spotless:apply ;;
    test) maven -o test ;;
    build) build ;;
    driver) driver ;;
    *)
        echo "usage: run.sh setup | generate [--check] | check | fmt | test | build | driver" >&2
        exit 2
        ;;
esac
