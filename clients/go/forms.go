package toolgate

import "slices"

// Results in the forms that model APIs take. A failed call is told as one where the API has a way to, and what a form cannot
// carry is named in the text.

// OpenAIResult is a result as the message `tool` of OpenAI's chat completions, which many other servers take.
type OpenAIResult struct {
	// Role is always "tool".
	Role string `json:"role"`
	// ToolCallID is the id that the model gave its call.
	ToolCallID string `json:"tool_call_id"`
	// Content is the text. Files are named in it: there is no place for them here.
	Content string `json:"content"`
}

// OpenAIResponsesResult is a result as the item `function_call_output` of OpenAI's responses.
type OpenAIResponsesResult struct {
	// Type is always "function_call_output".
	Type string `json:"type"`
	// CallID is the id that the model gave its call.
	CallID string `json:"call_id"`
	// Output is the text as a string, or a []OpenAIResponsesPart if there are files.
	Output any `json:"output"`
}

// OpenAIResponsesPart is a text or a file of an [OpenAIResponsesResult].
type OpenAIResponsesPart struct {
	// Type is "input_text", "input_image" or "input_file".
	Type string `json:"type"`
	// Text is the text.
	Text string `json:"text,omitempty"`
	// Detail is "auto" for an image.
	Detail string `json:"detail,omitempty"`
	// ImageURL is where the image is, or the image itself as a data URL.
	ImageURL string `json:"image_url,omitempty"`
	// Filename is the name of a file that is no image.
	Filename string `json:"filename,omitempty"`
	// FileData is that file as a data URL.
	FileData string `json:"file_data,omitempty"`
}

// AnthropicResult is a result as the block `tool_result` of Anthropic's messages.
type AnthropicResult struct {
	// Type is always "tool_result".
	Type string `json:"type"`
	// ToolUseID is the id that the model gave its call.
	ToolUseID string `json:"tool_use_id"`
	// Content is the text, and then images and documents.
	Content []AnthropicBlock `json:"content"`
	// IsError says that the call failed.
	IsError bool `json:"is_error"`
}

// AnthropicBlock is a text or a file of an [AnthropicResult].
type AnthropicBlock struct {
	// Type is "text", "image" or "document".
	Type string `json:"type"`
	// Text is the text.
	Text string `json:"text,omitempty"`
	// Source is the file.
	Source *AnthropicSource `json:"source,omitempty"`
}

// AnthropicSource is the content of a file, or where it is.
type AnthropicSource struct {
	// Type is "base64" or "url".
	Type string `json:"type"`
	// MediaType is that of Data.
	MediaType string `json:"media_type,omitempty"`
	// Data is the content in base64.
	Data string `json:"data,omitempty"`
	// URL is where the content is.
	URL string `json:"url,omitempty"`
}

// GeminiResult is a result as a part of Gemini's contents.
type GeminiResult struct {
	// FunctionResponse is the result.
	FunctionResponse GeminiFunctionResponse `json:"functionResponse"`
}

// GeminiFunctionResponse is what a function has answered.
type GeminiFunctionResponse struct {
	// ID is the id that the model gave its call, if it gave one.
	ID string `json:"id,omitempty"`
	// Name is the name of the function.
	Name string `json:"name"`
	// Response has the text, as `output` or as `error`.
	Response map[string]string `json:"response"`
	// Parts are the files.
	Parts []GeminiPart `json:"parts,omitempty"`
}

// GeminiPart is a file of a [GeminiFunctionResponse].
type GeminiPart struct {
	// InlineData is the file.
	InlineData GeminiBlob `json:"inlineData"`
}

// GeminiBlob is the content of a file.
type GeminiBlob struct {
	// MIMEType is the media type.
	MIMEType string `json:"mimeType"`
	// Data is the content in base64.
	Data string `json:"data"`
	// DisplayName is a name for the model.
	DisplayName string `json:"displayName"`
}

// OpenAI makes the message `tool` of OpenAI's chat completions.
func (r *Result) OpenAI(toolCallID string) OpenAIResult {
	text, _ := r.parts(func(Attachment) bool { return false })
	return OpenAIResult{Role: "tool", ToolCallID: toolCallID, Content: text}
}

// OpenAIResponses makes the item `function_call_output` of OpenAI's responses, with images and PDF files.
func (r *Result) OpenAIResponses(callID string) OpenAIResponsesResult {
	result := OpenAIResponsesResult{Type: "function_call_output", CallID: callID}
	text, files := r.parts(func(a Attachment) bool { return a.isImage() || (a.isPDF() && a.isHere()) })
	if len(files) == 0 {
		result.Output = text
		return result
	}
	var output []OpenAIResponsesPart
	if text != "" {
		output = append(output, OpenAIResponsesPart{Type: "input_text", Text: text})
	}
	for _, file := range files {
		if file.isImage() {
			output = append(output, OpenAIResponsesPart{Type: "input_image", Detail: "auto", ImageURL: file.Link()})
			continue
		}
		name := file.Filename
		if name == "" {
			name = "file.pdf"
		}
		output = append(output, OpenAIResponsesPart{Type: "input_file", Filename: name, FileData: file.Link()})
	}
	result.Output = output
	return result
}

// Anthropic makes the block `tool_result` of Anthropic's messages, with images and PDF files.
func (r *Result) Anthropic(toolUseID string) AnthropicResult {
	text, files := r.parts(func(a Attachment) bool { return a.isImage() || a.isPDF() })
	if text == "" {
		// An empty text is refused.
		text = "(no output)"
	}
	content := []AnthropicBlock{{Type: "text", Text: text}}
	for _, file := range files {
		block := AnthropicBlock{Type: "document", Source: &AnthropicSource{Type: "url", URL: file.URL}}
		if file.isImage() {
			block.Type = "image"
		}
		if data, here := file.Base64(); here {
			block.Source = &AnthropicSource{Type: "base64", MediaType: file.MIME, Data: data}
		}
		content = append(content, block)
	}
	return AnthropicResult{Type: "tool_result", ToolUseID: toolUseID, Content: content, IsError: !r.OK}
}

// Gemini makes the part `functionResponse` of Gemini's contents, with images and PDF files: name is that of the function,
// callID the one that the model gave, or empty.
func (r *Result) Gemini(name, callID string) GeminiResult {
	text, files := r.parts(func(a Attachment) bool { return (a.isImage() || a.isPDF()) && a.isHere() })
	kind := "output"
	if !r.OK {
		kind = "error"
	}
	response := GeminiFunctionResponse{ID: callID, Name: name, Response: map[string]string{kind: text}}
	for _, file := range files {
		data, _ := file.Base64()
		response.Parts = append(response.Parts, GeminiPart{GeminiBlob{file.MIME, data, file.name()}})
	}
	return GeminiResult{response}
}

// parts returns the text for the model, which names the files that a form does not carry, and those that it does.
func (r *Result) parts(isCarried func(Attachment) bool) (text string, files []Attachment) {
	text = r.Text()
	for _, attachment := range r.Attachments {
		if isCarried(attachment) {
			files = append(files, attachment)
		} else {
			text += "\n[" + attachment.name() + " (" + attachment.MIME + ") is not shown here]"
		}
	}
	return text, files
}

// name is for the model.
func (a Attachment) name() string {
	if a.Filename == "" {
		return a.MIME
	}
	return a.Filename
}

// isImage says whether it is a picture that models can look at. One without content would have the whole request refused.
func (a Attachment) isImage() bool {
	return slices.Contains([]string{"image/png", "image/jpeg", "image/gif", "image/webp"}, a.MIME) && !a.isEmpty()
}

func (a Attachment) isPDF() bool { return a.MIME == "application/pdf" && !a.isEmpty() }

func (a Attachment) isEmpty() bool { return a.URL == "" && len(a.Data) == 0 }

func (a Attachment) isHere() bool {
	_, here := a.Base64()
	return here
}
