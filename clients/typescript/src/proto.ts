/** The generated messages and services of the contract, for {@link Client.rpc}. */
export * from "./gen/toolgate/v1/audit_service_pb.js";
export * from "./gen/toolgate/v1/call_pb.js";
export * from "./gen/toolgate/v1/error_reason_pb.js";
export * from "./gen/toolgate/v1/file_service_pb.js";
export * from "./gen/toolgate/v1/host_service_pb.js";
export * from "./gen/toolgate/v1/info_service_pb.js";
export * from "./gen/toolgate/v1/mcp_service_pb.js";
export * from "./gen/toolgate/v1/options_pb.js";
export * from "./gen/toolgate/v1/output_service_pb.js";
export * from "./gen/toolgate/v1/permission_service_pb.js";
export * from "./gen/toolgate/v1/port_service_pb.js";
export * from "./gen/toolgate/v1/prompt_pb.js";
export * from "./gen/toolgate/v1/result_pb.js";
export * from "./gen/toolgate/v1/session_service_pb.js";
export * from "./gen/toolgate/v1/terminal_pb.js";
export * from "./gen/toolgate/v1/tool_service_pb.js";
export * from "./gen/toolgate/v1/workspace_service_pb.js";
