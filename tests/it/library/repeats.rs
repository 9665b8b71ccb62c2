//! The library repeats an RPC only if the contract says that it may be.
//!
//! *Invariant:* both are told from their text: the sources of the library, and the proto files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use regex::Regex;

/// Returns the texts of the files of a folder that end so.
fn texts(folder: &str, end: &str) -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = files.filter(|file| file.to_str().unwrap().ends_with(end));
    files.map(|file| fs::read_to_string(file).unwrap()).collect()
}

/// The RPCs that the library repeats.
fn repeated() -> BTreeSet<String> {
    let calls = [
        // One message, or all pages of a list.
        r"(?:unary|list)!\([^,]+,\s*\w+_service\.(\w+)",
        // With another deadline than the client's.
        r"async move \{ service\.(\w+)\(request\)\.await \}",
        // What names its call: in one message, and in many.
        r"\w+_service\.(\w+): \w+ => ",
        r"(upload_\w+): \w+, ",
    ];
    let calls = calls.map(|call| Regex::new(call).unwrap());
    let texts = texts("clients/rust/src", ".rs");
    let found = texts
        .iter()
        .flat_map(|text| calls.iter().flat_map(move |call| call.captures_iter(text)));
    found.map(|found| found[1].to_owned()).collect()
}

/// The RPCs of the contract, by their names in Rust, and whether they may be repeated.
fn rpcs() -> BTreeMap<String, bool> {
    let service = Regex::new(r"((?:\n//[^\n]*)*)\nservice \w+ \{").unwrap();
    let rpc = Regex::new(r"((?:\n  //[^\n]*)*)\n  rpc (\w+)\((?:stream )?(\w+)\) returns [^{]*\{([^}]*)\}").unwrap();
    let capital = Regex::new(r"(.)([A-Z])").unwrap();
    let messages = texts("proto/toolgate/v1", ".proto").concat();
    let mut found = BTreeMap::new();
    for text in texts("proto/toolgate/v1", "_service.proto") {
        let about = service.captures(&text).unwrap();
        // Such a promise is for the RPCs whose requests say how their call is made.
        let promises = about[1].contains("may be retried");
        for rpc in rpc.captures_iter(&text) {
            let request = messages.split(&format!("\nmessage {} {{", &rpc[3])).nth(1).unwrap();
            let names_call = request.split("\n}").next().unwrap().contains("CallStart call");
            let may = rpc[4].contains("idempotency_level") || rpc[1].replace("\n  //", "").contains("ay be retried");
            let name = capital.replace_all(&rpc[2], "${1}_$2").to_lowercase();
            found.insert(name, may || (promises && names_call));
        }
    }
    found
}

#[test]
fn only_what_may_be_retried_is_repeated() {
    let (repeated, rpcs) = (repeated(), rpcs());
    for name in [
        "get_call",
        "list_tools",
        "cancel_call",
        "write_file",
        "upload_archive",
        "send_input",
        "evaluate_call",
    ] {
        assert!(
            repeated.contains(name),
            "{name} is not found in the library: {repeated:?}"
        );
    }
    for name in ["signal_call", "connect_port", "delete_output"] {
        assert_eq!(rpcs.get(name), Some(&false), "{name}");
    }
    let wrong: Vec<_> = repeated.iter().filter(|name| rpcs.get(*name) != Some(&true)).collect();
    assert!(
        wrong.is_empty(),
        "the contract does not say that these may be retried: {wrong:?}"
    );
}
