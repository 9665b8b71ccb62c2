//! The contract `toolgate.v1`: the code generated from `proto/`, its descriptors, and its messages as JSON.
//!
//! Files: `json` (messages as protobuf JSON, `google.protobuf.Struct` as plain JSON), `codec` (how messages are written and read). The
//! generated code is made by `build.rs`.
//!
//! *Invariant:* knows nothing of the service; only the service's rim and the clients of the contract use it.

mod codec;
pub mod json;

mod generated {
    #![allow(missing_docs, unreachable_pub, clippy::all, rustdoc::all)] // generated code

    tonic::include_proto!("toolgate.v1");
}

pub use generated::*;

/// What gateways and workers say to each other, `toolgate.cluster.v1`: internal, and no part of the contract.
pub mod cluster {
    mod generated {
        #![allow(missing_docs, unreachable_pub, clippy::all, rustdoc::all)] // generated code

        tonic::include_proto!("toolgate.cluster.v1");
    }

    pub use generated::*;

    /// The encoded `FileDescriptorSet` of it and of the contract.
    pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/toolgate.cluster.v1.descriptors.bin"));
}

/// How many messages, fields, enums, values, services and RPCs the contract has. It grows with every addition.
pub const API_REVISION: i32 = include!(concat!(env!("OUT_DIR"), "/revision.rs"));

/// The encoded `FileDescriptorSet` of the contract, with its imports and custom options.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/toolgate.v1.descriptors.bin"));
