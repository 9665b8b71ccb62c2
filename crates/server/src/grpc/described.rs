//! What the descriptors of services say of their methods.
//!
//! *Invariant:* of descriptors only what is wanted here is read. Most of them is comments, and every start reads them several
//! times: with the general types that took a quarter of a start.

use prost::Message;

/// A method of a service.
pub(super) struct Described {
    /// `package.Service/Method`, as in its path.
    pub(super) name: String,
    /// Whether either side sends a stream.
    pub(super) streams: bool,
    /// The option of the contract that says who may call it.
    pub(super) scopes: Vec<i32>,
}

/// Returns all methods of encoded descriptors.
///
/// # Errors
/// They cannot be read.
pub(super) fn methods(descriptors: &[u8]) -> Result<Vec<Described>, prost::DecodeError> {
    let files = Files::decode(descriptors)?.file;
    let methods = files.into_iter().flat_map(|file| {
        let package = file.package;
        file.service.into_iter().flat_map(move |service| {
            let service_name = format!("{package}.{}", service.name);
            service.method.into_iter().map(move |method| Described {
                name: format!("{service_name}/{}", method.name),
                streams: method.client_streaming || method.server_streaming,
                scopes: method.options.unwrap_or_default().scopes,
            })
        })
    });
    Ok(methods.collect())
}

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
    #[prost(bool, tag = "5")]
    client_streaming: bool,
    #[prost(bool, tag = "6")]
    server_streaming: bool,
}

#[derive(Clone, PartialEq, Message)]
struct MethodOptions {
    #[prost(int32, repeated, tag = "1374")]
    scopes: Vec<i32>,
}
