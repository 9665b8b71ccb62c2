// The types of a tool's arguments: as JSON Schema for models, and for parsing what they send.
import { Invalid, isObject } from "./answer.mjs";
import { importZod } from "./packages.mjs";

const MAX_DEPTH = 20;

export async function addTool(tools, problems, name, definition, file) {
  try {
    const { fields, schema } = await describeArgs(definition.args ?? {}, file);
    tools.set(name, { name, description: String(definition.description ?? ""), definition, fields, schema });
  } catch (error) {
    problems.push(`${name}: ${error?.message ?? error}`);
  }
}

const isZod4 = (type) => isObject(type) && "_zod" in type;
const isZod3 = (type) => isObject(type) && !isZod4(type) && isObject(type._def) && typeof type.safeParse === "function";

// Returns the types by which arguments are parsed, and the JSON Schema of all of them.
async function describeArgs(args, file) {
  const isType = isZod4(args) || isZod3(args);
  if (isType && !isObject(args.shape)) throw new Error("the arguments are no object");
  if (isType) args = args.shape;
  else if (args.type === "object" && isObject(args.properties)) return { fields: {}, schema: args };
  const fields = {};
  const schema = { type: "object", properties: {} };
  const required = [];
  const copies = new Map(); // of zod -> the fields that it made
  for (const [name, type] of Object.entries(args)) {
    schema.properties[name] = {};
    if (isZod4(type)) {
      fields[name] = type;
      // A type that says itself what it is confuses later versions, if it asks them in turn.
      if (typeof type._zod.toJSONSchema === "function") {
        schema.properties[name] = type._zod.toJSONSchema();
        if (type._zod.optin !== "optional") required.push(name);
        continue;
      }
      // Each version reads its own types only.
      const z = await importZod(type._zod.version, file);
      copies.set(z, { ...copies.get(z), [name]: type });
    } else if (isZod3(type)) {
      fields[name] = type;
      schema.properties[name] = schemaOfZod3(type);
      if (!type.isOptional()) required.push(name);
    } else if (isObject(type)) {
      schema.properties[name] = type;
      required.push(name);
    } else throw new Error(`the argument ${name} is neither a zod type nor a JSON Schema`);
  }
  for (const [z, typed] of copies) {
    const made = z.toJSONSchema(z.object(typed), { io: "input", unrepresentable: "any", override: keepTexts });
    Object.assign(schema.properties, made.properties);
    if (made.$defs) schema.$defs = { ...schema.$defs, ...made.$defs };
    required.push(...(made.required ?? []));
  }
  return { fields, schema: required.length > 0 ? { ...schema, required } : schema };
}

// Texts are registered with the copy of zod that made the type, which may be another one of the same version.
function keepTexts({ zodSchema, jsonSchema }) {
  const meta = typeof zodSchema.meta === "function" ? (zodSchema.meta() ?? {}) : {};
  for (const key of ["title", "description", "examples", "deprecated"]) {
    const text = meta[key] ?? (key === "description" ? zodSchema.description : undefined);
    if (text !== undefined && jsonSchema[key] === undefined) jsonSchema[key] = text;
  }
}

// Zod 3 has no JSON Schema of its own. What is not told here is left open: the type itself still says no.
function schemaOfZod3(type, depth = 0) {
  const schema = depth > MAX_DEPTH ? {} : shapeOfZod3(type._def, (inner) => schemaOfZod3(inner, depth + 1));
  return type.description ? { ...schema, description: type.description } : schema;
}

function shapeOfZod3(def, of) {
  const checks = (def.checks ?? []).filter((check) => check.inclusive !== false);
  const bound = (kind) => checks.find((check) => check.kind === kind)?.value;
  switch (def.typeName) {
    case "ZodString":
      return { type: "string", minLength: bound("min"), maxLength: bound("max") };
    case "ZodNumber": {
      const isWhole = checks.some((check) => check.kind === "int");
      return { type: isWhole ? "integer" : "number", minimum: bound("min"), maximum: bound("max") };
    }
    case "ZodBoolean":
      return { type: "boolean" };
    case "ZodNull":
      return { type: "null" };
    case "ZodLiteral":
      return { const: def.value };
    case "ZodEnum":
      return { type: "string", enum: def.values };
    case "ZodNativeEnum":
      // Enums of numbers name their members the other way round as well.
      return { enum: Object.keys(def.values).filter((key) => typeof def.values[def.values[key]] !== "number").map((key) => def.values[key]) };
    case "ZodArray":
      return { type: "array", items: of(def.type), minItems: def.minLength?.value, maxItems: def.maxLength?.value };
    case "ZodRecord":
      return { type: "object", additionalProperties: of(def.valueType) };
    case "ZodObject": {
      const shape = Object.entries(def.shape());
      const required = shape.filter(([, inner]) => !inner.isOptional()).map(([name]) => name);
      const properties = Object.fromEntries(shape.map(([name, inner]) => [name, of(inner)]));
      return { type: "object", properties, ...(required.length > 0 ? { required } : {}) };
    }
    case "ZodUnion":
    case "ZodDiscriminatedUnion":
      return { anyOf: [...(def.options.values?.() ?? def.options)].map(of) };
    case "ZodNullable":
      return { anyOf: [of(def.innerType), { type: "null" }] };
    case "ZodDefault":
      return { ...of(def.innerType), default: def.defaultValue() };
    case "ZodOptional":
    case "ZodReadonly":
    case "ZodCatch":
      return of(def.innerType);
    case "ZodBranded":
      return of(def.type);
    case "ZodEffects":
      return def.effect.type === "preprocess" ? {} : of(def.schema);
    case "ZodPipeline":
      return of(def.in);
    default:
      return {};
  }
}

// Parses field by field, so that any copy and version of zod does, and arguments without a type stay.
export async function parse(fields, args) {
  const parsed = { ...args };
  const problems = [];
  for (const [name, type] of Object.entries(fields)) {
    const result = await type.safeParseAsync(Object.hasOwn(args, name) ? args[name] : undefined);
    if (!result.success) {
      for (const issue of result.error.issues) problems.push(`${[name, ...issue.path].join(".")}: ${issue.message}`);
    } else if (result.data !== undefined) parsed[name] = result.data;
    else delete parsed[name];
  }
  if (problems.length > 0) throw new Invalid(problems.join("; "));
  return parsed;
}
