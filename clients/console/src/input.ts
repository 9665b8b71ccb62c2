// Inputs of calls, taken apart into fields that people can edit, and put together again.

/** A field of an input. */
export interface Field {
  name: string;
  /** Its text, or its value as JSON. */
  text: string;
  /** Whether it is a text: those are edited as they are, without escapes. */
  isText: boolean;
}

/** Returns an input as an object; empty if it is none. */
export function objectOf(json: string): Record<string, unknown> {
  try {
    const input: unknown = JSON.parse(json);
    const isObject = typeof input === "object" && input !== null && !Array.isArray(input);
    return isObject ? (input as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}

/** The fields that people look at first. */
const FIRST = ["command", "filePath", "path", "url", "pattern"];

/** Returns the fields of an input, what matters most first. */
export function fieldsOf(json: string): Field[] {
  const rank = (name: string): number => (FIRST.includes(name) ? FIRST.indexOf(name) : FIRST.length);
  return Object.entries(objectOf(json))
    .map(([name, value]) => {
      const isText = typeof value === "string";
      return { name, isText, text: isText ? value : JSON.stringify(value, null, 2) };
    })
    .sort((a, b) => rank(a.name) - rank(b.name));
}

/** Returns the input of fields as JSON; a field whose JSON is wrong makes the whole wrong. */
export function inputOf(fields: readonly Field[]): string {
  const parts = fields.map(
    ({ name, text, isText }) => `${JSON.stringify(name)}:${isText ? JSON.stringify(text) : text}`,
  );
  return `{${parts.join(",")}}`;
}

/** Says what is wrong with a JSON text; empty if nothing is. */
export function syntax(text: string): string {
  try {
    JSON.parse(text);
    return "";
  } catch (error) {
    return `This is no JSON: ${error instanceof Error ? error.message : String(error)}`;
  }
}
