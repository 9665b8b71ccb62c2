package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/yannh/kubeconform/pkg/resource"
	"github.com/yannh/kubeconform/pkg/validator"
	"sigs.k8s.io/yaml"
)

// kinds are those that the chart makes, as kubeconform names their files.
var kinds = []string{
	"apps/v1/StatefulSet", "/v1/Pod", "/v1/Service", "/v1/ConfigMap", "/v1/ServiceAccount", "policy/v1/PodDisruptionBudget",
	"networking.k8s.io/v1/NetworkPolicy", "networking.k8s.io/v1/Ingress",
}

type object = map[string]any

// schemaSet are the schemas of one version of Kubernetes.
type schemaSet struct {
	version   string
	validator validator.Validator
}

func openSchemas(folder string) ([]schemaSet, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	var sets []schemaSet
	for _, entry := range entries {
		version := entry.Name()
		if !strings.HasPrefix(version, "v") {
			continue
		}
		locations := []string{
			filepath.Join(folder, version, "{{.ResourceKind}}{{.KindSuffix}}.json"),
			filepath.Join(folder, "crds", "{{.ResourceKind}}{{.KindSuffix}}.json"),
		}
		options := validator.Opts{Strict: true, KubernetesVersion: strings.TrimPrefix(version, "v")}
		opened, err := validator.New(locations, options)
		if err != nil {
			return nil, err
		}
		sets = append(sets, schemaSet{version, opened})
	}
	return sets, when(len(sets) < 2, fmt.Errorf("found %d in %s", len(sets), folder), nil)
}

func (s schemaSet) validate(object manifest) error {
	result := s.validator.ValidateResource(resource.Resource{Path: object.String(), Bytes: object.text})
	if result.Status != validator.Valid {
		return errors.Join(result.Err, fmt.Errorf("it is not valid"))
	}
	return nil
}

// writeSchemas makes what kubeconform reads of what the modules of Kubernetes and of others have: OUT VERSION swagger.json,
// or OUT crds CRD.yaml...
func writeSchemas(arguments []string) error {
	if len(arguments) < 3 {
		return errors.New("schemas OUT VERSION|crds FILE...")
	}
	folder := filepath.Join(arguments[0], arguments[1])
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for _, file := range arguments[2:] {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if arguments[1] == "crds" {
			err = writeCRDs(folder, text)
		} else {
			err = writeKinds(folder, text)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	return nil
}

func writeSchema(folder, group, version, kind string, schema object) error {
	suffix := "-" + version
	if group != "" {
		suffix = "-" + strings.Split(group, ".")[0] + suffix
	}
	text, err := json.Marshal(schema)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, strings.ToLower(kind)+suffix+".json"), text, 0o644)
}

// writeKinds writes a schema for each kind, with the definitions that it needs.
func writeKinds(folder string, text []byte) error {
	var swagger struct {
		Definitions map[string]object `json:"definitions"`
	}
	if err := json.Unmarshal(text, &swagger); err != nil {
		return err
	}
	for name, definition := range swagger.Definitions {
		switch {
		case strings.HasSuffix(name, ".util.intstr.IntOrString"):
			definition["type"] = []string{"string", "integer"}
		case strings.HasSuffix(name, ".api.resource.Quantity"):
			definition["type"] = []string{"string", "number"}
		}
		seal(definition)
	}
	found := 0
	for name, definition := range swagger.Definitions {
		names, _ := definition["x-kubernetes-group-version-kind"].([]any)
		for _, entry := range names {
			of := entry.(object)
			group, version, kind := of["group"].(string), of["version"].(string), of["kind"].(string)
			if !slices.Contains(kinds, group+"/"+version+"/"+kind) {
				continue
			}
			needed := map[string]object{}
			collect(swagger.Definitions, name, needed)
			schema := object{"$ref": "#/definitions/" + name, "definitions": needed}
			if err := writeSchema(folder, group, version, kind, schema); err != nil {
				return err
			}
			found++
		}
	}
	return when(found != len(kinds), fmt.Errorf("found %d of %d kinds", found, len(kinds)), nil)
}

// collect adds a definition and all that it refers to.
func collect(definitions map[string]object, name string, needed map[string]object) {
	if _, known := needed[name]; known {
		return
	}
	needed[name] = definitions[name]
	var walk func(any)
	walk = func(value any) {
		switch value := value.(type) {
		case object:
			if reference, ok := value["$ref"].(string); ok {
				collect(definitions, strings.TrimPrefix(reference, "#/definitions/"), needed)
			}
			for _, inner := range value {
				walk(inner)
			}
		case []any:
			for _, inner := range value {
				walk(inner)
			}
		}
	}
	walk(definitions[name])
}

// writeCRDs writes a schema for each version of the kinds that a file defines.
func writeCRDs(folder string, text []byte) error {
	for _, document := range bytes.Split(text, []byte("\n---\n")) {
		var definition struct {
			Spec struct {
				Group    string
				Names    struct{ Kind string }
				Versions []struct {
					Name   string
					Schema struct {
						OpenAPIV3Schema object `json:"openAPIV3Schema"`
					}
				}
			}
		}
		if err := yaml.Unmarshal(document, &definition); err != nil && err != io.EOF {
			return err
		}
		for _, version := range definition.Spec.Versions {
			schema := version.Schema.OpenAPIV3Schema
			seal(schema)
			if err := writeSchema(folder, definition.Spec.Group, version.Name, definition.Spec.Names.Kind, schema); err != nil {
				return err
			}
		}
	}
	return nil
}

// seal lets an object have no other properties than those that are named, as the API server does when it is asked to be
// strict.
func seal(value any) {
	switch value := value.(type) {
	case object:
		_, named := value["properties"].(object)
		_, more := value["additionalProperties"]
		if open, _ := value["x-kubernetes-preserve-unknown-fields"].(bool); named && !more && !open {
			value["additionalProperties"] = false
		}
		for _, inner := range value {
			seal(inner)
		}
	case []any:
		for _, inner := range value {
			seal(inner)
		}
	}
}
