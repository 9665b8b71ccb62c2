//! The servers that are known without configuration: for which files, where their root is, how they are started, and how
//! to get them (`docs/spec/skills-and-lsp.md` §B.3).
//!
//! *Invariant:* data only. Nothing is ever installed; a server is used where its program is found.

use super::roots::Root;

/// A server that is known without configuration.
#[derive(Debug)]
pub(super) struct Builtin {
    pub(super) id: &'static str,
    /// The endings of its files.
    pub(super) extensions: &'static [&'static str],
    pub(super) root: Root,
    /// Files that make it not the one to use, where one of them is found.
    pub(super) unless: &'static [&'static str],
    /// Command lines; the first one whose program is found is used.
    pub(super) commands: &'static [&'static [&'static str]],
    /// An npm package that must be installed where the workspace is.
    pub(super) package: Option<&'static str>,
    pub(super) settings: Settings,
    /// Whether it may run what the project brings, such as build scripts, plugins, or a configuration that is code.
    pub(super) runs_project_code: bool,
    /// How to get it.
    pub(super) get: &'static str,
}

/// What a server is told about the project that has to be looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Settings {
    None,
    /// Where the compiler is, without which it does not start.
    Tsserver,
    /// Where the compiler's libraries are, without which it does not start.
    Tsdk,
    /// Which Python is used, if the project has one of its own.
    Python,
}

const PLAIN: Builtin = Builtin {
    id: "",
    extensions: &[],
    root: Root::Start,
    unless: &[],
    commands: &[],
    package: None,
    settings: Settings::None,
    runs_project_code: false,
    get: "",
};

const SCRIPTS: &[&str] = &[".ts", ".tsx", ".js", ".jsx", ".mjs", ".cjs", ".mts", ".cts"];
const LOCKS: &[&str] = &[
    "package-lock.json",
    "bun.lockb",
    "bun.lock",
    "pnpm-lock.yaml",
    "yarn.lock",
];
const DENO: &[&str] = &["deno.json", "deno.jsonc"];
const PYTHON: &[&str] = &[
    "pyproject.toml",
    "setup.py",
    "setup.cfg",
    "requirements.txt",
    "Pipfile",
    "pyrightconfig.json",
];
const GRADLE: &[&str] = &["settings.gradle.kts", "settings.gradle"];

/// Returns the servers that are known without configuration, each with the programs of which any one is enough.
pub fn known_programs() -> impl Iterator<Item = (&'static str, impl Iterator<Item = &'static str> + Clone)> {
    let programs = |one: &'static Builtin| one.commands.iter().filter_map(|line| line.first().copied());
    BUILTINS.iter().map(move |one| (one.id, programs(one)))
}

/// Every one of them. Of equal ids the table has one.
pub(super) const BUILTINS: &[Builtin] = &[
    Builtin {
        id: "deno",
        extensions: &[".ts", ".tsx", ".js", ".jsx", ".mjs"],
        root: Root::Only(DENO),
        commands: &[&["deno", "lsp"]],
        get: "install Deno, see https://docs.deno.com",
        ..PLAIN
    },
    Builtin {
        id: "typescript",
        extensions: SCRIPTS,
        root: Root::Nearest(&[LOCKS]),
        unless: DENO,
        commands: &[&["typescript-language-server", "--stdio"]],
        settings: Settings::Tsserver,
        get: "npm install -g typescript-language-server typescript",
        ..PLAIN
    },
    Builtin {
        id: "vue",
        extensions: &[".vue"],
        root: Root::Nearest(&[LOCKS]),
        commands: &[&["vue-language-server", "--stdio"]],
        runs_project_code: true,
        get: "npm install -g @vue/language-server",
        ..PLAIN
    },
    Builtin {
        id: "eslint",
        extensions: &[".ts", ".tsx", ".js", ".jsx", ".mjs", ".cjs", ".mts", ".cts", ".vue"],
        root: Root::Nearest(&[LOCKS]),
        commands: &[&["vscode-eslint-language-server", "--stdio"]],
        package: Some("eslint"),
        runs_project_code: true,
        get: "npm install -g vscode-langservers-extracted",
        ..PLAIN
    },
    Builtin {
        id: "oxlint",
        extensions: &[
            ".ts", ".tsx", ".js", ".jsx", ".mjs", ".cjs", ".mts", ".cts", ".vue", ".astro", ".svelte",
        ],
        root: Root::Nearest(&[&[".oxlintrc.json"], LOCKS]),
        commands: &[&["oxc_language_server"], &["oxlint", "--lsp"]],
        runs_project_code: true,
        get: "npm install -g oxlint",
        ..PLAIN
    },
    Builtin {
        id: "biome",
        extensions: &[
            ".ts", ".tsx", ".js", ".jsx", ".mjs", ".cjs", ".mts", ".cts", ".json", ".jsonc", ".vue", ".astro",
            ".svelte", ".css", ".graphql", ".gql", ".html",
        ],
        root: Root::Nearest(&[&["biome.json", "biome.jsonc"], LOCKS]),
        commands: &[&["biome", "lsp-proxy", "--stdio"]],
        get: "npm install -g @biomejs/biome",
        ..PLAIN
    },
    Builtin {
        id: "gopls",
        extensions: &[".go"],
        root: Root::Nearest(&[&["go.work"], &["go.mod", "go.sum"]]),
        commands: &[&["gopls"]],
        get: "go install golang.org/x/tools/gopls@latest",
        ..PLAIN
    },
    Builtin {
        id: "ruby-lsp",
        extensions: &[".rb", ".rake", ".gemspec", ".ru"],
        root: Root::Nearest(&[&["Gemfile"]]),
        commands: &[&["rubocop", "--lsp"]],
        runs_project_code: true,
        get: "gem install rubocop",
        ..PLAIN
    },
    Builtin {
        id: "ty",
        extensions: &[".py", ".pyi"],
        root: Root::Nearest(&[&["ty.toml"], PYTHON]),
        commands: &[&["ty", "server"]],
        settings: Settings::Python,
        get: "pip install ty",
        ..PLAIN
    },
    Builtin {
        id: "pyright",
        extensions: &[".py", ".pyi"],
        root: Root::Nearest(&[PYTHON]),
        commands: &[&["pyright-langserver", "--stdio"]],
        settings: Settings::Python,
        get: "npm install -g pyright",
        ..PLAIN
    },
    Builtin {
        id: "elixir-ls",
        extensions: &[".ex", ".exs"],
        root: Root::Nearest(&[&["mix.exs", "mix.lock"]]),
        commands: &[&["elixir-ls"], &["language_server.sh"]],
        runs_project_code: true,
        get: "see https://github.com/elixir-lsp/elixir-ls",
        ..PLAIN
    },
    Builtin {
        id: "zls",
        extensions: &[".zig", ".zon"],
        root: Root::Nearest(&[&["build.zig"]]),
        commands: &[&["zls"]],
        runs_project_code: true,
        get: "see https://zigtools.org/zls/install",
        ..PLAIN
    },
    Builtin {
        id: "csharp",
        extensions: &[".cs"],
        root: Root::Nearest(&[&["*.sln", "*.csproj", "global.json"]]),
        commands: &[&["csharp-ls"]],
        runs_project_code: true,
        get: "dotnet tool install --global csharp-ls",
        ..PLAIN
    },
    Builtin {
        id: "fsharp",
        extensions: &[".fs", ".fsi", ".fsx", ".fsscript"],
        root: Root::Nearest(&[&["*.sln", "*.fsproj", "global.json"]]),
        commands: &[&["fsautocomplete"]],
        runs_project_code: true,
        get: "dotnet tool install --global fsautocomplete",
        ..PLAIN
    },
    Builtin {
        id: "sourcekit-lsp",
        extensions: &[".swift", ".objc", ".objcpp"],
        root: Root::Nearest(&[&["Package.swift", "*.xcodeproj", "*.xcworkspace"]]),
        commands: &[&["sourcekit-lsp"]],
        runs_project_code: true,
        get: "install Swift, see https://www.swift.org/install",
        ..PLAIN
    },
    Builtin {
        id: "rust",
        extensions: &[".rs"],
        root: Root::Cargo,
        commands: &[&["rust-analyzer"]],
        runs_project_code: true,
        get: "rustup component add rust-analyzer",
        ..PLAIN
    },
    Builtin {
        id: "clangd",
        extensions: &[".c", ".cpp", ".cc", ".cxx", ".c++", ".h", ".hpp", ".hh", ".hxx", ".h++"],
        root: Root::Nearest(&[
            &["compile_commands.json", "compile_flags.txt", ".clangd"],
            &["CMakeLists.txt", "Makefile"],
        ]),
        commands: &[&["clangd", "--background-index", "--clang-tidy"]],
        get: "install clangd, see https://clangd.llvm.org/installation",
        ..PLAIN
    },
    Builtin {
        id: "svelte",
        extensions: &[".svelte"],
        root: Root::Nearest(&[LOCKS]),
        commands: &[&["svelteserver", "--stdio"]],
        runs_project_code: true,
        get: "npm install -g svelte-language-server",
        ..PLAIN
    },
    Builtin {
        id: "astro",
        extensions: &[".astro"],
        root: Root::Nearest(&[LOCKS]),
        commands: &[&["astro-ls", "--stdio"]],
        settings: Settings::Tsdk,
        runs_project_code: true,
        get: "npm install -g @astrojs/language-server typescript",
        ..PLAIN
    },
    Builtin {
        id: "jdtls",
        extensions: &[".java"],
        root: Root::Nearest(&[&["pom.xml", "build.gradle", "build.gradle.kts", ".project", ".classpath"]]),
        commands: &[&["jdtls"]],
        runs_project_code: true,
        get: "install Java 21 and jdtls, see https://github.com/eclipse-jdtls/eclipse.jdt.ls",
        ..PLAIN
    },
    Builtin {
        id: "kotlin-ls",
        extensions: &[".kt", ".kts"],
        root: Root::Nearest(&[
            GRADLE,
            &["gradlew", "gradlew.bat"],
            &["build.gradle.kts", "build.gradle"],
            &["pom.xml"],
        ]),
        commands: &[&["kotlin-lsp", "--stdio"], &["kotlin-language-server"]],
        runs_project_code: true,
        get: "see https://github.com/Kotlin/kotlin-lsp",
        ..PLAIN
    },
    Builtin {
        id: "yaml-ls",
        extensions: &[".yaml", ".yml"],
        root: Root::Nearest(&[LOCKS]),
        commands: &[&["yaml-language-server", "--stdio"]],
        get: "npm install -g yaml-language-server",
        ..PLAIN
    },
    Builtin {
        id: "lua-ls",
        extensions: &[".lua"],
        root: Root::Nearest(&[&[
            ".luarc.json",
            ".luarc.jsonc",
            ".luacheckrc",
            ".stylua.toml",
            "stylua.toml",
            "selene.toml",
            "selene.yml",
        ]]),
        commands: &[&["lua-language-server"]],
        get: "see https://luals.github.io/#install",
        ..PLAIN
    },
    Builtin {
        id: "php intelephense",
        extensions: &[".php"],
        root: Root::Nearest(&[&["composer.json", "composer.lock", ".php-version"]]),
        commands: &[&["intelephense", "--stdio"]],
        get: "npm install -g intelephense",
        ..PLAIN
    },
    Builtin {
        id: "prisma",
        extensions: &[".prisma"],
        root: Root::Nearest(&[&["schema.prisma", "prisma/schema.prisma", "prisma"]]),
        commands: &[&["prisma", "language-server"], &["prisma-language-server", "--stdio"]],
        get: "npm install -g prisma",
        ..PLAIN
    },
    Builtin {
        id: "dart",
        extensions: &[".dart"],
        root: Root::Nearest(&[&["pubspec.yaml", "analysis_options.yaml"]]),
        commands: &[&["dart", "language-server", "--lsp"]],
        runs_project_code: true,
        get: "install Dart, see https://dart.dev/get-dart",
        ..PLAIN
    },
    Builtin {
        id: "ocaml-lsp",
        extensions: &[".ml", ".mli"],
        root: Root::Nearest(&[&["dune-project", "dune-workspace", ".merlin", "opam"]]),
        commands: &[&["ocamllsp"]],
        runs_project_code: true,
        get: "opam install ocaml-lsp-server",
        ..PLAIN
    },
    Builtin {
        id: "bash",
        extensions: &[".sh", ".bash", ".zsh", ".ksh"],
        commands: &[&["bash-language-server", "start"]],
        get: "npm install -g bash-language-server",
        ..PLAIN
    },
    Builtin {
        id: "terraform",
        extensions: &[".tf", ".tfvars"],
        root: Root::Nearest(&[&[".terraform.lock.hcl", "terraform.tfstate", "*.tf"]]),
        commands: &[&["terraform-ls", "serve"]],
        runs_project_code: true,
        get: "see https://github.com/hashicorp/terraform-ls",
        ..PLAIN
    },
    Builtin {
        id: "texlab",
        extensions: &[".tex", ".bib"],
        root: Root::Nearest(&[&[".latexmkrc", "latexmkrc", ".texlabroot", "texlabroot"]]),
        commands: &[&["texlab"]],
        get: "see https://github.com/latex-lsp/texlab",
        ..PLAIN
    },
    Builtin {
        id: "dockerfile",
        extensions: &[".dockerfile", "Dockerfile"],
        commands: &[&["docker-langserver", "--stdio"]],
        get: "npm install -g dockerfile-language-server-nodejs",
        ..PLAIN
    },
    Builtin {
        id: "gleam",
        extensions: &[".gleam"],
        root: Root::Nearest(&[&["gleam.toml"]]),
        commands: &[&["gleam", "lsp"]],
        get: "install Gleam, see https://gleam.run",
        ..PLAIN
    },
    Builtin {
        id: "clojure-lsp",
        extensions: &[".clj", ".cljs", ".cljc", ".edn"],
        root: Root::Nearest(&[&["deps.edn", "project.clj", "shadow-cljs.edn", "bb.edn", "build.boot"]]),
        commands: &[&["clojure-lsp", "listen"]],
        runs_project_code: true,
        get: "see https://clojure-lsp.io/installation",
        ..PLAIN
    },
    Builtin {
        id: "nixd",
        extensions: &[".nix"],
        root: Root::Nearest(&[&["flake.nix"]]),
        commands: &[&["nixd"]],
        get: "nix profile install nixpkgs#nixd",
        ..PLAIN
    },
    Builtin {
        id: "tinymist",
        extensions: &[".typ", ".typc"],
        root: Root::Nearest(&[&["typst.toml"]]),
        commands: &[&["tinymist"]],
        get: "see https://github.com/Myriad-Dreamin/tinymist",
        ..PLAIN
    },
    Builtin {
        id: "haskell-language-server",
        extensions: &[".hs", ".lhs"],
        root: Root::Nearest(&[&["stack.yaml", "cabal.project", "hie.yaml", "*.cabal"]]),
        commands: &[&["haskell-language-server-wrapper", "--lsp"]],
        runs_project_code: true,
        get: "ghcup install hls",
        ..PLAIN
    },
    Builtin {
        id: "julials",
        extensions: &[".jl"],
        root: Root::Nearest(&[&["Project.toml", "Manifest.toml"]]),
        commands: &[&[
            "julia",
            "--startup-file=no",
            "--history-file=no",
            "-e",
            "using LanguageServer; runserver()",
        ]],
        runs_project_code: true,
        get: "install Julia and its package LanguageServer",
        ..PLAIN
    },
];

/// Returns the server of that id.
pub(super) fn find(id: &str) -> Option<&'static Builtin> {
    BUILTINS.iter().find(|builtin| builtin.id == id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_is_complete() {
        for (at, builtin) in BUILTINS.iter().enumerate() {
            let id = builtin.id;
            assert!(
                !BUILTINS[..at].iter().any(|earlier| earlier.id == id),
                "{id} is there twice"
            );
            assert!(!id.is_empty() && !builtin.get.is_empty(), "{id}");
            assert!(
                !builtin.commands.is_empty() && builtin.commands.iter().all(|command| !command.is_empty()),
                "{id}"
            );
            assert!(!builtin.extensions.is_empty(), "{id}: it would be used for every file");
            let dotted = |extension: &&str| extension.starts_with('.') || **extension == *"Dockerfile";
            assert!(builtin.extensions.iter().all(dotted), "{id}");
        }
    }
}
