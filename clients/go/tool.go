package toolgate

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/invopop/jsonschema"
)

// Tool is a function that a [Host] lends. [NewTool] makes one of a typed function.
type Tool struct {
	// Name is 1 to 64 letters, digits, `_` and `-`.
	Name string
	// Description is the text for the model.
	Description string
	// Schema is the JSON Schema of the input, an object; empty for a tool without arguments.
	Schema json.RawMessage
	// Effects says what it may do, for front ends that mark tools by it.
	Effects []ToolEffect
	// Run executes it. An error is the text for the model: what to do next. The context ends with the call.
	Run func(ctx context.Context, call *Invocation) (ToolResult, error)
	// Err is why the tool cannot be lent; [Client.Host] returns it.
	Err error
}

// ToolResult is what a lent function leaves.
type ToolResult struct {
	// Title is a short text for people; empty for the last one that was reported.
	Title string
	// Output is the text for the model; empty for what the function has written, if it has.
	Output string
	// Metadata is merged over what was reported.
	Metadata map[string]any
	// Attachments are the files that belong to it.
	Attachments []Attachment
}

// NewTool makes a tool of a function whose input is a struct. Its fields are described by tags: `json` for the name, with
// omitempty for what is not required, and those of github.com/invopop/jsonschema for the rest:
//
//	type Greeting struct {
//		Name  string `json:"name" jsonschema_description:"Who is greeted."`
//		Times int    `json:"times,omitempty" jsonschema:"default=1,minimum=1" jsonschema_description:"How often."`
//	}
//
// The function finds the defaults of the struct's fields filled in, those of nested ones not. It returns the text for the
// model or a whole [ToolResult].
func NewTool[In any, Out string | ToolResult](
	name, description string, run func(ctx context.Context, call *Invocation, input In) (Out, error), effects ...ToolEffect,
) Tool {
	tool := Tool{Name: name, Description: description, Effects: effects}
	var schema *jsonschema.Schema
	tool.Err = guarded(func() (err error) {
		// Types refer to each other in the schema, since one may contain itself.
		reflector := jsonschema.Reflector{Anonymous: true, ExpandedStruct: named(reflect.TypeFor[In]())}
		schema = reflector.Reflect(new(In))
		schema.Version = ""
		tool.Schema, err = json.Marshal(schema)
		return err
	})
	if tool.Err != nil {
		tool.Err = fmt.Errorf("toolgate: the tool %s has no schema: %w", name, tool.Err)
		return tool
	}
	defaults, err := defaultsOf(schema)
	if err != nil {
		tool.Err = fmt.Errorf("toolgate: the tool %s has defaults that are no JSON: %w", name, err)
		return tool
	}
	tool.Run = func(ctx context.Context, call *Invocation) (ToolResult, error) {
		var input In
		for _, text := range []json.RawMessage{defaults, call.Input} {
			if err := json.Unmarshal(text, &input); err != nil {
				return ToolResult{}, fmt.Errorf("the input does not fit: %w", err)
			}
		}
		out, err := run(ctx, call, input)
		if result, ok := any(out).(ToolResult); ok {
			return result, err
		}
		text, _ := any(out).(string)
		return ToolResult{Output: text}, err
	}
	return tool
}

// named says whether a type has a name. One without has no definition that the schema could be expanded from: it is the schema.
func named(input reflect.Type) bool {
	for input.Kind() == reflect.Pointer {
		input = input.Elem()
	}
	return input.Name() != ""
}

// defaultsOf makes an object of the defaults of a schema's properties.
func defaultsOf(schema *jsonschema.Schema) (json.RawMessage, error) {
	defaults := map[string]any{}
	for property := schema.Properties.Oldest(); property != nil; property = property.Next() {
		if property.Value.Default != nil {
			defaults[property.Key] = property.Value.Default
		}
	}
	return json.Marshal(defaults)
}
