//! Who the owner of a client certificate is.
//!
//! Reads the two fields that matter, the common name and the alternative names, from a certificate whose signature TLS has
//! checked already. A parser of whole certificates would be much more than that.
//!
//! *Invariant:* never panics, whatever the bytes; what is not understood matches no rule.

use toolgate_config::service::CertificateConfig;
use toolgate_model::{Principal, PrincipalKind};

use super::caller::{self, Caller, Scopes};
use super::error::AuthError;

/// The rules, checked.
#[derive(Debug, Default)]
pub(super) struct Certificates(Vec<(CertificateConfig, Caller)>);

/// What a certificate says about its owner.
#[derive(Debug, Default, PartialEq, Eq)]
struct Names {
    common: Vec<String>,
    alternative: Vec<String>,
}

impl Certificates {
    pub(super) fn new(rules: Vec<CertificateConfig>) -> Result<Self, AuthError> {
        rules
            .into_iter()
            .map(|rule| {
                let problem = |problem| AuthError::Rule {
                    name: rule.name.clone(),
                    problem,
                };
                let scopes = Scopes::parse(rule.scopes.iter().map(String::as_str)).map_err(problem)?;
                let workspaces = caller::workspaces(rule.workspaces.as_deref()).map_err(problem)?;
                let principal = Principal::new(PrincipalKind::Certificate, rule.name.clone());
                Ok((rule, Caller::new(principal, scopes, workspaces)))
            })
            .collect::<Result<_, _>>()
            .map(Self)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Finds an owner by name. Of several rules the first one speaks.
    pub(super) fn named(&self, name: &str) -> Option<&Caller> {
        let mut callers = self.0.iter().map(|(_, caller)| caller);
        callers.find(|caller| caller.principal().name() == name)
    }

    /// Finds the owner by the first rule that matches.
    pub(super) fn find(&self, certificate: &[u8]) -> Option<&Caller> {
        let names = names(certificate)?;
        let matches = |rule: &CertificateConfig| {
            let common = rule.subject.as_ref().is_none_or(|name| names.common == [name.clone()]);
            let alternative = rule.san.as_ref().is_none_or(|name| names.alternative.contains(name));
            common && alternative && (rule.subject.is_some() || rule.san.is_some())
        };
        self.0.iter().find(|(rule, _)| matches(rule)).map(|(_, caller)| caller)
    }
}

/// Returns the alternative names of a certificate.
pub(super) fn alternative(certificate: &[u8]) -> Option<Vec<String>> {
    names(certificate).map(|names| names.alternative)
}

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const INTEGER: u8 = 0x02;
const OBJECT: u8 = 0x06;
const OCTETS: u8 = 0x04;
const VERSION: u8 = 0xa0;
const EXTENSIONS: u8 = 0xa3;
const UTF8_STRING: u8 = 0x0c;
const PRINTABLE_STRING: u8 = 0x13;
const IA5_STRING: u8 = 0x16;
const MAIL: u8 = 0x81;
const DNS: u8 = 0x82;
const URI: u8 = 0x86;
/// 2.5.4.3
const COMMON_NAME: [u8; 3] = [0x55, 4, 3];
/// 2.5.29.17
const ALTERNATIVE_NAME: [u8; 3] = [0x55, 0x1d, 0x11];

/// A run of DER elements.
struct Der<'a>(&'a [u8]);

impl<'a> Der<'a> {
    /// Takes the next element: its tag and its content.
    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (&[tag, length], rest) = self.0.split_first_chunk::<2>()?;
        let (length, rest) = match length {
            0..=0x7f => (usize::from(length), rest),
            // More than three bytes of length would be more than any certificate that gets this far.
            0x81..=0x83 => {
                let (bytes, rest) = rest.split_at_checked(usize::from(length & 0x7f))?;
                let length = bytes.iter().fold(0, |sum, &byte| sum << 8 | usize::from(byte));
                (length, rest)
            }
            _ => return None,
        };
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((tag, content))
    }

    fn expect(&mut self, wanted: u8) -> Option<&'a [u8]> {
        self.next()
            .filter(|(tag, _)| *tag == wanted)
            .map(|(_, content)| content)
    }
}

fn names(certificate: &[u8]) -> Option<Names> {
    let mut whole = Der(Der(certificate).expect(SEQUENCE)?);
    let mut fields = Der(whole.expect(SEQUENCE)?);
    let (first, _) = fields.next()?;
    if first == VERSION {
        fields.expect(INTEGER)?;
    }
    let _signature = fields.expect(SEQUENCE)?;
    let _issuer = fields.expect(SEQUENCE)?;
    let _validity = fields.expect(SEQUENCE)?;
    let mut names = Names {
        common: common_names(fields.expect(SEQUENCE)?)?,
        ..Names::default()
    };
    let _key = fields.expect(SEQUENCE)?;
    while let Some((tag, content)) = fields.next() {
        if tag == EXTENSIONS {
            names.alternative = alternative_names(Der(content).expect(SEQUENCE)?)?;
        }
    }
    Some(names)
}

fn common_names(subject: &[u8]) -> Option<Vec<String>> {
    let mut names = Vec::new();
    let mut sets = Der(subject);
    while !sets.0.is_empty() {
        let mut attributes = Der(sets.expect(SET)?);
        while !attributes.0.is_empty() {
            let mut attribute = Der(attributes.expect(SEQUENCE)?);
            let kind = attribute.expect(OBJECT)?;
            let (tag, value) = attribute.next()?;
            if kind == COMMON_NAME {
                match tag {
                    UTF8_STRING | PRINTABLE_STRING | IA5_STRING => names.push(text(value)?),
                    _ => return None,
                }
            }
        }
    }
    Some(names)
}

fn alternative_names(extensions: &[u8]) -> Option<Vec<String>> {
    let mut names = Vec::new();
    let mut extensions = Der(extensions);
    while !extensions.0.is_empty() {
        let mut extension = Der(extensions.expect(SEQUENCE)?);
        if extension.expect(OBJECT)? != ALTERNATIVE_NAME {
            continue;
        }
        let value = match extension.next()? {
            (OCTETS, value) => value,
            // Whether it is critical stands before it.
            _ => extension.expect(OCTETS)?,
        };
        let mut list = Der(Der(value).expect(SEQUENCE)?);
        while !list.0.is_empty() {
            let (tag, value) = list.next()?;
            if matches!(tag, MAIL | DNS | URI) {
                names.push(text(value)?);
            }
        }
    }
    Some(names)
}

fn text(bytes: &[u8]) -> Option<String> {
    std::str::from_utf8(bytes).ok().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rcgen::{CertificateParams, DnType, KeyPair, SanType};

    use super::*;

    fn certificate(common: &str, alternative: &[SanType]) -> Vec<u8> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::OrganizationName, "o");
        params.distinguished_name.push(DnType::CommonName, common);
        params.subject_alt_names = alternative.to_vec();
        params
            .self_signed(&KeyPair::generate().unwrap())
            .unwrap()
            .der()
            .to_vec()
    }

    fn rule(subject: Option<&str>, san: Option<&str>, name: &str) -> CertificateConfig {
        CertificateConfig {
            subject: subject.map(str::to_owned),
            san: san.map(str::to_owned),
            name: name.to_owned(),
            scopes: vec!["admin".to_owned()],
            workspaces: None,
        }
    }

    #[test]
    fn owners_are_found() {
        let rules = vec![
            rule(Some("alice"), None, "a"),
            rule(None, Some("spiffe://x/ci"), "ci"),
            rule(Some("bob"), Some("bob@x"), "b"),
            rule(None, None, "nobody"),
        ];
        let rules = Certificates::new(rules).unwrap();
        let check = |common: &str, alternative: &[SanType], owner: Option<&str>| {
            let found = rules.find(&certificate(common, alternative));
            assert_eq!(
                found.map(|caller| caller.principal.name()),
                owner,
                "{common} {alternative:?}"
            );
        };
        let uri = SanType::URI("spiffe://x/ci".try_into().unwrap());
        let mail = SanType::Rfc822Name("bob@x".try_into().unwrap());
        let dns = SanType::DnsName("host".try_into().unwrap());
        check("alice", &[], Some("a"));
        check("Alice", &[], None);
        check("é", &[dns.clone(), uri], Some("ci"));
        check("bob", std::slice::from_ref(&dns), None);
        check("bob", &[dns, mail.clone()], Some("b"));
        check("eve", &[mail], None);
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = names(&bytes);
        }

        #[test]
        fn no_damage_panics(at in 0usize..600, with in any::<u8>()) {
            let mut bytes = certificate("alice", &[SanType::DnsName("host".try_into().unwrap())]);
            let at = at % bytes.len();
            bytes[at] = with;
            let _ = names(&bytes);
            let _ = names(&bytes[..at]);
        }
    }
}
