package toolgategenkit

import (
	"github.com/firebase/genkit/go/ai"
	"github.com/firebase/genkit/go/core/api"
)

// tool shows its schema to models without holding them to it: Genkit ends the whole generation if an input does not fit,
// while the service answers the model, which corrects itself.
//
// Invariant: the service alone judges inputs.
type tool struct {
	*ai.ToolDef[any, *ai.MultipartToolResponse]
	schema map[string]any
}

// Definition returns what models are told of the tool.
func (t *tool) Definition() *ai.ToolDefinition {
	definition := t.ToolDef.Definition()
	definition.InputSchema = t.schema
	return definition
}

// Register registers the tool, with its schema in the description only.
func (t *tool) Register(registry api.Registry) { t.ToolDef.Register(describing{registry, t.schema}) }

// describing is a registry that gives what is registered through it a schema.
type describing struct {
	api.Registry
	schema map[string]any
}

// RegisterAction registers the action under its description.
func (r describing) RegisterAction(key string, action api.Action) {
	r.Registry.RegisterAction(key, described{action, r.schema})
}

// described is an action whose description has a schema that its input is not checked against.
type described struct {
	api.Action
	schema map[string]any
}

// Desc returns the description of the action.
func (d described) Desc() api.ActionDesc {
	description := d.Action.Desc()
	description.InputSchema = d.schema
	return description
}
