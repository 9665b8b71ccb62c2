# npm: the tarball. Sourced by run.sh.

check_typescript() {
    local packed="$work/typescript" fresh="$work/typescript-fresh" status=0 tarball
    rm -rf "$packed" "$fresh"
    mkdir -p "$packed" "$fresh"
    {
        quietly clients/typescript/run.sh setup && npm_programs &&
            quietly npm pack ./clients/typescript --pack-destination "$packed" &&
            tarball="$(echo "$packed"/toolgate-*.tgz)" &&
            can_be_published "$tarball" &&
            quietly "$work/npm/node_modules/.bin/publint" run --strict "$tarball" &&
            quietly "$work/npm/node_modules/.bin/attw" --profile esm-only "$tarball" &&
            beside_zod_3 "$fresh" "$tarball"
    } || status=1
    row "toolgate (npm)" "$version" $status \
        "publint and attw; installs beside zod 3 with strict peers, compiles without skipLibCheck, makes a call"
}

# can_be_published TARBALL: what npm wants for a provenance, and what belongs in the package.
can_be_published() {
    local files
    files="$(tar -tzf "$1")" || return 1
    for name in package/LICENSE package/README.md package/dist/index.js package/dist/index.d.ts package/src/index.ts; do
        grep -qxF "$name" <<<"$files" || { fail "the package lacks $name"; return 1; }
    done
    grep -vE '^package/(LICENSE|README\.md|package\.json|dist/|src/)' <<<"$files" &&
        { fail "these do not belong into the package"; return 1; }
    tar -xOzf "$1" package/package.json | node -e '
        const told = JSON.parse(require("fs").readFileSync(0, "utf8"));
        const wanted = { type: "git", url: "git+'"$repository"'.git", directory: "clients/typescript" };
        const problems = [];
        for (const [key, value] of Object.entries(wanted)) {
            if (told.repository?.[key] !== value) problems.push(`repository.${key} is not ${value}`);
        }
        for (const key of ["description", "license", "homepage", "bugs", "keywords", "engines"]) {
            if (!told[key]) problems.push(`there is no ${key}`);
        }
        if (!told.publishConfig?.provenance || told.publishConfig.access !== "public") problems.push("no provenance");
        for (const [peer, version] of Object.entries(told.peerDependencies ?? {})) {
            const isOptional = told.peerDependenciesMeta?.[peer]?.optional;
            if (version !== "*" || !isOptional) problems.push(`the peer ${peer} may be in conflict with that of others`);
        }
        if (problems.length) { console.error(problems.join("\n")); process.exit(1); }'
}

beside_zod_3() {
    local compiler
    compiler="$root/clients/typescript/node_modules/.bin/tsc"
    cp "$here/consumers/call.ts" "$1/" || return 1
    printf '{"name": "consumer", "private": true, "type": "module", "dependencies": {"zod": "^3.25.0"}}\n' >"$1/package.json"
    printf '{"compilerOptions": {"strict": true, "module": "nodenext", "target": "es2022", "types": ["node"],\n%s' \
        '"skipLibCheck": false, "exactOptionalPropertyTypes": true, "noUncheckedIndexedAccess": true}}' >"$1/tsconfig.json"
    (cd "$1" && quietly npm install --strict-peer-deps --no-audit --no-fund --ignore-scripts "$2" '@types/node@20' &&
        quietly npm ls --all && quietly "$compiler" -p . && greets node call.js)
}
