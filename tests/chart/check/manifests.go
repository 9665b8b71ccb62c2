package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/yaml"
)

// A template of agent-sandbox, as far as its pods go.
type sandboxTemplate struct {
	Spec struct {
		PodTemplate struct {
			Metadata metav1.ObjectMeta `json:"metadata"`
			Spec     corev1.PodSpec    `json:"spec"`
		} `json:"podTemplate"`
	} `json:"spec"`
}

// manifest is one rendered object.
type manifest struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Data              map[string]string `json:"data"`
	text              []byte
}

func (m manifest) String() string { return m.Kind + "/" + m.Name }

// render returns the objects that a value file makes; what Helm says when it refuses is the error's text.
func (at paths) render(values ...string) ([]manifest, []byte, error) {
	arguments := []string{"template", "tg", at.chart, "--namespace", "agents"}
	for _, file := range values {
		arguments = append(arguments, "--values", file)
	}
	return objects(exec.Command(at.helm, arguments...))
}

// renderFor does so for a cluster of certain versions.
func (at paths) renderFor(set schemaSet, values string) ([]manifest, error) {
	arguments := []string{"template", "tg", at.chart, "--namespace", "agents", "--kube-version", set.kubernetes, "--values", values}
	for _, api := range set.apis {
		arguments = append(arguments, "--api-versions", api)
	}
	manifests, _, err := objects(exec.Command(at.helm, arguments...))
	return manifests, err
}

// objects runs Helm and reads what it prints.
func objects(command *exec.Cmd) ([]manifest, []byte, error) {
	var said bytes.Buffer
	command.Stderr = &said
	text, err := command.Output()
	if err != nil {
		return nil, nil, errors.New(said.String())
	}
	var manifests []manifest
	for _, document := range bytes.Split(text, []byte("\n---\n")) {
		document = bytes.TrimPrefix(document, []byte("---\n"))
		var object manifest
		if err := yaml.UnmarshalStrict(document, &map[string]any{}); err != nil {
			return nil, nil, fmt.Errorf("%w in:\n%s", err, document)
		}
		if err := yaml.Unmarshal(document, &object); err != nil {
			return nil, nil, fmt.Errorf("%w in:\n%s", err, document)
		}
		if object.Kind != "" {
			object.text = document
			manifests = append(manifests, object)
		}
	}
	return manifests, text, nil
}

// checkValues renders a value file and looks at everything that comes of it.
func (at paths) checkValues(report *report, file string, schemas []schemaSet) {
	name := strings.TrimSuffix(filepath.Base(file), ".yaml")
	manifests, text, err := at.render(file)
	report.check(name+" is rendered", when(len(manifests) == 0, errors.New("nothing came of it"), err))
	if err != nil {
		return
	}
	if at.out != "" {
		report.check(name+" is left for reading", os.WriteFile(filepath.Join(at.out, name+".yaml"), text, 0o644))
	}
	var names []string
	for _, object := range manifests {
		names = append(names, object.String())
		if pod, err := podOf(object); pod != nil || err != nil {
			report.check(fmt.Sprintf("%s: the pod of %s can be read", name, object), err)
			if err == nil {
				report.check(fmt.Sprintf("%s: the pod of %s is restricted", name, object), restricted(pod))
				report.check(fmt.Sprintf("%s: the pod of %s is closed", name, object), closed(pod))
			}
		}
		if object.Kind == "ConfigMap" && object.Data["toolgate.toml"] != "" {
			taken := at.understood(object, environments(manifests, object.Name))
			report.check(fmt.Sprintf("%s: %s is a configuration that the program takes", name, object), taken)
		}
	}
	for _, set := range schemas {
		manifests, err := at.renderFor(set, file)
		report.check(fmt.Sprintf("%s is rendered for Kubernetes %s", name, set.version), err)
		for _, object := range manifests {
			report.check(fmt.Sprintf("%s: %s is of Kubernetes %s", name, object, set.version), set.validate(object))
		}
	}
	fmt.Printf("%-20s %s\n", name, strings.Join(names, " "))
}

func podOf(object manifest) (*corev1.PodTemplateSpec, error) {
	switch object.Kind {
	case "StatefulSet":
		var set appsv1.StatefulSet
		err := yaml.UnmarshalStrict(object.text, &set)
		return &set.Spec.Template, err
	case "Deployment":
		var deployment appsv1.Deployment
		err := yaml.UnmarshalStrict(object.text, &deployment)
		return &deployment.Spec.Template, err
	case "Job":
		var job batchv1.Job
		err := yaml.UnmarshalStrict(object.text, &job)
		return &job.Spec.Template, err
	case "SandboxTemplate":
		var template sandboxTemplate
		err := yaml.Unmarshal(object.text, &template)
		pod := template.Spec.PodTemplate
		return &corev1.PodTemplateSpec{ObjectMeta: pod.Metadata, Spec: pod.Spec}, err
	case "Pod":
		var pod corev1.Pod
		err := yaml.UnmarshalStrict(object.text, &pod)
		return &corev1.PodTemplateSpec{ObjectMeta: pod.ObjectMeta, Spec: pod.Spec}, err
	default:
		return nil, nil
	}
}

// restricted holds a pod to the restricted standard, as the API server's own admission does, of today and of 1.30.
func restricted(pod *corev1.PodTemplateSpec) error {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		return err
	}
	for _, version := range []api.Version{api.LatestVersion(), api.MajorMinorVersion(1, 30)} {
		level := api.LevelVersion{Level: api.LevelRestricted, Version: version}
		for _, result := range evaluator.EvaluatePod(level, &pod.ObjectMeta, &pod.Spec) {
			if !result.Allowed {
				return fmt.Errorf("%s: %s", result.ForbiddenReason, result.ForbiddenDetail)
			}
		}
	}
	return nil
}

// closed holds a pod to what the standard leaves open.
func closed(pod *corev1.PodTemplateSpec) error {
	spec := pod.Spec
	var problems []error
	problem := func(wrong bool, format string, arguments ...any) {
		if wrong {
			problems = append(problems, fmt.Errorf(format, arguments...))
		}
	}
	problem(spec.AutomountServiceAccountToken == nil || *spec.AutomountServiceAccountToken, "a service-account token")
	problem(spec.EnableServiceLinks == nil || *spec.EnableServiceLinks, "variables of services")
	problem(spec.HostNetwork || spec.HostPID || spec.HostIPC, "namespaces of the node")
	isGateway := pod.Labels["app.kubernetes.io/component"] == "gateway"
	for _, volume := range spec.Volumes {
		if volume.Projected == nil {
			continue
		}
		for _, source := range volume.Projected.Sources {
			// One without an audience is for the API server.
			token := source.ServiceAccountToken
			problem(token != nil && token.Audience == "" && !isGateway, "a token for the API server, in %s", volume.Name)
		}
	}
	for _, container := range append(append([]corev1.Container{}, spec.InitContainers...), spec.Containers...) {
		context := container.SecurityContext
		readOnly := context != nil && context.ReadOnlyRootFilesystem != nil && *context.ReadOnlyRootFilesystem
		problem(!readOnly, "%s can write its root file system", container.Name)
		_, limited := container.Resources.Limits[corev1.ResourceMemory]
		problem(!limited && container.Name != "agent", "%s has no memory limit", container.Name)
		for _, mount := range container.VolumeMounts {
			known := false
			for _, volume := range spec.Volumes {
				known = known || volume.Name == mount.Name
			}
			claimed := strings.HasPrefix(mount.Name, "workspace-") || mount.Name == "toolgate-state"
			problem(!known && !claimed, "%s mounts %s, which is not there", container.Name, mount.Name)
			secret := strings.HasPrefix(mount.MountPath, "/etc/")
			problem(secret && !mount.ReadOnly, "%s can write %s", container.Name, mount.MountPath)
		}
		isService := container.Name == "toolgate"
		problem(isService && (container.ReadinessProbe == nil || container.LivenessProbe == nil || container.StartupProbe == nil), "no probes")
	}
	return errors.Join(problems...)
}
