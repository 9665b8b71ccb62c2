/**
 * Results as the common model APIs take them. A failed call is told as one where the API has a way to, and what a form
 * cannot carry is named in the text.
 */
import type { Attachment, CallResult } from "./results.js";

type Carried = (attachment: Attachment) => boolean;

const IMAGES: readonly string[] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/** Whether models can look at pictures of this media type. */
export function isImageType(mime: string): boolean {
  return IMAGES.includes(mime);
}

/** Whether it is a picture that models can look at. One without content would have the whole request refused. */
export function isImage(attachment: Attachment): boolean {
  return isImageType(attachment.mime) && hasContent(attachment);
}

/** Whether it is a PDF file with content. */
export function isPdf(attachment: Attachment): boolean {
  return attachment.mime === "application/pdf" && hasContent(attachment);
}

function hasContent({ data, url }: Attachment): boolean {
  return Boolean(url) || (data !== undefined && data.length > 0);
}

/** Returns the bytes in base64; undefined where they have to be fetched. */
export function base64Of({ data, url = "" }: Attachment): string | undefined {
  if (data) {
    let text = "";
    for (let start = 0; start < data.length; start += 0x8000) {
      text += String.fromCharCode(...data.subarray(start, start + 0x8000));
    }
    return btoa(text);
  }
  const [head = "", content] = url.split(";base64,", 2);
  return head.startsWith("data:") && content ? content : undefined;
}

/** Returns where its content is: a URL, or the bytes as a data URL. */
export function linkOf(attachment: Attachment): string {
  return attachment.data ? `data:${attachment.mime};base64,${base64Of(attachment)}` : (attachment.url ?? "");
}

/** Returns the text for the model, which names the attachments that the form does not carry. */
export function textOf(result: CallResult, carried: Carried): string {
  const left = result.attachments.filter((one) => !carried(one));
  const names = left.map(({ filename, mime }) => `[${filename || mime} (${mime}) is not shown here]`);
  return [result.text, ...names].join("\n");
}

/** Makes the message `tool` of OpenAI's chat completions, which take no images there: they are named. */
export function openaiResult(result: CallResult, toolCallId: string) {
  return { role: "tool" as const, tool_call_id: toolCallId, content: textOf(result, () => false) };
}

/** Makes the item `function_call_output` of OpenAI's responses, with images and PDF files. */
export function openaiResponsesResult(result: CallResult, callId: string) {
  const carried: Carried = (one) => isImage(one) || (isPdf(one) && base64Of(one) !== undefined);
  const text = textOf(result, carried);
  const files = result.attachments
    .filter(carried)
    .map((one) =>
      isImage(one)
        ? { type: "input_image" as const, detail: "auto" as const, image_url: linkOf(one) }
        : { type: "input_file" as const, filename: one.filename || "file.pdf", file_data: linkOf(one) },
    );
  const words = text === "" ? [] : [{ type: "input_text" as const, text }];
  const output = files.length > 0 ? [...words, ...files] : text;
  return { type: "function_call_output" as const, call_id: callId, output };
}

/** Makes the block `tool_result` of Anthropic's messages, with images and PDF files. */
export function anthropicResult(result: CallResult, toolUseId: string) {
  const carried: Carried = (one) => isImage(one) || isPdf(one);
  const files = result.attachments.filter(carried).map((one) => {
    const data = base64Of(one);
    const source =
      data === undefined
        ? { type: "url" as const, url: one.url ?? "" }
        : { type: "base64" as const, media_type: one.mime, data };
    return { type: isImage(one) ? ("image" as const) : ("document" as const), source };
  });
  const text = { type: "text" as const, text: textOf(result, carried) || "(no output)" };
  return { type: "tool_result" as const, tool_use_id: toolUseId, is_error: !result.ok, content: [text, ...files] };
}

/** Makes the part `functionResponse` of Gemini's generateContent, with images and PDF files. */
export function geminiResult(result: CallResult, name: string, callId?: string) {
  const carried: Carried = (one) => (isImage(one) || isPdf(one)) && base64Of(one) !== undefined;
  const parts = result.attachments.filter(carried).map((one) => ({
    inlineData: { mimeType: one.mime, data: base64Of(one) ?? "", displayName: one.filename || one.mime },
  }));
  const text = textOf(result, carried);
  const response = result.ok ? { output: text } : { error: text };
  return {
    functionResponse: {
      name,
      ...(callId ? { id: callId } : {}),
      response,
      ...(parts.length > 0 ? { parts } : {}),
    },
  };
}
