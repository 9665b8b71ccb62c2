//! The licenses of the libraries that the program is made of, held against `deny.toml`: what `cargo deny check licenses`
//! does, as far as it needs no tool that has to be installed.
//!
//! *Invariant:* reads what Cargo knows; nothing is fetched.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

const PLATFORM: &str = "x86_64-unknown-linux-gnu";

/// Says whether a license, or a choice or sum of some, is allowed: `MIT OR Apache-2.0`, `(MIT OR ISC) AND BSD-3-Clause`.
fn is_allowed(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = words.as_slice();
    any(&mut rest, allowed) && rest.is_empty()
}

fn any(words: &mut &[&str], allowed: &BTreeSet<String>) -> bool {
    let mut fits = all(words, allowed);
    while let ["OR", rest @ ..] = *words {
        *words = rest;
        fits |= all(words, allowed);
    }
    fits
}

fn all(words: &mut &[&str], allowed: &BTreeSet<String>) -> bool {
    let mut fits = one(words, allowed);
    while let ["AND", rest @ ..] = *words {
        *words = rest;
        fits &= one(words, allowed);
    }
    fits
}

fn one(words: &mut &[&str], allowed: &BTreeSet<String>) -> bool {
    match *words {
        ["(", rest @ ..] => {
            *words = rest;
            let fits = any(words, allowed);
            match *words {
                [")", rest @ ..] => *words = rest,
                _ => return false,
            }
            fits
        }
        [name, "WITH", exception, rest @ ..] => {
            *words = rest;
            allowed.contains(&format!("{name} WITH {exception}"))
        }
        [name, rest @ ..] => {
            *words = rest;
            allowed.contains(*name)
        }
        [] => false,
    }
}

#[test]
fn licenses_are_understood() {
    let allowed = BTreeSet::from(["MIT", "ISC"].map(str::to_owned));
    for (expression, expected) in [
        ("MIT", true),
        ("Apache-2.0", false),
        ("Apache-2.0/MIT", true),
        ("MIT AND Apache-2.0", false),
        ("(Apache-2.0 OR MIT) AND ISC", true),
        ("Apache-2.0 OR MIT AND GPL-3.0", false),
        ("Apache-2.0 WITH LLVM-exception OR MIT", true),
        ("MIT WITH LLVM-exception", false),
        ("(MIT", false),
        ("", false),
    ] {
        assert_eq!(is_allowed(expression, &allowed), expected, "{expression}");
    }
}

#[test]
fn licenses_are_those_that_are_allowed() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    let rules: toml::Table = toml::from_str(&std::fs::read_to_string(top.join("deny.toml")).unwrap()).unwrap();
    let allowed = rules["licenses"]["allow"].as_array().unwrap();
    let allowed: BTreeSet<String> = allowed.iter().map(|name| name.as_str().unwrap().to_owned()).collect();
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--format-version=1",
            "--locked",
            "--offline",
            "--filter-platform",
            PLATFORM,
        ])
        .current_dir(top)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    assert!(packages.len() > 100, "{} libraries", packages.len());
    let mut findings = Vec::new();
    for package in packages {
        let license = package["license"].as_str().unwrap_or_default();
        if !is_allowed(license, &allowed) {
            findings.push(format!("{} {}: {license:?}", package["name"], package["version"]));
        }
        let source = package["source"].as_str();
        if source.is_some_and(|source| source != "registry+https://github.com/rust-lang/crates.io-index") {
            findings.push(format!("{} comes from {source:?}", package["name"]));
        }
    }
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}
