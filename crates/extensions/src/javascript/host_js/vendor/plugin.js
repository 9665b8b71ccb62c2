// What `@opencode-ai/plugin` offers at run time, for projects that have not installed it.
import { z } from "zod";

export function tool(definition) {
  return definition;
}
tool.schema = z;
