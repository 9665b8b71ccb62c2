// The form for another input: each field as the text that it is, so that a command is edited as a command.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { fieldsOf, inputOf, syntax, type Field } from "../input";
import { PromptDecision } from "../gen/toolgate/v1/prompt_pb";
import { pretty, visible } from "../text";
import { useFocus, type FormProps } from "./Answers";

/** Shows it. */
export function Instead({ input, busy, send }: FormProps & { input: string }): JSX.Element {
  const [fields, setFields] = useState(() => fieldsOf(input));
  // The whole as JSON; none while it is edited by fields.
  const [json, setJson] = useState<string | undefined>(() => (fields.length === 0 ? pretty(input) : undefined));
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
      <h3>Run this in the place of the model's input</h3>
      {json === undefined ? (
        fields.map((field, index) => (
          <FieldArea key={field.name} field={field} isFirst={index === 0} onChange={(to) => change(field.name, to)} />
        ))
      ) : (
        <JsonArea text={json} onChange={setJson} />
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

function rowsOf(text: string): number {
  return Math.min(20, Math.max(1, text.split("\n").length));
}

interface FieldProps {
  field: Field;
  isFirst: boolean;
  onChange: (text: string) => void;
}

function FieldArea({ field, isFirst, onChange }: FieldProps): JSX.Element {
  const first = useFocus<HTMLTextAreaElement>(isFirst);
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

function JsonArea({ text, onChange }: { text: string; onChange: (text: string) => void }): JSX.Element {
  const first = useFocus<HTMLTextAreaElement>();
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
