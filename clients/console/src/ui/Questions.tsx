// Questions that a model asks, with options and own answers.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { useDraft } from "../drafts";
import { answer, type Answer } from "../prompts";
import { visible } from "../text";
import { PromptDecision, type Prompt, type Question, type QuestionRequest } from "../gen/toolgate/v1/prompt_pb";

interface Given {
  labels: readonly string[];
  own: string;
}

/** Shows the questions of a prompt, and sends the answers. */
export function Questions({ prompt, request }: { prompt: Prompt; request: QuestionRequest }): JSX.Element {
  const [given, setGiven] = useDraft<readonly Given[]>(prompt.promptId, "answers", () =>
    request.questions.map(() => ({ labels: [], own: "" })),
  );
  const [busy, setBusy] = useState(false);
  const [wrong, setWrong] = useState("");
  const send = async (reply: Answer): Promise<void> => {
    setBusy(true);
    setWrong((await answer(prompt, reply)) ?? "");
    setBusy(false);
  };
  const submit = (event: Event): void => {
    event.preventDefault();
    const answers = given.map(({ labels, own }) => ({
      values: own.trim() === "" ? [...labels] : [...labels, own.trim()],
    }));
    void send({ decision: PromptDecision.ANSWER, answers });
  };
  const change = (index: number, to: Given): void => setGiven(given.map((one, at) => (at === index ? to : one)));
  return (
    <form class="questions" onSubmit={submit}>
      {request.questions.map((question, index) => (
        <OneQuestion
          key={index}
          name={`${prompt.promptId}-${index}`}
          question={question}
          given={given[index]!}
          onChange={(to) => change(index, to)}
        />
      ))}
      {wrong !== "" && (
        <p class="bad" role="alert">
          {visible(wrong)}
        </p>
      )}
      <div class="buttons">
        <button class="good" disabled={busy}>
          Answer
        </button>
        <button
          type="button"
          class="bad"
          disabled={busy}
          onClick={() => void send({ decision: PromptDecision.REJECT })}
        >
          Dismiss
        </button>
      </div>
    </form>
  );
}

interface OneProps {
  name: string;
  question: Question;
  given: Given;
  onChange: (to: Given) => void;
}

function OneQuestion({ name, question, given, onChange }: OneProps): JSX.Element {
  const { multiple } = question;
  const choose = (label: string, on: boolean): void => {
    if (multiple) {
      const others = given.labels.filter((other) => other !== label);
      onChange({ ...given, labels: on ? [...others, label] : others });
    } else {
      // One answer: what was written gives way to what is chosen.
      onChange({ labels: on ? [label] : [], own: "" });
    }
  };
  const write = (own: string): void => onChange({ labels: multiple || own === "" ? given.labels : [], own });
  return (
    <fieldset>
      <legend>
        {question.header !== "" && <b class="head">{visible(question.header)}</b>}
        {visible(question.question)}
      </legend>
      {question.options.map((option) => (
        <label key={option.label} class="check">
          <input
            type={multiple ? "checkbox" : "radio"}
            name={name}
            checked={given.labels.includes(option.label)}
            onChange={(event) => choose(option.label, event.currentTarget.checked)}
          />
          <span>
            {visible(option.label)}
            {option.description !== "" && <span class="dim"> {visible(option.description)}</span>}
          </span>
        </label>
      ))}
      {(question.custom || question.options.length === 0) && (
        <label class="own">
          {question.options.length === 0 ? "Your answer" : "Another answer"}
          <input type="text" maxLength={4096} value={given.own} onInput={(event) => write(event.currentTarget.value)} />
        </label>
      )}
    </fieldset>
  );
}
