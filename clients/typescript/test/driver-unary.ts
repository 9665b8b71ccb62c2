/** Any unary RPC, by its name. */
import type { DescMessage, DescMethodUnary, DescService, Message, MessageInitShape } from "@bufbuild/protobuf";
import { AuditService } from "../src/gen/toolgate/v1/audit_service_pb.js";
import { FileService } from "../src/gen/toolgate/v1/file_service_pb.js";
import { HostService } from "../src/gen/toolgate/v1/host_service_pb.js";
import { InfoService } from "../src/gen/toolgate/v1/info_service_pb.js";
import { McpService } from "../src/gen/toolgate/v1/mcp_service_pb.js";
import { OutputService } from "../src/gen/toolgate/v1/output_service_pb.js";
import { PermissionService } from "../src/gen/toolgate/v1/permission_service_pb.js";
import { PortService } from "../src/gen/toolgate/v1/port_service_pb.js";
import { SessionService } from "../src/gen/toolgate/v1/session_service_pb.js";
import { ToolService } from "../src/gen/toolgate/v1/tool_service_pb.js";
import { WorkspaceService } from "../src/gen/toolgate/v1/workspace_service_pb.js";
import { type Client, ToolgateError } from "../src/node.js";
import { decode, encode } from "./codec.js";

const SERVICES: readonly DescService[] = [
  AuditService,
  FileService,
  HostService,
  InfoService,
  McpService,
  OutputService,
  PermissionService,
  PortService,
  SessionService,
  ToolService,
  WorkspaceService,
];

/** Makes the RPC; returns its response. */
export async function unary(client: Client, name: string, request: unknown): Promise<string> {
  const [serviceName, methodName] = name.split("/");
  const service = SERVICES.find(({ typeName }) => typeName === serviceName);
  const method = service?.methods.find((one) => one.name === methodName);
  if (method?.methodKind !== "unary") {
    throw new ToolgateError("UNIMPLEMENTED", `there is no unary RPC ${name}`);
  }
  return call(client, method as DescMethodUnary, request);
}

async function call(client: Client, method: DescMethodUnary, given: unknown): Promise<string> {
  const request: Message = decode(method.input, given);
  try {
    const { message } = await client.transport.unary(
      method,
      undefined,
      undefined,
      undefined,
      request as MessageInitShape<DescMessage>,
    );
    return encode(method.output, message);
  } catch (error) {
    throw ToolgateError.from(error);
  }
}
