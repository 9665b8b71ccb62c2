//! The service as a whole: what it offers on the wire, and how its parts are put together, started and stopped.
//!
//! *Invariant:* [`grpc`] converts the types of the other crates to those of the contract and knows no tool, program or file;
//! only [`app`] names concrete tools, stores and services together. Nothing here knows the command line.
//!
//! In reading order:
//!
//! - [`app`]: makes, starts and stops everything. In `app/`: `store` (which store it is) with `ledger` (that of a worker), `settings` (what the configuration says to the engine), [`app::store_front`] (what a gateway answers from a store) with `store_watch` (whether that is there), [`app::entrance`] (listening, also for a gateway), `places` (workspaces and their tools), `extensions`, `mcp` and
//!   `languages` (custom tools, MCP servers, language servers), `mcp_login` with `loopback` (logging in at an MCP server, by a command), `rules` (rules that change while the service runs),
//!   `workspaces` (those that come and go), `created` with `created_later` and `created_records` (those that clients create), `sandbox`, `socket`, `peers` (whose process made a connection), `telemetry`, `upkeep` (what is done regularly),
//!   [`app::hangup`] (SIGHUP);
//! - `provision`: where created workspaces come from, a seam; in `provision/`: `folders`, `git`, `archive`;
//! - [`grpc`]: makes the server out of layers and services. In `grpc/`:
//!   - `shared`: what the services of one server share;
//!   - `arrival`, `authority`, `coalesce`, `delegate`: connections: whose they are, names of Unix sockets, writing many
//!     frames at once;
//!   - [`grpc::auth`], [`grpc::limits`], `first_message`, `origins`, `measure`: who calls and may do what, how much may come and how
//!     long it may take, which web pages may call, what is measured; [`grpc::body`]: how one looks at
//!     what passes; `described`: what the contract says of each RPC;
//!   - `reflection`: what clients ask about the contract;
//!   - `door`: what does not speak gRPC, taken out by its path;
//!   - `tool_service`, `permission_service`, `output_service`, `session_service`, `audit_service`, `host_service`,
//!     `info_service`, `workspace_service`, `file_service`, `port_service`, `mcp_service`: one file for each service of the contract; `workspaces`:
//!     who opens them; `ports`: opened ports by HTTP;
//!   - `convert`, `values`, `events`, `status`: from and to the types of the contract, and every error;
//!   - `hold`: when the client of a call counts as gone;
//!   - `mcp`: the same tools for MCP clients; `protected_resource`: where those get a token;
//!   - `agent_sandbox`: commands and files for the SDKs of agent-sandbox, at `sandbox_paths`;
//!   - `console`: the page for the people who approve.
//!
//! A file `X_absent` stands for `X` in a build without its feature.

#![cfg_attr(test, allow(clippy::disallowed_methods))] // tests make the folders and programs they work with

pub mod app;
pub mod grpc;
pub mod provision;
