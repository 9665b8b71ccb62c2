//! What every part of the contract has to say about itself, read from the descriptors that the service ships.
//!
//! *Invariant:* nothing here starts a service.

use toolgate_contract::{API_REVISION, DESCRIPTORS, Scope};

use prost::Message;
use prost_types::method_options::IdempotencyLevel;
use prost_types::{DescriptorProto, EnumDescriptorProto, FileDescriptorProto, FileDescriptorSet};
use std::collections::BTreeMap;

/// The descriptors once more, with the one option that the general types drop.
#[derive(Clone, PartialEq, Message)]
struct Files {
    #[prost(message, repeated, tag = "1")]
    file: Vec<File>,
}

#[derive(Clone, PartialEq, Message)]
struct File {
    #[prost(string, tag = "2")]
    package: String,
    #[prost(message, repeated, tag = "6")]
    service: Vec<Service>,
}

#[derive(Clone, PartialEq, Message)]
struct Service {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, repeated, tag = "2")]
    method: Vec<Method>,
}

#[derive(Clone, PartialEq, Message)]
struct Method {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, optional, tag = "4")]
    options: Option<MethodOptions>,
}

#[derive(Clone, PartialEq, Message)]
struct MethodOptions {
    #[prost(int32, repeated, tag = "1374")]
    scopes: Vec<i32>,
}

const PACKAGE: &str = "toolgate.v1";

/// What a comment may say that a client needs to know when an RPC fails.
const FAILURES: [&str; 14] = [
    "INVALID_ARGUMENT",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "UNAVAILABLE",
    "DEADLINE_EXCEEDED",
    "UNAUTHENTICATED",
    "May be retried",
    "Status codes and retries as ",
];

fn files() -> Vec<FileDescriptorProto> {
    let set = FileDescriptorSet::decode(DESCRIPTORS).unwrap();
    let ours: Vec<_> = set.file.into_iter().filter(|file| file.package() == PACKAGE).collect();
    assert!(!ours.is_empty());
    ours
}

#[test]
fn every_rpc_declares_a_scope() {
    let set = Files::decode(DESCRIPTORS).unwrap();
    let services = set
        .file
        .into_iter()
        .filter(|file| file.package == PACKAGE)
        .flat_map(|file| file.service);
    let mut rpcs = 0;
    for service in services {
        for method in service.method {
            let scopes = method.options.unwrap_or_default().scopes;
            let is_one = |scope: &i32| Scope::try_from(*scope).is_ok_and(|scope| scope != Scope::Unspecified);
            let declared = !scopes.is_empty() && scopes.iter().all(is_one);
            assert!(declared, "{}.{} has no `option (scopes)`", service.name, method.name);
            rpcs += 1;
        }
    }
    assert!(rpcs > 20, "only {rpcs} RPCs were found");
}

/// How many messages, fields, enums, values, services and RPCs descriptors have.
fn size(descriptors: &[u8]) -> usize {
    fn of_enums(enums: &[EnumDescriptorProto]) -> usize {
        enums.iter().map(|one| 1 + one.value.len()).sum()
    }
    fn of_messages(messages: &[DescriptorProto]) -> usize {
        let of = |one: &DescriptorProto| 1 + one.field.len() + of_messages(&one.nested_type) + of_enums(&one.enum_type);
        messages.iter().map(of).sum()
    }
    let set = FileDescriptorSet::decode(descriptors).unwrap();
    let ours = set.file.iter().filter(|file| file.package() == PACKAGE);
    let of = |file: &FileDescriptorProto| {
        let services: usize = file.service.iter().map(|one| 1 + one.method.len()).sum();
        services + of_messages(&file.message_type) + of_enums(&file.enum_type)
    };
    ours.map(of).sum()
}

#[test]
fn the_revision_grows_with_every_addition() {
    let revision = usize::try_from(API_REVISION).unwrap();
    assert_eq!(revision, size(DESCRIPTORS));
    let landed = size(include_bytes!("../contract/landed.binpb"));
    assert!(
        revision >= landed,
        "something was removed: {revision} is less than {landed}"
    );
}

/// What every file says to generators, beside its package.
#[test]
fn every_file_has_options_for_generators() {
    for file in files() {
        let options = file.options.clone().unwrap_or_default();
        assert_eq!(options.java_package(), "io.toolgate.v1", "{}", file.name());
        assert_eq!(options.csharp_namespace(), "Toolgate.V1", "{}", file.name());
        assert_eq!(options.php_namespace(), "Toolgate\\V1", "{}", file.name());
        assert_eq!(options.ruby_package(), "Toolgate::V1", "{}", file.name());
        assert_eq!(options.objc_class_prefix(), "TG", "{}", file.name());
    }
}

#[test]
fn what_reads_has_no_side_effects() {
    let reads = [
        "Get",
        "List",
        "Watch",
        "Read",
        "Search",
        "Stat",
        "Download",
        "Evaluate",
        "ExportAudit",
    ];
    for method in files()
        .iter()
        .flat_map(|file| &file.service)
        .flat_map(|service| &service.method)
    {
        let level = method.options.clone().unwrap_or_default().idempotency_level();
        // They read by a call, which is recorded and may ask people.
        let is_call = ["ReadMcpResource", "GetMcpPrompt"].contains(&method.name());
        let is_read = !is_call && reads.iter().any(|verb| method.name().starts_with(verb));
        assert_eq!(level == IdempotencyLevel::NoSideEffects, is_read, "{}", method.name());
    }
}

/// The things of a file by their path in it, and the comments above them.
#[derive(Default)]
struct Things {
    names: BTreeMap<Vec<i32>, String>,
}

impl Things {
    fn add(&mut self, path: &[i32], tail: &[i32], name: String) -> Vec<i32> {
        let path = [path, tail].concat();
        self.names.insert(path.clone(), name);
        path
    }

    fn message(&mut self, path: &[i32], within: &str, message: &DescriptorProto) {
        let name = format!("{within}.{}", message.name());
        self.names.insert(path.to_vec(), name.clone());
        for (at, field) in (0..).zip(&message.field) {
            self.add(path, &[2, at], format!("{name}.{}", field.name()));
        }
        for (at, nested) in (0..).zip(&message.nested_type) {
            if !nested.options.as_ref().is_some_and(|options| options.map_entry()) {
                self.message(&[path, &[3, at]].concat(), &name, nested);
            }
        }
        for (at, nested) in (0..).zip(&message.enum_type) {
            self.enumeration(&[path, &[4, at]].concat(), &name, nested);
        }
    }

    fn enumeration(&mut self, path: &[i32], within: &str, enumeration: &EnumDescriptorProto) {
        let name = format!("{within}.{}", enumeration.name());
        self.names.insert(path.to_vec(), name.clone());
        for (at, value) in (0..).zip(&enumeration.value) {
            self.add(path, &[2, at], format!("{name}.{}", value.name()));
        }
    }

    fn of(file: &FileDescriptorProto) -> Self {
        let mut things = Self::default();
        for (at, message) in (0..).zip(&file.message_type) {
            things.message(&[4, at], PACKAGE, message);
        }
        for (at, enumeration) in (0..).zip(&file.enum_type) {
            things.enumeration(&[5, at], PACKAGE, enumeration);
        }
        for (at, service) in (0..).zip(&file.service) {
            things.add(&[], &[6, at], format!("{PACKAGE}.{}", service.name()));
        }
        for (at, extension) in (0..).zip(&file.extension) {
            things.add(&[], &[7, at], format!("{PACKAGE}.({})", extension.name()));
        }
        things
    }
}

/// The comments of a file by the path of what they stand above.
fn comments(file: &FileDescriptorProto) -> BTreeMap<&[i32], &str> {
    let info = file
        .source_code_info
        .as_ref()
        .expect("the descriptors carry their comments");
    let above = info
        .location
        .iter()
        .map(|place| (place.path.as_slice(), place.leading_comments().trim()));
    above.filter(|(_, comment)| !comment.is_empty()).collect()
}

#[test]
fn everything_has_a_comment() {
    for file in files() {
        let comments = comments(&file);
        let things = Things::of(&file).names.into_iter();
        let mute: Vec<_> = things
            .filter(|(path, _)| !comments.contains_key(path.as_slice()))
            .map(|(_, name)| name)
            .collect();
        assert!(mute.is_empty(), "{}: no comment above {}", file.name(), mute.join(", "));
    }
}

#[test]
fn every_rpc_says_how_it_fails_or_that_it_may_be_retried() {
    for file in files() {
        let comments = comments(&file);
        for (service, descriptor) in (0..).zip(&file.service) {
            for (method, rpc) in (0..).zip(&descriptor.method) {
                let comment = comments
                    .get([6, service, 2, method].as_slice())
                    .copied()
                    .unwrap_or_default();
                let says = FAILURES.iter().any(|failure| comment.contains(failure));
                assert!(
                    says,
                    "{}.{}: its comment names no status code",
                    descriptor.name(),
                    rpc.name()
                );
            }
        }
    }
}

#[test]
fn generators_are_told_where_their_code_belongs() {
    for file in files() {
        let options = file.options.clone().unwrap_or_default();
        let name = file.name();
        let package = "github.com/toolgate/toolgate/clients/go/gen/toolgate/v1;toolgatev1";
        assert_eq!(options.go_package(), package, "{name}");
        assert_eq!(options.java_package(), "io.toolgate.v1", "{name}");
        assert!(options.java_multiple_files(), "{name}");
        // Not the name of a message: what Java would make of `call.proto` by itself is `Call`.
        let is_message = |class: &str| file.message_type.iter().any(|message| message.name() == class);
        let class = options.java_outer_classname();
        assert!(class.ends_with("Proto") && !is_message(class), "{name}: {class}");
    }
}
