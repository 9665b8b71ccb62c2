//! What the protocol calls the language of a file, by its name.
//!
//! *Invariant:* pure. A language that is not in the list is `plaintext`.

use std::path::Path;

const LANGUAGES: &[(&str, &[&str])] = &[
    ("abap", &["abap"]),
    ("bat", &["bat", "cmd"]),
    ("bibtex", &["bib", "bibtex"]),
    ("c", &["c"]),
    ("clojure", &["clj", "cljs", "cljc", "edn"]),
    ("coffeescript", &["coffee"]),
    ("cpp", &["cpp", "cc", "cxx", "c++"]),
    ("csharp", &["cs"]),
    ("css", &["css"]),
    ("d", &["d"]),
    ("dart", &["dart"]),
    ("diff", &["diff", "patch"]),
    ("dockerfile", &["dockerfile"]),
    ("elixir", &["ex", "exs"]),
    ("erlang", &["erl", "hrl"]),
    ("fsharp", &["fs", "fsi", "fsx", "fsscript"]),
    ("gleam", &["gleam"]),
    ("go", &["go"]),
    ("groovy", &["groovy", "gradle"]),
    ("handlebars", &["handlebars", "hbs"]),
    ("haskell", &["hs", "lhs"]),
    ("html", &["html", "htm"]),
    ("ini", &["ini"]),
    ("java", &["java"]),
    ("javascript", &["js", "mjs", "cjs"]),
    ("javascriptreact", &["jsx"]),
    ("json", &["json"]),
    ("julia", &["jl"]),
    ("kotlin", &["kt", "kts"]),
    ("latex", &["tex", "latex"]),
    ("less", &["less"]),
    ("lua", &["lua"]),
    ("makefile", &["makefile"]),
    ("markdown", &["md", "markdown"]),
    ("nix", &["nix"]),
    ("objective-c", &["m"]),
    ("objective-cpp", &["mm"]),
    ("ocaml", &["ml", "mli"]),
    ("pascal", &["pas", "pascal"]),
    ("perl", &["pl", "pm"]),
    ("php", &["php"]),
    ("powershell", &["ps1", "psm1"]),
    ("prisma", &["prisma"]),
    ("pug", &["pug", "jade"]),
    ("python", &["py"]),
    ("r", &["r"]),
    ("razor", &["cshtml", "razor"]),
    ("ruby", &["rb", "rake", "gemspec", "ru"]),
    ("rust", &["rs"]),
    ("sass", &["sass"]),
    ("scala", &["scala"]),
    ("scss", &["scss"]),
    ("shellscript", &["sh", "bash", "zsh", "ksh"]),
    ("sql", &["sql"]),
    ("svelte", &["svelte"]),
    ("astro", &["astro"]),
    ("swift", &["swift"]),
    ("terraform", &["tf"]),
    ("terraform-vars", &["tfvars"]),
    ("hcl", &["hcl"]),
    ("typescript", &["ts", "mts", "cts"]),
    ("typescriptreact", &["tsx", "mtsx", "ctsx"]),
    ("typst", &["typ", "typc"]),
    ("vue", &["vue"]),
    ("xml", &["xml"]),
    ("xsl", &["xsl"]),
    ("yaml", &["yaml", "yml"]),
    ("zig", &["zig", "zon"]),
];

/// Returns the language of a file.
pub(super) fn id_of(path: &Path) -> &'static str {
    let ending = match path.extension() {
        Some(extension) => extension.to_str(),
        None => match path.file_name().and_then(|name| name.to_str()) {
            Some("Dockerfile") => Some("dockerfile"),
            Some("Makefile" | "makefile") => Some("makefile"),
            Some(_) | None => None,
        },
    };
    let Some(ending) = ending else { return "plaintext" };
    let found = LANGUAGES.iter().find(|(_, endings)| endings.contains(&ending));
    found.map_or("plaintext", |(language, _)| language)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_known_by_the_name() {
        for (path, expected) in [
            ("/w/a.rs", "rust"),
            ("/w/a.tsx", "typescriptreact"),
            ("/w/a.mts", "typescript"),
            ("/w/a.cjs", "javascript"),
            ("/w/a.c++", "cpp"),
            ("/w/a.zsh", "shellscript"),
            ("/w/Dockerfile", "dockerfile"),
            ("/w/Makefile", "makefile"),
            ("/w/a.h", "plaintext"),
            ("/w/a.hpp", "plaintext"),
            ("/w/a.jsonc", "plaintext"),
            ("/w/a.fake", "plaintext"),
            ("/w/a.RS", "plaintext"),
            ("/w/.rs", "plaintext"),
            ("/w/rs", "plaintext"),
        ] {
            assert_eq!(id_of(Path::new(path)), expected, "{path}");
        }
    }

    #[test]
    fn no_ending_is_in_two_languages() {
        let mut endings: Vec<&str> = LANGUAGES
            .iter()
            .flat_map(|(_, endings)| endings.iter().copied())
            .collect();
        let before = endings.len();
        endings.sort_unstable();
        endings.dedup();
        assert_eq!(endings.len(), before);
    }
}
