module toolgate.dev/chart-check

go 1.26.0

tool (
	github.com/helm-unittest/helm-unittest/cmd/helm-unittest
	github.com/norwoodj/helm-docs/cmd/helm-docs
	helm.sh/helm/v3/cmd/helm
)

require (
	github.com/helm-unittest/helm-unittest v1.1.2
	github.com/norwoodj/helm-docs v1.14.2
	github.com/prometheus/prometheus v0.313.5
	github.com/yannh/kubeconform v0.8.0
	helm.sh/helm/v3 v3.22.0
	k8s.io/api v0.37.0
	k8s.io/apimachinery v0.37.0
	k8s.io/pod-security-admission v0.37.0
	sigs.k8s.io/yaml v1.6.0
)

// As helm-unittest itself has it: a replacement holds in the main module only.
replace github.com/vmware-labs/yaml-jsonpath v0.3.2 => github.com/helm-unittest/yaml-jsonpath v0.4.0
