//! Compiles `proto/` without `protoc`: protox parses, prost and tonic generate. The descriptor set, custom options
//! included, goes beside the code for server reflection and for the test of scopes.

#![allow(clippy::disallowed_methods)] // a build script writes what it makes

use std::error::Error;
use std::path::PathBuf;

const FILES: [&str; 17] = [
    "toolgate/v1/audit_service.proto",
    "toolgate/v1/call.proto",
    "toolgate/v1/error_reason.proto",
    "toolgate/v1/file_service.proto",
    "toolgate/v1/host_service.proto",
    "toolgate/v1/info_service.proto",
    "toolgate/v1/mcp_service.proto",
    "toolgate/v1/options.proto",
    "toolgate/v1/output_service.proto",
    "toolgate/v1/permission_service.proto",
    "toolgate/v1/port_service.proto",
    "toolgate/v1/prompt.proto",
    "toolgate/v1/result.proto",
    "toolgate/v1/session_service.proto",
    "toolgate/v1/terminal.proto",
    "toolgate/v1/tool_service.proto",
    "toolgate/v1/workspace_service.proto",
];

/// What gateways and workers say to each other; it is no part of the contract.
const CLUSTER: [&str; 2] = ["toolgate/cluster/v1/cluster.proto", "toolgate/cluster/v1/ledger.proto"];

fn main() -> Result<(), Box<dyn Error>> {
    // It runs for `crates/contract`, and in its folder.
    println!("cargo:rerun-if-changed=../../proto");
    println!("cargo:rerun-if-changed=../../build.rs");
    let mut compiler = protox::Compiler::new(["../../proto"])?;
    compiler.include_imports(true).include_source_info(true);
    compiler.open_files(FILES)?;
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    std::fs::write(out.join("revision.rs"), revision(&compiler).to_string())?;
    std::fs::write(
        out.join("toolgate.v1.descriptors.bin"),
        compiler.encode_file_descriptor_set(),
    )?;
    compiler.open_files(CLUSTER)?;
    std::fs::write(
        out.join("toolgate.cluster.v1.descriptors.bin"),
        compiler.encode_file_descriptor_set(),
    )?;
    let mut config = prost_build::Config::new();
    // A message knows its name, and by that its descriptor.
    config.enable_type_names();
    tonic_prost_build::configure()
        .codec_path("crate::codec::SmallBuffers")
        .bytes(".toolgate.v1.CallOutput")
        .bytes(".toolgate.v1.ReadOutputResponse")
        .bytes(".toolgate.v1.Attachment")
        .bytes(".toolgate.v1.ReadFileResponse")
        .bytes(".toolgate.v1.WriteFileRequest")
        .bytes(".toolgate.v1.UploadFileRequest")
        .bytes(".toolgate.v1.DownloadArchiveResponse")
        .bytes(".toolgate.v1.UploadArchiveRequest")
        .bytes(".toolgate.v1.SendInputRequest")
        .bytes(".toolgate.v1.HostOutput")
        .bytes(".toolgate.v1.ConnectPortRequest")
        .bytes(".toolgate.v1.ConnectPortResponse")
        .bytes(".toolgate.v1.McpResourceContents")
        .bytes(".toolgate.v1.McpMedia")
        .bytes(".toolgate.cluster.v1.AppendOutputRequest")
        .bytes(".toolgate.cluster.v1.ReadOutputResponse")
        .emit_rerun_if_changed(false)
        .compile_fds_with_config(compiler.file_descriptor_set(), config)?;
    Ok(())
}

/// Counts what the contract has: nothing of it is ever removed, so each addition makes the number larger.
fn revision(compiler: &protox::Compiler) -> usize {
    let pool = compiler.descriptor_pool();
    let is_ours = |name: &str| name.starts_with("toolgate.v1.");
    let messages = pool.all_messages().filter(|message| is_ours(message.full_name()));
    let enums = pool.all_enums().filter(|one| is_ours(one.full_name()));
    let services = pool.services().filter(|service| is_ours(service.full_name()));
    messages.map(|message| 1 + message.fields().len()).sum::<usize>()
        + enums.map(|one| 1 + one.values().len()).sum::<usize>()
        + services.map(|service| 1 + service.methods().len()).sum::<usize>()
}
