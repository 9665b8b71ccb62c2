// The form for another input: each field as the text that it is, so that a command is edited as a command.

import type { JSX } from "preact";
import { useDraft } from "../drafts";
import { fieldsOf, inputOf, syntax, type Field } from "../input";
import { PromptDecision } from "../gen/toolgate/v1/prompt_pb";
import { pretty, visible } from "../text";
import { useFocus, type FormProps } from "./Answers";

/** Shows it. */
export function Instead({ promptId, input, busy, send, isKept }: FormProps & { input: string }): JSX.Element {
  const [fields, setFields] = useDraft(promptId, "fields", () => fieldsOf(input));
  // The whole as JSON; none while it is edited by fields.
  const [json, setJson] = useDraft(promptId, "json", () => (fields.length === 0 ? pretty(input) : undefined));
  const text = json ?? inputOf(fields);
  const problem = syntax(text);
  const submit = (event: Event): void => {
    event.preventDefault();
    void send({ decision: PromptDecision.INSTEAD, inputJson: text });
  };
  const change = (name: string, to: string): void =>
    setFields(fields.map((field) => (field.name === name ? { ...field, text: to } : field)));
  return (
    <form id="form-instead" class="form" onSubmit={submit}>
      <h3>Run this instead of the model's input</h3>
      {json === undefined ? (
        fields.map((field, index) => (
          <FieldArea
            key={field.name}
            field={field}
            isFirst={index === 0}
            isKept={isKept}
            onChange={(to) => change(field.name, to)}
          />
        ))
      ) : (
        <JsonArea text={json} isKept={isKept} onChange={setJson} />
      )}
      <p id="instead-problem" class="bad">
        {problem}
      </p>
      <div class="buttons">
        <button class="good" disabled={busy || problem !== ""}>
          Allow with this input
        </button>
        {fields.length > 0 && (
          <button
            type="button"
            disabled={problem !== ""}
            onClick={() => {
              if (json !== undefined) setFields(fieldsOf(json));
              setJson(json === undefined ? pretty(text) : undefined);
            }}
          >
            {json === undefined ? "Edit as JSON" : "Edit as fields"}
          </button>
        )}
      </div>
    </form>
  );
}

/** Columns of a line, for browsers that do not make a field as high as its text. */
const COLUMNS = 80;

function rowsOf(text: string): number {
  const rows = text.split("\n").reduce((sum, line) => sum + Math.max(1, Math.ceil(line.length / COLUMNS)), 0);
  return Math.min(20, rows);
}

interface FieldProps {
  field: Field;
  isFirst: boolean;
  isKept: boolean;
  onChange: (text: string) => void;
}

function FieldArea({ field, isFirst, isKept, onChange }: FieldProps): JSX.Element {
  const first = useFocus<HTMLTextAreaElement>(isKept, isFirst);
  return (
    <label>
      {field.name} {!field.isText && <span class="dim">(JSON)</span>}
      <textarea
        ref={first}
        class="code"
        rows={rowsOf(field.text)}
        spellcheck={false}
        autocapitalize="off"
        value={field.text}
        onInput={(event) => onChange(event.currentTarget.value)}
      />
      {visible(field.text) !== field.text && (
        <span class="bad">
          Some of its characters are not seen: <code>{visible(field.text)}</code>
        </span>
      )}
    </label>
  );
}

interface JsonProps {
  text: string;
  isKept: boolean;
  onChange: (text: string) => void;
}

function JsonArea({ text, isKept, onChange }: JsonProps): JSX.Element {
  const first = useFocus<HTMLTextAreaElement>(isKept);
  return (
    <label>
      The whole input as JSON
      <textarea
        ref={first}
        class="code"
        rows={Math.max(6, rowsOf(text) + 1)}
        spellcheck={false}
        value={text}
        aria-describedby="instead-problem"
        onInput={(event) => onChange(event.currentTarget.value)}
      />
    </label>
  );
}
