/** A model of LangChain for the program of the guide, which says what a script says: a call, and in the end a sentence. */
import { BaseChatModel } from "@langchain/core/language_models/chat_models";
import { AIMessage, type BaseMessage, ToolMessage } from "@langchain/core/messages";

export class Scripted extends BaseChatModel {
  constructor() {
    super({});
  }

  _llmType() {
    return "scripted";
  }

  override bindTools() {
    return this as never;
  }

  async _generate(messages: BaseMessage[]) {
    const args = { command: "touch notes.txt", description: "Makes the file" };
    const call = new AIMessage({ content: "", tool_calls: [{ name: "bash", args, id: "call_0" }] });
    const done = messages.some((message) => ToolMessage.isInstance(message));
    return { generations: [{ text: "", message: done ? new AIMessage("The file is there.") : call }] };
  }
}
