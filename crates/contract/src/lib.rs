//! The code generated from `proto/toolgate/v1`, and its descriptors.
//!
//! *Invariant:* nothing written by hand but this file; only the service's rim and the clients of the contract use it.

#![allow(missing_docs, unreachable_pub, clippy::all, rustdoc::all)] // generated code

tonic::include_proto!("toolgate.v1");

/// The encoded `FileDescriptorSet` of the contract, with its imports and custom options.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/toolgate.v1.descriptors.bin"));
