// Prints the package.json of a package of npm, made from that of the library:
//
//   manifest.mjs carrier CPU LIBC     of `@toolgate/linux-CPU`, which has the program; LIBC is `glibc` if it needs that library
//   manifest.mjs library CPU...       of `toolgate`: the library, with a command that starts the program of one of these

import { readFileSync } from "node:fs";

const library = JSON.parse(readFileSync(new URL("../../../clients/typescript/package.json", import.meta.url), "utf8"));
const [kind, ...cpus] = process.argv.slice(2);

/** Only the owner of a scope can publish in it, so that nobody else can take the name of a package that the library installs. */
const carrierOf = (cpu) => `@toolgate/linux-${cpu}`;

function carrier(cpu, libc) {
  const { version, license, author, repository, bugs, publishConfig } = library;
  return {
    name: carrierOf(cpu),
    version,
    description: `The program toolgate for Linux on ${cpu}; install the package toolgate`,
    license,
    author,
    homepage: "https://github.com/toolgate/toolgate#readme",
    repository: { type: repository.type, url: repository.url },
    bugs,
    publishConfig,
    os: ["linux"],
    cpu: [cpu],
    ...(libc ? { libc: [libc] } : {}),
    // A program cannot be executed inside of an archive, where Yarn would leave it.
    preferUnplugged: true,
    files: ["bin", "share"],
  };
}

function withProgram(cpus) {
  return {
    ...library,
    bin: { toolgate: "bin/toolgate.js" },
    files: ["bin", ...library.files],
    optionalDependencies: Object.fromEntries(cpus.map((cpu) => [carrierOf(cpu), library.version])),
    // They are made already, and the tools for it are not in the folder that is packed.
    scripts: undefined,
    devDependencies: undefined,
  };
}

console.log(JSON.stringify(kind === "carrier" ? carrier(...cpus) : withProgram(cpus), null, 2));
