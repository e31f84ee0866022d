package deploy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	budget "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	security "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// cluster is what is applied, one of each kind.
type cluster struct {
	Namespace           core.Namespace
	ServiceAccount      core.ServiceAccount
	Deployment          apps.Deployment
	Service             core.Service
	PodDisruptionBudget budget.PodDisruptionBudget
	NetworkPolicy       networking.NetworkPolicy
	ServiceMonitor      monitoring.ServiceMonitor
}

// load builds the manifests as "kubectl apply -k" does, with the component for monitoring, and
// reads them as the API server does under strict validation.
func load(t *testing.T) (c cluster) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "kubernetes")
	if err := os.CopyFS(dir, os.DirFS("../../deploy/kubernetes")); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "kustomization.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	with := strings.Replace(string(text), "components: []", "components: [monitoring]", 1)
	if err := os.WriteFile(file, []byte(with), 0o600); err != nil {
		t.Fatal(err)
	}
	all, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		t.Fatal(err)
	}
	into := map[string]any{
		"Namespace": &c.Namespace, "ServiceAccount": &c.ServiceAccount, "Deployment": &c.Deployment, "Service": &c.Service,
		"PodDisruptionBudget": &c.PodDisruptionBudget, "NetworkPolicy": &c.NetworkPolicy, "ServiceMonitor": &c.ServiceMonitor,
	}
	for _, r := range all.Resources() {
		kind := r.GetKind()
		if into[kind] == nil {
			t.Fatalf("a %s, or a second one, of which the tests know nothing", kind)
		}
		if err := yaml.UnmarshalStrict([]byte(r.MustYaml()), into[kind]); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		if kind != "Namespace" && r.GetNamespace() != "windsock" {
			t.Errorf("%s is in the namespace %q", kind, r.GetNamespace())
		}
		delete(into, kind)
	}
	for kind := range into {
		t.Errorf("there is no %s", kind)
	}
	return c
}

func TestManifestsFitTogether(t *testing.T) {
	c := load(t)
	pod := c.Deployment.Spec.Template
	selectors := map[string]*meta.LabelSelector{
		"Deployment": c.Deployment.Spec.Selector, "PodDisruptionBudget": c.PodDisruptionBudget.Spec.Selector,
		"NetworkPolicy": &c.NetworkPolicy.Spec.PodSelector, "Service": {MatchLabels: c.Service.Spec.Selector},
	}
	for _, s := range pod.Spec.TopologySpreadConstraints {
		selectors["spread over "+s.TopologyKey] = s.LabelSelector
	}
	for what, selector := range selectors {
		selects(t, what, selector, pod.Labels)
	}
	selects(t, "ServiceMonitor", &c.ServiceMonitor.Spec.Selector, c.Service.Labels)

	if pod.Spec.ServiceAccountName != c.ServiceAccount.Name {
		t.Errorf("the pods are of %q, not of the ServiceAccount %q", pod.Spec.ServiceAccountName, c.ServiceAccount.Name)
	}
	ports := map[string]bool{}
	for _, p := range pod.Spec.Containers[0].Ports {
		ports[p.Name] = true
	}
	w := pod.Spec.Containers[0]
	named := map[string]intstr.IntOrString{
		"Service": c.Service.Spec.Ports[0].TargetPort, "NetworkPolicy": *c.NetworkPolicy.Spec.Ingress[0].Ports[0].Port,
		"startupProbe": w.StartupProbe.HTTPGet.Port, "livenessProbe": w.LivenessProbe.HTTPGet.Port, "readinessProbe": w.ReadinessProbe.HTTPGet.Port,
	}
	for what, port := range named {
		if !ports[port.StrVal] {
			t.Errorf("%s: the container has no port %s", what, port.String())
		}
	}
	if got := c.ServiceMonitor.Spec.Endpoints[0].Port; got != c.Service.Spec.Ports[0].Name {
		t.Errorf("ServiceMonitor: the Service has no port %q", got)
	}
	if replicas, left := *c.Deployment.Spec.Replicas, c.PodDisruptionBudget.Spec.MaxUnavailable.IntVal; replicas <= left {
		t.Errorf("of %d replicas %d may be evicted at once", replicas, left)
	}
}

func selects(t *testing.T, what string, s *meta.LabelSelector, of map[string]string) {
	t.Helper()
	selector, err := meta.LabelSelectorAsSelector(s)
	if err != nil || selector.Empty() || !selector.Matches(labels.Set(of)) {
		t.Errorf("%s selects %v (%v), which is not %v", what, selector, err, of)
	}
}

// The namespace enforces a profile, by which the pods must be admitted.
func TestPodsAreAdmitted(t *testing.T) {
	c := load(t)
	level := c.Namespace.Labels[security.EnforceLevelLabel]
	if level != string(security.LevelRestricted) {
		t.Fatalf("the namespace enforces %q, want %s", level, security.LevelRestricted)
	}
	judge, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	pod := c.Deployment.Spec.Template
	for _, r := range judge.EvaluatePod(security.LevelVersion{Level: security.LevelRestricted, Version: security.LatestVersion()}, &pod.ObjectMeta, &pod.Spec) {
		if !r.Allowed {
			t.Errorf("%s: %s", r.ForbiddenReason, r.ForbiddenDetail)
		}
	}
	w := pod.Spec.Containers[0]
	if !*w.SecurityContext.ReadOnlyRootFilesystem {
		t.Error("the container may write where it should not")
	}
	if *c.ServiceAccount.AutomountServiceAccountToken || *pod.Spec.AutomountServiceAccountToken {
		t.Error("the pods have a token for Kubernetes, which they do not need")
	}
	for _, e := range w.Env {
		if e.Name == "WINDSOCK_DB" && (e.ValueFrom == nil || e.ValueFrom.SecretKeyRef == nil) {
			t.Error("the URL of the database, which has a password, is not of a secret")
		}
	}
}
