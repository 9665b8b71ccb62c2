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
	"apps/v1/Deployment", "apps/v1/StatefulSet", "/v1/Pod", "/v1/Service", "/v1/ConfigMap", "/v1/ServiceAccount", "policy/v1/PodDisruptionBudget",
	"networking.k8s.io/v1/NetworkPolicy", "networking.k8s.io/v1/Ingress", "batch/v1/Job",
	"autoscaling/v2/HorizontalPodAutoscaler", "rbac.authorization.k8s.io/v1/Role", "rbac.authorization.k8s.io/v1/RoleBinding",
}

type object = map[string]any

// What folders of schemas of agent-sandbox begin with; its version follows.
const sandboxes = "agent-sandbox-"

// schemaSet are the schemas of one version of Kubernetes, with one of agent-sandbox.
type schemaSet struct {
	version    string
	kubernetes string
	apis       []string // what the cluster has beside what Kubernetes has, as Helm is told
	validator  validator.Validator
}

// openSchemas returns a set for each version of Kubernetes with each of agent-sandbox.
func openSchemas(folder string) ([]schemaSet, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	var versions, releases []string
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), "v") {
			versions = append(versions, entry.Name())
		}
		if strings.HasPrefix(entry.Name(), sandboxes) {
			releases = append(releases, entry.Name())
		}
	}
	var sets []schemaSet
	for _, version := range versions {
		for _, release := range releases {
			set, err := openSet(folder, version, release)
			if err != nil {
				return nil, err
			}
			sets = append(sets, set)
		}
	}
	few := len(versions) < 2 || len(releases) < 2
	return sets, when(few, fmt.Errorf("found %d and %d in %s", len(versions), len(releases), folder), nil)
}

func openSet(folder, version, release string) (schemaSet, error) {
	set := schemaSet{version: version + " with " + release, kubernetes: strings.TrimPrefix(version, "v")}
	var locations []string
	for _, part := range []string{version, "crds", release} {
		locations = append(locations, filepath.Join(folder, part, "{{.ResourceKind}}{{.KindSuffix}}.json"))
	}
	opened, err := validator.New(locations, validator.Opts{Strict: true, KubernetesVersion: set.kubernetes})
	set.validator = opened
	if err != nil {
		return set, err
	}
	templates, err := filepath.Glob(filepath.Join(folder, release, "sandboxtemplate-extensions-*.json"))
	for _, file := range templates {
		served := strings.TrimSuffix(file[strings.LastIndex(file, "-")+1:], ".json")
		set.apis = append(set.apis, "extensions.agents.x-k8s.io/"+served)
	}
	return set, when(len(templates) == 0, fmt.Errorf("%s has no template", release), err)
}

func (s schemaSet) validate(object manifest) error {
	result := s.validator.ValidateResource(resource.Resource{Path: object.String(), Bytes: object.text})
	if result.Status != validator.Valid {
		return errors.Join(result.Err, fmt.Errorf("it is not valid"))
	}
	return nil
}

// writeSchemas makes what kubeconform reads of what the modules of Kubernetes and of others have: OUT VERSION swagger.json,
// or OUT crds|agent-sandbox-VERSION CRD.yaml...
func writeSchemas(arguments []string) error {
	if len(arguments) < 3 {
		return errors.New("schemas OUT VERSION|crds|agent-sandbox-VERSION FILE...")
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
		if !strings.HasPrefix(arguments[1], "v") {
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
