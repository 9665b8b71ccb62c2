//! What may be asked for as the source of a workspace.
//!
//! *Invariant:* pure. A source is kept and shown, so there is no password in one; what may be a secret in the query of an archive is
//! not shown.

use toolgate_model::WorkspaceSource;
use toolgate_web::Url;

/// Bytes of an address that something is got from, and of what is got of a repository.
const MAX_URL_BYTES: usize = 2048;
const MAX_REFERENCE_BYTES: usize = 255;

/// Says what is wrong with a source, and in which field of a request, whatever the operator allows.
pub fn problem_of(source: &WorkspaceSource) -> Option<(&'static str, String)> {
    match source {
        WorkspaceSource::Empty | WorkspaceSource::Template(_) => None,
        WorkspaceSource::Git { url, reference } => {
            let is_plain = reference.len() <= MAX_REFERENCE_BYTES && !reference.contains(char::is_control);
            let expected = || format!("expected a branch or a tag of at most {MAX_REFERENCE_BYTES} bytes");
            let problem = (!is_plain).then(|| ("source.git.reference", expected()));
            url_problem("source.git.url", url, false).or(problem)
        }
        WorkspaceSource::Archive { url } => url_problem("source.archive.url", url, true),
    }
}

fn url_problem(field: &'static str, url: &str, may_have_query: bool) -> Option<(&'static str, String)> {
    let parsed = Url::parse(url).ok().filter(|_| url.len() <= MAX_URL_BYTES);
    let is_plain = parsed.is_some_and(|url| {
        let has_login = !url.username().is_empty() || url.password().is_some();
        // A repository is shown with all of its address, an archive without the query.
        let has_more = !may_have_query && (url.query().is_some() || url.fragment().is_some());
        url.scheme() == "https" && url.has_host() && !has_login && !has_more
    });
    // Not repeated: it may hold a secret.
    let without = match may_have_query {
        true => "a user name and a password",
        false => "a user name, a password and a query",
    };
    let expected = || format!("expected an https address, without {without}, of at most {MAX_URL_BYTES} bytes");
    (!is_plain).then(|| (field, expected()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_of_https_and_hold_no_password() {
        let check = |url: &str, is_good: bool| {
            let archive = WorkspaceSource::Archive { url: url.to_owned() };
            assert_eq!(problem_of(&archive).is_none(), is_good, "{url}");
            let git = WorkspaceSource::Git {
                url: url.to_owned(),
                reference: "main".to_owned(),
            };
            assert_eq!(problem_of(&git).is_none(), is_good, "{url}");
        };
        check("https://git.example/a.git", true);
        check("https://git.example:8443/a", true);
        for bad in [
            "",
            "http://git.example/a",
            "ext::sh -c true",
            "file:///etc",
            "ssh://git@git.example/a",
            "git@git.example:a",
            "https://user:secret@git.example/a",
            "https://token@git.example/a",
            &format!("https://git.example/{}", "a".repeat(3000)),
        ] {
            check(bad, false);
        }
        let signed = "https://git.example/a?token=secret".to_owned();
        let git = WorkspaceSource::Git {
            url: signed.clone(),
            reference: String::new(),
        };
        let (_, problem) = problem_of(&git).unwrap();
        assert!(
            problem.contains("and a query") && !problem.contains("secret"),
            "{problem}"
        );
        assert_eq!(problem_of(&WorkspaceSource::Archive { url: signed }), None);
        let lines = WorkspaceSource::Git {
            url: "https://git.example/a".to_owned(),
            reference: "a\nb".to_owned(),
        };
        assert_eq!(problem_of(&lines).map(|(field, _)| field), Some("source.git.reference"));
    }
}
