//! What the objects of a workspace are called in the cluster.
//!
//! *Invariant:* pure. A name is one that a pod, a service and a label may have, since agent-sandbox calls the pod after the claim.
//! Two workspaces never share one: it ends with a digest of the whole name.

use sha2::{Digest as _, Sha256};
use toolgate_model::WorkspaceSource;

/// What every name begins with: that of a service has to begin with a letter.
const PREFIX: &str = "ws-";

/// Bytes of the part that people read.
const READABLE_BYTES: usize = 36;

/// Bytes of the digest, before they are written as text.
const DIGEST_BYTES: usize = 10;

/// Bytes of the longest name of an object.
const MAX_OBJECT_BYTES: usize = 253;

/// Returns the name of the claim of a workspace.
pub(super) fn claim(workspace: &str) -> String {
    let mut readable = String::with_capacity(READABLE_BYTES);
    for c in workspace.chars() {
        if readable.len() == READABLE_BYTES {
            break;
        }
        match c.to_ascii_lowercase() {
            plain if plain.is_ascii_lowercase() || plain.is_ascii_digit() => readable.push(plain),
            _ if readable.is_empty() || readable.ends_with('-') => {}
            _ => readable.push('-'),
        }
    }
    let readable = readable.trim_end_matches('-');
    let between = if readable.is_empty() { "" } else { "-" };
    let digest = hex::encode(&Sha256::digest(workspace)[..DIGEST_BYTES]);
    format!("{PREFIX}{readable}{between}{digest}")
}

/// Returns the name of the template and of the pool that a workspace is made from.
///
/// # Errors
/// No pod is made from such a source; the text is for whoever wants the workspace.
pub(super) fn pool(template: &str, source: &WorkspaceSource) -> Result<String, String> {
    match source {
        WorkspaceSource::Empty => Ok(template.to_owned()),
        // What a client names is looked for only among what the operator has called after the template of the configuration.
        WorkspaceSource::Template(name) => {
            let pool = format!("{template}-{name}");
            let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            let is_name = !name.is_empty() && !name.ends_with('-') && name.chars().all(is_plain);
            match is_name && pool.len() <= MAX_OBJECT_BYTES {
                true => Ok(pool),
                false => Err(format!(
                    "a template of sandboxes has a name of small letters, digits and '-', and {name:?} is none"
                )),
            }
        }
        WorkspaceSource::Git { .. } | WorkspaceSource::Archive { .. } => Err(
            "a sandbox begins empty or from a template: create the workspace without a source, and get the files there by a call"
                .to_owned(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn is_label(name: &str) -> bool {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        name.len() <= 63
            && name.starts_with(|c: char| c.is_ascii_lowercase())
            && !name.ends_with('-')
            && name.chars().all(plain)
    }

    #[test]
    fn a_name_says_what_it_is_of() {
        assert_eq!(claim("acme/web-17"), "ws-acme-web-17-ed511c786be3a1316ffe");
        assert!(claim("Acme/Web_17").starts_with("ws-acme-web-17-"));
        assert_eq!(claim("__").len(), PREFIX.len() + 2 * DIGEST_BYTES);
        let long = "a".repeat(200);
        assert!(is_label(&claim(&long)), "{}", claim(&long));
    }

    #[test]
    fn names_that_read_the_same_are_not() {
        let alike = ["acme/web", "acme-web", "acme.web", "ACME/web", "acme_web", "acme/web-"];
        let names: std::collections::BTreeSet<String> = alike.map(claim).into();
        assert_eq!(names.len(), alike.len());
    }

    proptest! {
        #[test]
        fn every_name_is_one_of_kubernetes(workspace in "[a-zA-Z0-9._/-]{1,128}") {
            prop_assert!(is_label(&claim(&workspace)), "{}", claim(&workspace));
        }
    }

    #[test]
    fn a_client_chooses_among_templates_that_are_meant_for_it() {
        let template = |name: &str| pool("worker", &WorkspaceSource::Template(name.to_owned()));
        assert_eq!(pool("worker", &WorkspaceSource::Empty).unwrap(), "worker");
        assert_eq!(template("python-3").unwrap(), "worker-python-3");
        for bad in ["", "Python", "a/b", "a-", "../x", "a.b", &"a".repeat(260)] {
            assert!(template(bad).is_err(), "{bad}");
        }
        let url = "https://git.example/a".to_owned();
        let git = WorkspaceSource::Git {
            url: url.clone(),
            reference: String::new(),
        };
        assert!(pool("worker", &git).unwrap_err().contains("without a source"));
        assert!(pool("worker", &WorkspaceSource::Archive { url }).is_err());
    }
}
