//! Results in the forms that model APIs take.
//!
//! *Invariant:* a failed call is told as one where the API has a way to, and what a form cannot carry is named in the text.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use toolgate_contract::Attachment;
use toolgate_contract::attachment::Content;

use crate::result::CallResult;

const IMAGES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

impl CallResult {
    /// Makes the message `tool` of OpenAI's chat completions, which take no files there: they are named.
    pub fn openai(&self, tool_call_id: &str) -> Value {
        let (text, _) = self.parts(|_| false);
        json!({"role": "tool", "tool_call_id": tool_call_id, "content": text})
    }

    /// Makes the item `function_call_output` of OpenAI's responses, with images and PDF files.
    pub fn openai_responses(&self, call_id: &str) -> Value {
        let (text, files) = self.parts(|one| is_image(one) || (is_pdf(one) && base64(one).is_some()));
        let output = if files.is_empty() {
            json!(text)
        } else {
            let text = (!text.is_empty()).then(|| json!({"type": "input_text", "text": text}));
            let files = files.into_iter().map(|one| {
                if is_image(one) {
                    json!({"type": "input_image", "detail": "auto", "image_url": link(one)})
                } else {
                    let filename = Some(&*one.filename).filter(|name| !name.is_empty());
                    let filename = filename.unwrap_or("file.pdf");
                    json!({"type": "input_file", "filename": filename, "file_data": link(one)})
                }
            });
            text.into_iter().chain(files).collect()
        };
        json!({"type": "function_call_output", "call_id": call_id, "output": output})
    }

    /// Makes the block `tool_result` of Anthropic's messages, with images and PDF files.
    pub fn anthropic(&self, tool_use_id: &str) -> Value {
        let (mut text, files) = self.parts(|one| is_image(one) || is_pdf(one));
        if text.is_empty() {
            // An empty text is refused.
            "(no output)".clone_into(&mut text);
        }
        let files = files.into_iter().map(|one| {
            let kind = if is_image(one) { "image" } else { "document" };
            let source = match base64(one) {
                Some(data) => json!({"type": "base64", "media_type": one.mime, "data": data}),
                None => json!({"type": "url", "url": link(one)}),
            };
            json!({"type": kind, "source": source})
        });
        let text = json!({"type": "text", "text": text});
        let content: Value = std::iter::once(text).chain(files).collect();
        json!({"type": "tool_result", "tool_use_id": tool_use_id, "content": content, "is_error": !self.is_ok()})
    }

    /// Makes the part `functionResponse` of Gemini's contents, with images and PDF files. `call_id` is the id that the model gave
    /// its call, or empty.
    pub fn gemini(&self, name: &str, call_id: &str) -> Value {
        let (text, files) = self.parts(|one| (is_image(one) || is_pdf(one)) && base64(one).is_some());
        let kind = if self.is_ok() { "output" } else { "error" };
        let mut response = json!({"name": name, "response": {kind: text}});
        if !call_id.is_empty() {
            response["id"] = json!(call_id);
        }
        if !files.is_empty() {
            let files = files.into_iter().map(
                |one| json!({"inlineData": {"mimeType": one.mime, "data": base64(one), "displayName": name_of(one)}}),
            );
            response["parts"] = files.collect();
        }
        json!({"functionResponse": response})
    }

    /// Returns the text for the model, which names the files that a form does not carry, and those that it does.
    fn parts(&self, is_carried: impl Fn(&Attachment) -> bool) -> (String, Vec<&Attachment>) {
        let (files, left): (Vec<_>, Vec<_>) = self.attachments().iter().partition(|one| is_carried(one));
        let mut text = self.text().to_owned();
        for one in left {
            text.push_str(&format!("\n[{} ({}) is not shown here]", name_of(one), one.mime));
        }
        (text, files)
    }
}

/// Returns a name for the model.
fn name_of(attachment: &Attachment) -> &str {
    if attachment.filename.is_empty() {
        &attachment.mime
    } else {
        &attachment.filename
    }
}

/// Returns whether it is a picture that models can look at. One without content would have the whole request refused.
fn is_image(attachment: &Attachment) -> bool {
    IMAGES.contains(&&*attachment.mime) && !is_empty(attachment)
}

fn is_pdf(attachment: &Attachment) -> bool {
    attachment.mime == "application/pdf" && !is_empty(attachment)
}

fn is_empty(attachment: &Attachment) -> bool {
    match &attachment.content {
        Some(Content::Data(data)) => data.is_empty(),
        Some(Content::Url(url)) => url.is_empty(),
        None => true,
    }
}

/// Returns where its content is: a URL, or the content itself as a data URL.
fn link(attachment: &Attachment) -> Cow<'_, str> {
    match &attachment.content {
        Some(Content::Url(url)) => url.into(),
        Some(Content::Data(data)) => format!("data:{};base64,{}", attachment.mime, STANDARD.encode(data)).into(),
        None => "".into(),
    }
}

/// Returns its content in Base64; `None` where that has to be fetched.
fn base64(attachment: &Attachment) -> Option<Cow<'_, str>> {
    match attachment.content.as_ref()? {
        Content::Data(data) => Some(STANDARD.encode(data).into()),
        Content::Url(url) => {
            let (head, content) = url.split_once(";base64,")?;
            (head.starts_with("data:") && !content.is_empty()).then(|| content.into())
        }
    }
}
