//! Which workers may come to a gateway, and what each may have: `auth.workers`, and the rules of a file that is read again when it
//! changes.
//!
//! A rule names workers by one pattern: the subject of a signed token (and the pod that Kubernetes made it for), a name in a
//! certificate, or the id of a principal that is known otherwise. What a `*` stood for may come into the names of its workspaces.
//!
//! *Invariant:* a `*` stands for a part of one name, and what it stood for for a part of one name of a workspace, never for a pattern.
//! The first rule that fits speaks, alone. A rule gives no scopes; whom none names is no worker.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use toolgate_model::WorkspaceSet;

use super::error::AuthError;
use super::files::{Readers, Reloading, Source, wrong};

/// Rules of a file.
const MAX_RULES: usize = 10_000;

/// What a worker may.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Entitled {
    /// Have these workspaces.
    ToHave(WorkspaceSet),
    /// Have what it was bound to once; and it may be bound to one of these.
    ToBeBound(WorkspaceSet),
}

/// What is said of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AsWorker {
    pub(super) may: Entitled,
    /// The names of hosts that it may say to be at.
    pub(super) hosts: Vec<String>,
    /// Whether its principal stands for one machine: a pod, or what has a certificate.
    pub(super) is_one: bool,
    /// The pod that it must be called after, if that is said of it.
    pub(super) pod: Option<String>,
}

/// Who may come as a worker.
pub(super) struct Workers {
    /// The ids of principals of the configuration.
    listed: Vec<String>,
    rules: Option<Reloading<Rules>>,
}

impl Workers {
    /// Reads the file of rules, if there is one. Blocking.
    pub(super) fn load(listed: Vec<String>, file: Option<PathBuf>) -> Result<Self, AuthError> {
        let load = |path: PathBuf| {
            let source = Source {
                path: path.clone(),
                // A config map is read by everybody in its pod.
                readers: Readers::Anybody,
            };
            Reloading::load(vec![source], move |contents| {
                Rules::parse(&path, contents.first().map(Vec::as_slice).unwrap_or_default())
            })
        };
        Ok(Self {
            listed,
            rules: file.map(load).transpose()?,
        })
    }

    /// Says whether there is a file that may change.
    pub(super) fn may_change(&self) -> bool {
        self.rules.is_some()
    }

    /// Reads the file again; returns whether it has changed. Blocking.
    pub(super) fn refresh(&self) -> bool {
        self.rules.as_ref().is_some_and(Reloading::refresh)
    }

    /// Returns what the worker may whose signed token has this subject, and was made for this pod.
    pub(super) fn with_token(&self, subject: &str, pod: Option<&str>) -> Option<AsWorker> {
        let rules = self.rules.as_ref()?.current();
        rules.0.iter().find_map(|rule| match &rule.who {
            Who::Subject {
                subject: wanted,
                pod: of,
            } => {
                let subject = wanted.part_of(subject)?;
                let part = match of {
                    Some(wanted) => wanted.part_of(pod?)?,
                    None => None,
                };
                let worker = rule.entitle(&[("{subject}", subject), ("{pod}", part)]);
                Some(worker.map(|worker| AsWorker {
                    is_one: pod.is_some(),
                    pod: pod.filter(|_| of.is_some() && rule.is_of_pool).map(str::to_owned),
                    ..worker
                }))
            }
            Who::Certificate(_) | Who::Principal(_) => None,
        })?
    }

    /// Returns what the worker may whose certificate has these names, and by which name that is.
    pub(super) fn with_certificate(&self, names: &[String]) -> Option<(String, AsWorker)> {
        let rules = self.rules.as_ref()?.current();
        rules.0.iter().find_map(|rule| match &rule.who {
            Who::Certificate(wanted) => {
                let (name, part) = names.iter().find_map(|name| Some((name, wanted.part_of(name)?)))?;
                let worker = rule.entitle(&[("{san}", part)]);
                Some(worker.map(|mut worker| {
                    // Somebody whom the gateway trusts has said that this is its name.
                    worker.hosts.push(name.clone());
                    worker.is_one = true;
                    (name.clone(), worker)
                }))
            }
            Who::Subject { .. } | Who::Principal(_) => None,
        })?
    }

    /// Says whether workers may be bound to a workspace, as far as rules tell that speak of names only.
    pub(super) fn has_pool_for(&self, workspace: &str) -> bool {
        let rules = self.rules.as_ref().map(Reloading::current);
        let mut of_pools = rules.iter().flat_map(|rules| &rules.0).filter(|rule| rule.is_of_pool);
        of_pools.any(|rule| rule.may_mean(workspace))
    }

    /// Returns what a principal may that is known otherwise, and may see these workspaces.
    pub(super) fn known_otherwise(&self, id: &str, sees: &WorkspaceSet) -> Option<AsWorker> {
        let rules = self.rules.as_ref().map(Reloading::current);
        let said = rules
            .iter()
            .flat_map(|rules| &rules.0)
            .find_map(|rule| match &rule.who {
                Who::Principal(wanted) => {
                    let part = wanted.part_of(id)?;
                    Some(rule.entitle(&[("{principal}", part)]))
                }
                Who::Subject { .. } | Who::Certificate(_) => None,
            });
        match said {
            Some(said) => said.map(|said| AsWorker {
                may: said.may.within(sees),
                ..said
            }),
            None => self.listed.iter().any(|one| one == id).then(|| AsWorker {
                may: Entitled::ToHave(sees.clone()),
                hosts: Vec::new(),
                is_one: false,
                pod: None,
            }),
        }
    }
}

impl Entitled {
    fn within(self, sees: &WorkspaceSet) -> Self {
        match self {
            Self::ToHave(workspaces) => Self::ToHave(workspaces.and(sees)),
            Self::ToBeBound(workspaces) => Self::ToBeBound(workspaces.and(sees)),
        }
    }

    /// Returns the workspaces that a worker may have whatever it is bound to.
    pub(super) fn to_have(&self) -> WorkspaceSet {
        match self {
            Self::ToHave(workspaces) => workspaces.clone(),
            Self::ToBeBound(_) => WorkspaceSet::of_names([]),
        }
    }
}

/// The rules of a file, in its order.
#[derive(Debug)]
struct Rules(Vec<Rule>);

#[derive(Debug)]
struct Rule {
    who: Who,
    /// Entries of a set, with the places where parts of names come.
    workspaces: Vec<String>,
    /// Whether they are what the worker may be bound to.
    is_of_pool: bool,
    /// Names of hosts, with such places, too.
    hosts: Vec<String>,
}

#[derive(Debug)]
enum Who {
    Subject { subject: Pattern, pod: Option<Pattern> },
    Certificate(Pattern),
    Principal(Pattern),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
    #[serde(default)]
    workers: Vec<RawRule>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRule {
    subject: Option<String>,
    pod: Option<String>,
    san: Option<String>,
    principal: Option<String>,
    workspaces: Option<Vec<String>>,
    #[serde(default)]
    pool: bool,
    #[serde(default)]
    hosts: Vec<String>,
}

impl Rules {
    fn parse(path: &Path, content: &[u8]) -> Result<Self, AuthError> {
        let text = std::str::from_utf8(content).map_err(|_| wrong(path, "it is not UTF-8"))?;
        let raw: RawFile = toml::from_str(text).map_err(|error| wrong(path, error.message().to_owned()))?;
        if raw.workers.len() > MAX_RULES {
            return Err(wrong(path, format!("expected at most {MAX_RULES} rules")));
        }
        let rules = raw.workers.into_iter().enumerate().map(|(at, raw)| {
            Rule::of(raw).map_err(|problem| wrong(path, format!("rule {} of `workers`: {problem}", at + 1)))
        });
        rules.collect::<Result<_, _>>().map(Self)
    }
}

impl Rule {
    fn of(raw: RawRule) -> Result<Self, String> {
        let pattern = |text: Option<String>, key: &str| {
            let read = text.map(|text| Pattern::parse(&text, key != "san"));
            read.transpose().map_err(|problem| format!("{key}: {problem}"))
        };
        let pod = pattern(raw.pod, "pod")?;
        let named = (
            pattern(raw.subject, "subject")?,
            pattern(raw.san, "san")?,
            pattern(raw.principal, "principal")?,
        );
        let (who, is_known_otherwise) = match named {
            (Some(subject), None, None) => (Who::Subject { subject, pod }, false),
            (None, Some(san), None) if pod.is_none() => (Who::Certificate(san), false),
            (None, None, Some(principal)) if pod.is_none() => (Who::Principal(principal), true),
            _ => return Err("expected one of `subject` (with `pod`, or without), `san` and `principal`".to_owned()),
        };
        let workspaces = match raw.workspaces {
            Some(workspaces) => workspaces,
            None if is_known_otherwise => vec!["*".to_owned()],
            None => return Err("expected `workspaces`: nothing else says what such a worker may have".to_owned()),
        };
        let rule = Self {
            who,
            workspaces,
            is_of_pool: raw.pool,
            hosts: raw.hosts,
        };
        rule.filled(&rule.places())?;
        rule.hosts_of(&rule.places())?;
        Ok(rule)
    }

    /// Returns the places that its patterns have, each with a part that may stand there.
    fn places(&self) -> Vec<(&'static str, Option<&'static str>)> {
        let part = |pattern: &Pattern| pattern.end.is_some().then_some("a");
        match &self.who {
            Who::Subject { subject, pod } => {
                vec![("{subject}", part(subject)), ("{pod}", pod.as_ref().and_then(part))]
            }
            Who::Certificate(san) => vec![("{san}", part(san))],
            Who::Principal(principal) => vec![("{principal}", part(principal))],
        }
    }

    /// Returns its workspaces with the parts of names in their places.
    fn filled(&self, parts: &[(&str, Option<&str>)]) -> Result<WorkspaceSet, String> {
        let filled = filled("workspaces", &self.workspaces, parts)?;
        WorkspaceSet::parse(filled.iter().map(String::as_str)).map_err(|problem| format!("workspaces: {problem}"))
    }

    /// Says whether a workspace may be one of it, whatever stands in the places.
    fn may_mean(&self, workspace: &str) -> bool {
        self.workspaces.iter().any(|entry| match entry.split_once('{') {
            Some((begin, _)) => workspace.len() > begin.len() && workspace.starts_with(begin),
            None => WorkspaceSet::parse([entry.as_str()]).is_ok_and(|set| set.contains(workspace)),
        })
    }

    /// Returns its hosts in the same way.
    fn hosts_of(&self, parts: &[(&str, Option<&str>)]) -> Result<Vec<String>, String> {
        let hosts = filled("hosts", &self.hosts, parts)?;
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.');
        match hosts.iter().find(|host| host.is_empty() || !host.chars().all(is_plain)) {
            Some(host) => Err(format!(
                "hosts: expected the name of a host in small letters, found {host:?}"
            )),
            None => Ok(hosts),
        }
    }

    /// Returns what it says of a worker; nothing if its name makes none of a workspace or a host.
    fn entitle(&self, parts: &[(&str, Option<&str>)]) -> Option<AsWorker> {
        let workspaces = self.filled(parts).ok()?;
        Some(AsWorker {
            may: match self.is_of_pool {
                true => Entitled::ToBeBound(workspaces),
                false => Entitled::ToHave(workspaces),
            },
            hosts: self.hosts_of(parts).ok()?,
            is_one: false,
            pod: None,
        })
    }
}

/// Puts parts of names into their places.
fn filled(key: &str, entries: &[String], parts: &[(&str, Option<&str>)]) -> Result<Vec<String>, String> {
    let fill = |entry: &String| {
        let known = parts.iter().filter_map(|(place, part)| Some((*place, (*part)?)));
        known.fold(entry.clone(), |entry, (place, part)| entry.replace(place, part))
    };
    let filled: Vec<String> = entries.iter().map(fill).collect();
    match filled.iter().find(|entry| entry.contains(['{', '}'])) {
        Some(entry) => Err(format!(
            "{key}: {entry:?} has a place that no `*` fills: write {{subject}}, {{pod}}, {{san}} or {{principal}}, and a `*` in the \
             pattern of that name"
        )),
        None => Ok(filled),
    }
}

/// A name, or what a name begins and ends with.
#[derive(Debug)]
struct Pattern {
    begin: String,
    /// None of a whole name.
    end: Option<String>,
    /// Whether a `*` may stand for something with a dot.
    may_have_dots: bool,
}

impl Pattern {
    fn parse(text: &str, may_have_dots: bool) -> Result<Self, String> {
        let (begin, end) = match text.split_once('*') {
            Some((begin, end)) => (begin, Some(end)),
            None => (text, None),
        };
        if text.is_empty() || text == "*" || end.is_some_and(|end| end.contains('*')) {
            return Err(format!(
                "expected a name, in which one `*` may stand for a part, found {text:?}"
            ));
        }
        Ok(Self {
            begin: begin.to_owned(),
            end: end.map(str::to_owned),
            may_have_dots,
        })
    }

    /// Returns what the `*` stands for in a name that fits, if there is one.
    fn part_of<'n>(&self, name: &'n str) -> Option<Option<&'n str>> {
        let Some(end) = &self.end else {
            return (name == self.begin).then_some(None);
        };
        let part = name.strip_prefix(&*self.begin)?.strip_suffix(&**end)?;
        let is_plain =
            |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_') || (c == '.' && self.may_have_dots);
        (!part.is_empty() && part.chars().all(is_plain)).then_some(Some(part))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workers(rules: &str, listed: &[&str]) -> Workers {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), rules).unwrap();
        let listed = listed.iter().map(|&id| id.to_owned()).collect();
        Workers::load(listed, Some(file.path().to_path_buf())).unwrap()
    }

    fn set(entries: &[&str]) -> WorkspaceSet {
        WorkspaceSet::parse(entries.iter().copied()).unwrap()
    }

    const RULES: &str = r#"
        [[workers]]
        subject = "system:serviceaccount:agents:worker-*"
        workspaces = ["acme/{subject}"]
        [[workers]]
        subject = "system:serviceaccount:agents:many"
        pod = "tools-worker-*-0"
        workspaces = ["acme/{pod}", "shared/{pod}/*"]
        [[workers]]
        subject = "system:serviceaccount:agents:pool"
        pool = true
        workspaces = ["acme/*"]
        [[workers]]
        san = "*.tools-worker.agents.svc"
        workspaces = ["pods/{san}"]
        [[workers]]
        principal = "token:worker-*"
        workspaces = ["{principal}", "acme/*"]
        [[workers]]
        principal = "token:as-it-is"
    "#;

    #[test]
    fn what_a_star_stands_for_says_which_workspaces() {
        let workers = workers(RULES, &[]);
        let check = |subject: &str, pod: Option<&str>, expected: Option<Entitled>| {
            let found = workers.with_token(subject, pod).map(|worker| worker.may);
            assert_eq!(found, expected, "{subject} {pod:?}");
        };
        let have = |entries: &[&str]| Some(Entitled::ToHave(set(entries)));
        check("system:serviceaccount:agents:worker-web", None, have(&["acme/web"]));
        check(
            "system:serviceaccount:agents:worker-web",
            Some("x"),
            have(&["acme/web"]),
        );
        // Neither another namespace, nor another account whose name only has the same end or beginning.
        for other in [
            "system:serviceaccount:agents:worker-",
            "system:serviceaccount:agents2:worker-web",
            "system:serviceaccount:x:agents:worker-web",
            "system:serviceaccount:agents:worker-web:x",
            "system:serviceaccount:agents:worker-*",
            "system:serviceaccount:agents:worker-a/b",
            "system:serviceaccount:agents:worker-..",
            "system:serviceaccount:agents:Worker-web",
        ] {
            check(other, None, None);
        }
        let many = "system:serviceaccount:agents:many";
        check(many, Some("tools-worker-api-0"), have(&["acme/api", "shared/api/*"]));
        check(many, Some("tools-worker-api-1"), None);
        check(many, None, None);
        let pool = Some(Entitled::ToBeBound(set(&["acme/*"])));
        check("system:serviceaccount:agents:pool", Some("pool-x7"), pool);
    }

    #[test]
    fn a_pod_and_a_certificate_stand_for_one_machine() {
        let rules = format!(
            "{RULES}[[workers]]\nsubject = \"pods\"\npod = \"pool-*\"\npool = true\nworkspaces = [\"own/{{pod}}\"]\n"
        );
        let workers = workers(&rules, &["token:listed"]);
        let check = |found: Option<AsWorker>, is_one: bool, pod: Option<&str>| {
            let found = found.unwrap();
            assert_eq!((found.is_one, found.pod.as_deref()), (is_one, pod), "{found:?}");
        };
        let pool = "system:serviceaccount:agents:pool";
        check(workers.with_token(pool, Some("pool-x7")), true, None);
        check(workers.with_token(pool, None), false, None);
        check(workers.with_token("pods", Some("pool-x7")), true, Some("pool-x7"));
        // One that has what its rule says may be called as it likes.
        let many = workers.with_token("system:serviceaccount:agents:many", Some("tools-worker-api-0"));
        check(many, true, None);
        let name = "web-0.tools-worker.agents.svc".to_owned();
        check(workers.with_certificate(&[name]).map(|(_, worker)| worker), true, None);
        check(workers.known_otherwise("token:listed", &set(&["q"])), false, None);
        for (workspace, expected) in [
            ("acme/new", true),
            ("own/x", true),
            ("own/", false),
            ("pods/web-0", false),
            ("other", false),
        ] {
            assert_eq!(workers.has_pool_for(workspace), expected, "{workspace}");
        }
    }

    #[test]
    fn a_name_in_a_certificate_is_one_label() {
        let workers = workers(RULES, &[]);
        let check = |names: &[&str], expected: Option<&str>| {
            let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
            let found = workers.with_certificate(&names);
            let expected = expected.map(|workspace| Entitled::ToHave(set(&[workspace])));
            assert_eq!(found.map(|(_, worker)| worker.may), expected, "{names:?}");
        };
        check(&["localhost", "web-0.tools-worker.agents.svc"], Some("pods/web-0"));
        check(&["a.b.tools-worker.agents.svc"], None);
        // A certificate for all names is none for all workspaces.
        check(&["*.tools-worker.agents.svc"], None);
        check(&[], None);
    }

    #[test]
    fn who_is_known_otherwise_gets_no_more_by_a_rule() {
        let workers = workers(RULES, &["token:listed", "token:worker-x"]);
        let check = |id: &str, sees: &[&str], expected: Option<&[&str]>| {
            let expected = expected.map(|entries| Entitled::ToHave(set(entries)));
            let found = workers.known_otherwise(id, &set(sees)).map(|worker| worker.may);
            assert_eq!(found, expected, "{id}");
        };
        check("token:worker-a", &["worker", "a", "acme/b"], Some(&["a", "acme/b"]));
        check("token:worker-x", &["*"], Some(&["x", "acme/*"]));
        check("token:listed", &["q"], Some(&["q"]));
        check("token:as-it-is", &["q"], Some(&["q"]));
        check("token:other", &["*"], None);
        check("jwt:worker-a", &["*"], None);
    }

    #[test]
    fn a_rule_says_where_a_worker_may_be() {
        let rules = RULES.replace(
            "pod = \"tools-worker-*-0\"",
            "pod = \"tools-worker-*-0\"\nhosts = [\"tools-worker-{pod}-0.agents.svc\"]",
        );
        let workers = workers(&rules, &[]);
        let many = workers.with_token("system:serviceaccount:agents:many", Some("tools-worker-api-0"));
        assert_eq!(many.unwrap().hosts, ["tools-worker-api-0.agents.svc"]);
        let name = "web-0.tools-worker.agents.svc".to_owned();
        let by_name = workers.with_certificate(std::slice::from_ref(&name)).unwrap().1;
        assert_eq!(by_name.hosts, [name], "where its certificate says that it is");
        let other = workers.with_token("system:serviceaccount:agents:worker-web", None);
        assert!(other.unwrap().hosts.is_empty());
    }

    #[test]
    fn what_a_rule_cannot_mean_is_refused() {
        for (rule, expected) in [
            ("workspaces = [\"a\"]", "expected one of"),
            ("subject = \"a\"", "expected `workspaces`"),
            ("subject = \"a\"\nsan = \"b\"\nworkspaces = [\"a\"]", "expected one of"),
            ("san = \"b\"\npod = \"p\"\nworkspaces = [\"a\"]", "expected one of"),
            ("subject = \"*\"\nworkspaces = [\"a\"]", "subject: expected a name"),
            ("subject = \"a*b*\"\nworkspaces = [\"a\"]", "one `*`"),
            ("subject = \"a\"\nworkspaces = [\"x/{subject}\"]", "no `*` fills"),
            ("subject = \"a*\"\nworkspaces = [\"x/{pod}\"]", "no `*` fills"),
            (
                "subject = \"a*\"\nworkspaces = [\"x y\"]",
                "workspaces: expected a name",
            ),
            ("subject = \"a*\"\nworkspaces = []", "at least one"),
            (
                "subject = \"a\"\nworkspaces = [\"x\"]\nhosts = [\"x:1\"]",
                "name of a host",
            ),
            ("subjects = \"a*\"\nworkspaces = [\"x\"]", "unknown field"),
        ] {
            let text = format!("[[workers]]\n{rule}\n");
            let error = Rules::parse(Path::new("f"), text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(expected), "{rule}: {error}");
        }
    }
}
