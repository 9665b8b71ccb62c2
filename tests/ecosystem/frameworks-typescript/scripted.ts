/** Models for the programs of the guide, which say what a script says: a call, and in the end a sentence. */
import { MockLanguageModelV3 } from "ai/test";

const CALL = { command: "touch notes.txt", description: "Makes the file" };
const END = "The file is there.";
const USAGE = {
  inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 1, text: 1, reasoning: 0 },
};

/** A model of the AI SDK, which Mastra takes as well. */
export function openai() {
  const call = { type: "tool-call" as const, toolCallId: "call_0", toolName: "bash", input: JSON.stringify(CALL) };
  const isDone = (prompt: readonly { role: string }[]) => prompt.some(({ role }) => role === "tool");
  const finished = (done: boolean) => {
    const reason = done ? ("stop" as const) : ("tool-calls" as const);
    return { unified: reason, raw: reason };
  };
  return new MockLanguageModelV3({
    doGenerate: async ({ prompt }) => {
      const done = isDone(prompt);
      const content = done ? [{ type: "text" as const, text: END }] : [call];
      return { content, finishReason: finished(done), usage: USAGE, warnings: [] };
    },
    doStream: async ({ prompt }) => {
      const done = isDone(prompt);
      const text = [
        { type: "text-start", id: "0" },
        { type: "text-delta", id: "0", delta: END },
        { type: "text-end", id: "0" },
      ];
      const finish = { type: "finish", finishReason: finished(done), usage: USAGE };
      const parts = [{ type: "stream-start", warnings: [] }, ...(done ? text : [call]), finish];
      const stream = new ReadableStream<never>({
        start(controller) {
          for (const part of parts) {
            controller.enqueue(part as never);
          }
          controller.close();
        },
      });
      return { stream };
    },
  });
}
