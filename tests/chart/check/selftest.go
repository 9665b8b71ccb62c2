package main

import (
	"errors"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// checkChecks spoils what is right, and wants it to be noticed.
func (at paths) checkChecks(report *report, schemas []schemaSet) {
	manifests, _, err := at.render(filepath.Join(at.tests, "values", "tokens.yaml"))
	report.check("there is something to spoil", err)
	notices := func(name string, err error) {
		report.check(name+" is noticed", when(err == nil, errors.New("nothing was said"), nil))
	}
	for _, object := range manifests {
		if object.Kind != "StatefulSet" {
			continue
		}
		for _, set := range schemas {
			for before, after := range map[string]string{
				"enableServiceLinks: false":  "enableServiceLink: false",
				"defaultMode: 0440":          "defaultMode: owner",
				"name: toolgate-headless":    "nam: toolgate-headless",
				"serviceName: ":              "serviceNames: ",
				"terminationGracePeriodSeco": "terminationGrace",
			} {
				spoilt := object
				text := strings.Replace(string(object.text), before, after, 1)
				spoilt.text = []byte(text)
				if text != string(object.text) {
					notices(after+" in "+set.version, set.validate(spoilt))
				}
			}
		}
		for name, spoil := range map[string]func(*corev1.PodTemplateSpec){
			"a privileged container": func(pod *corev1.PodTemplateSpec) {
				*pod.Spec.Containers[0].SecurityContext.AllowPrivilegeEscalation = true
			},
			"a folder of the node": func(pod *corev1.PodTemplateSpec) {
				pod.Spec.Volumes[0].VolumeSource = corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}
			},
			"root": func(pod *corev1.PodTemplateSpec) {
				pod.Spec.Containers[0].SecurityContext.RunAsUser = new(int64)
			},
			"a capability": func(pod *corev1.PodTemplateSpec) {
				pod.Spec.Containers[0].SecurityContext.Capabilities.Add = []corev1.Capability{"SYS_ADMIN"}
			},
			"no seccomp": func(pod *corev1.PodTemplateSpec) { pod.Spec.SecurityContext.SeccompProfile = nil },
		} {
			pod, err := podOf(object)
			report.check("the pod can be read", err)
			spoil(pod)
			notices(name, restricted(pod))
		}
		pod, _ := podOf(object)
		pod.Spec.Volumes[0].VolumeSource = corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}}},
		}}
		notices("a token for the API server", closed(pod))
		pod, _ = podOf(object)
		*pod.Spec.Containers[0].SecurityContext.ReadOnlyRootFilesystem = false
		notices("a root file system that can be written", closed(pod))
	}
	for _, set := range schemas {
		manifests, err := at.renderFor(set, filepath.Join(at.tests, "values", "cluster-sandbox.yaml"))
		report.check("there are sandboxes to spoil", err)
		for _, object := range manifests {
			for _, spoil := range [][]string{
				{"SandboxTemplate", "networkPolicyManagement: Unmanaged", "networkPolicyManagement: Nobody"},
				{"SandboxTemplate", "volumeClaimTemplates:", "volumeClaims:"},
				{"SandboxTemplate", "enableServiceLinks: false", "enableServiceLinks: perhaps"},
				{"SandboxWarmPool", "replicas: 2", "replicas: -1"},
				{"SandboxWarmPool", "type: Recreate", "type: Always"},
				{"Deployment", "minReadySeconds:", "minimumReadySeconds:"},
				{"Role", "verbs:", "verb:"},
				{"Job", "backoffLimit: 5", "backoffLimits: 5"},
			} {
				if object.Kind == spoil[0] {
					spoilt := object
					spoilt.text = []byte(strings.Replace(string(object.text), spoil[1], spoil[2], 1))
					notices(spoil[2]+" of a "+object.Kind+" in "+set.version, set.validate(spoilt))
				}
			}
		}
	}
	metrics, err := at.metrics()
	report.check("the metrics can be read again", err)
	for _, query := range []string{"toolgate_call", "toolgate_calls_running{tol=\"a\"}", "sum by (tol) (toolgate_calls_running)", "rate("} {
		notices(query, checkQuery(query, metrics))
	}
	book := "**It means** that. **Users notice** it. **Look at** `toolgate calls --state running`. **Do** what `toolgate_calls_running` says."
	report.check("a runbook that is right", at.checkRunbook(book, metrics))
	for before, after := range map[string]string{
		"**Users notice** it.": "", "toolgate calls": "toolgate prompts", "--state": "--status", "calls_running": "calls_run",
	} {
		notices(after+" in a runbook", at.checkRunbook(strings.Replace(book, before, after, 1), metrics))
	}
	notices("a variable of nothing", checkVariable("label_values(toolgate_call, pod)", metrics))
	spoilt := manifest{Data: map[string]string{"toolgate.toml": "[limits]\nmax_runing_calls = 1\n", "opencode.json": "{}"}}
	notices("a key that the program does not know", at.understood(spoilt, [][]string{nil}))
}
