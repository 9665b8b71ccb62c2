/** Schemas of hosted tools: plain JSON Schema, or a validator such as zod that can describe itself. */
import type { JsonObject, JsonValue } from "@bufbuild/protobuf";

/**
 * A validator that follows Standard Schema and can say its JSON Schema: zod from 4.2, ArkType, Valibot with
 * `toStandardJsonSchema`.
 */
export interface SchemaLike<Input = unknown, Output = Input> {
  readonly "~standard": {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => ValidationResult<Output> | Promise<ValidationResult<Output>>;
    readonly types?: { readonly input: Input; readonly output: Output } | undefined;
    readonly jsonSchema?:
      | { readonly input: (options: { readonly target: "draft-2020-12" }) => Record<string, unknown> }
      | undefined;
  };
}

/** What a validator says. */
export type ValidationResult<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly Issue[] };

interface Issue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}

/** What a validator makes of valid input. */
export type OutputOf<Schema extends SchemaLike> = NonNullable<Schema["~standard"]["types"]>["output"];

/** Whether a schema is a validator. */
export function isSchemaLike(schema: unknown): schema is SchemaLike {
  return (typeof schema === "object" || typeof schema === "function") && schema !== null && "~standard" in schema;
}

/** Returns the JSON Schema of a tool's input as text; empty for a tool without arguments. */
export function schemaJson(schema: SchemaLike | JsonObject | string | undefined): string {
  if (schema === undefined || typeof schema === "string") {
    return schema ?? "";
  }
  return JSON.stringify(isSchemaLike(schema) ? describe(schema) : schema);
}

/** Returns what a validator makes of the input. Throws a text for the model if it is not valid. */
export async function validate(schema: SchemaLike, input: JsonValue): Promise<unknown> {
  const result = await schema["~standard"].validate(input);
  if (result.issues) {
    throw new TypeError(`the input is not valid: ${result.issues.map(issueText).join("; ")}`);
  }
  return result.value;
}

function describe(schema: SchemaLike): JsonValue {
  const standard = schema["~standard"];
  if (!standard.jsonSchema) {
    throw new TypeError(`${standard.vendor} does not say the JSON Schema of this validator: zod does from 4.2 on`);
  }
  return simplify(standard.jsonSchema.input({ target: "draft-2020-12" }) as JsonObject);
}

/** Leaves out what only costs a model's attention: the dialect, and that integers fit into a double. */
function simplify(value: JsonValue): JsonValue {
  if (Array.isArray(value)) {
    return value.map(simplify);
  }
  if (typeof value !== "object" || value === null) {
    return value;
  }
  const dull = (key: string, one: JsonValue) =>
    (key === "$schema" && typeof one === "string") ||
    (key === "minimum" && one === Number.MIN_SAFE_INTEGER) ||
    (key === "maximum" && one === Number.MAX_SAFE_INTEGER);
  const kept = Object.entries(value).filter(([key, one]) => !dull(key, one));
  return Object.fromEntries(kept.map(([key, one]) => [key, simplify(one)]));
}

function issueText({ message, path = [] }: Issue): string {
  const where = path.map((part) => String(typeof part === "object" ? part.key : part)).join(".");
  return where ? `${where}: ${message}` : message;
}
