# Maven's central repository: what it requires of the client and its adapters. Sourced by run.sh.

check_java() {
    local deployed="$work/java-repository" status=0 artifact
    rm -rf "$deployed"
    {
        quietly clients/java/run.sh setup && renewed_java &&
            quietly maven -f clients/java/adapters/pom.xml -Prelease deploy -Dmaven.test.skip=true -Dmaven.install.skip=true \
                "-DaltDeploymentRepository=check::file://$deployed" &&
            for artifact in toolgate toolgate-spring-ai toolgate-langchain4j; do
                is_whole "$deployed/io/toolgate/$artifact/$version" "$artifact" || return 1
            done &&
            python3 "$here/poms.py" "$deployed" &&
            in_empty_project_java "$deployed"
    } || status=1
    row "io.toolgate:toolgate, -spring-ai, -langchain4j (Maven)" "$version" $status \
        "POM metadata, sources and Javadoc as Maven Central requires; an empty project makes a call"
}

maven() { mvn -q -ntp -B -Dstyle.color=never "$@"; }

# Files of messages that are gone do not compile, and would be packed.
renewed_java() { rm -rf clients/java/target/classes clients/java/adapters/*/target; }

# is_whole FOLDER ARTIFACT: whether all files of an artifact are there.
is_whole() {
    local suffix
    for suffix in .pom .jar -sources.jar -javadoc.jar; do
        [[ -s "$1/$2-$version$suffix" ]] || { fail "$2 has no $suffix"; return 1; }
    done
    # Programs that are modules require it by this name, whatever the file is called.
    (cd "$work" && jar xf "$1/$2-$version.jar" META-INF/MANIFEST.MF && grep -q '^Automatic-Module-Name: io\.toolgate' META-INF/MANIFEST.MF) ||
        fail "$2 does not name its module"
}

in_empty_project_java() {
    local fresh="$work/java-fresh" own="$work/m2"
    # Its own repository: that of this machine may have another state of the same version.
    rm -rf "$fresh" "$own/io/toolgate"
    mkdir -p "$fresh/src/main/java" && cp "$here/consumers/Call.java" "$fresh/src/main/java/" || return 1
    sed "s#VERSION#$version#; s#REPOSITORY#file://$1#" "$here/consumers/pom.xml" >"$fresh/pom.xml"
    quietly maven -f "$fresh/pom.xml" "-Dmaven.repo.local=$own" compile dependency:build-classpath \
        "-Dmdep.outputFile=$fresh/class-path" &&
        greets java -cp "$fresh/target/classes:$(cat "$fresh/class-path")" Call
}
