// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package check judges an installation by facts that were gathered before. It is pure; the kubectl plugin gathers the
// facts and shows the results.
package check

import (
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// Level is how a check ended.
type Level string

// Levels.
const (
	OK      Level = "ok"
	Warning Level = "warning"
	Error   Level = "error"
	// Skipped: what the check needs could not be read; the message says why.
	Skipped Level = "skipped"
)

// Result is that of one check of one thing.
type Result struct {
	// Cluster is the context of the cluster; empty where one is checked, and of what joins two.
	Cluster  string `json:"cluster,omitempty"`
	Category string `json:"category"`
	Check    string `json:"check"`
	Result   Level  `json:"result"`
	Message  string `json:"message"`
	// Hint says what to do; empty when there is nothing to do.
	Hint string `json:"hint,omitempty"`
	// Docs is the page to read, below the root of the repository.
	Docs string `json:"docs,omitempty"`
}

// Fact is something that was read, or why it could not be.
type Fact[T any] struct {
	Value T
	// Err says why there is no value.
	Err error
}

// Facts are everything that checks look at.
type Facts struct {
	// Now is the time of this machine, and ServerTime that of the API server at the same moment, to the second.
	Now        time.Time
	ServerTime Fact[time.Time]
	// Client is the version of the plugin, Kubernetes that of the API server.
	Client     string
	Kubernetes Fact[string]
	// Wanted are the kinds that the plugin knows, Served those that the cluster has in the version of the plugin.
	Wanted []string
	Served Fact[[]string]
	// OperatorNamespace is the namespace of the operator, Namespace the object.
	OperatorNamespace string
	Namespace         Fact[corev1.Namespace]
	Deployments       Fact[[]appsv1.Deployment]
	DaemonSets        Fact[[]appsv1.DaemonSet]
	NetworkPolicies   Fact[[]networkingv1.NetworkPolicy]
	// CA is what the ConfigMap lighterage-ca holds.
	CA             Fact[[]byte]
	Nodes          Fact[[]corev1.Node]
	NodeProfiles   Fact[[]v1alpha1.NodeProfile]
	Peers          Fact[[]v1alpha1.Peer]
	ObjectStores   Fact[[]v1alpha1.ObjectStore]
	StorageClasses Fact[[]storagev1.StorageClass]
}

// check is one of the registry. It returns a result for each thing that it looked at; category, check and docs are
// filled in by Run.
type check struct {
	category, name, docs string
	run                  func(*Facts) []Result
}

// registry holds all checks in the order in which they are shown.
var registry = []check{
	{"Versions", "kubernetes", "docs/operations/install.md", kubernetesVersion},
	{"Versions", "kinds", "docs/operations/upgrade.md", kinds},
	{"Versions", "operator", "docs/operations/upgrade.md", operatorVersion},
	{"Operator", "manager", "docs/operations/troubleshooting.md", deployment("lighterage-manager")},
	{"Operator", "gateway", "docs/operations/troubleshooting.md", deployment("lighterage-gateway")},
	{"Operator", "pod-security", "docs/operations/install.md", podSecurity},
	{"Operator", "network-policies", "docs/operations/install.md", networkPolicies},
	{"Trust", "clock", "docs/operations/certificates.md", clock},
	{"Trust", "ca", "docs/operations/certificates.md", ca},
	{"Trust", "peers", "docs/how-to/connect-clusters.md", peers},
	{"Nodes", "node-agents", "docs/operations/troubleshooting.md", nodeAgents},
	{"Nodes", "engines", "docs/concepts/hardware.md", engines},
	{"Nodes", "accelerator", "docs/concepts/hardware.md", accelerators},
	{"Storage", "storage-classes", "docs/operations/install.md", storageClasses},
	{"Storage", "object-stores", "docs/how-to/object-store.md", objectStores},
}

// Run returns the results of all checks.
func Run(facts *Facts) []Result {
	var results []Result
	for _, c := range registry {
		for _, r := range c.run(facts) {
			r.Category, r.Check = c.category, c.name
			if r.Result != OK {
				r.Docs = c.docs
			}
			results = append(results, r)
		}
	}
	return results
}

// Count counts the results of a level.
func Count(results []Result, level Level) int {
	n := 0
	for _, r := range results {
		if r.Result == level {
			n++
		}
	}
	return n
}

func ok(format string, values ...any) Result {
	return Result{Result: OK, Message: fmt.Sprintf(format, values...)}
}

func warning(hint, format string, values ...any) Result {
	return Result{Result: Warning, Message: fmt.Sprintf(format, values...), Hint: hint}
}

func wrong(hint, format string, values ...any) Result {
	return Result{Result: Error, Message: fmt.Sprintf(format, values...), Hint: hint}
}

// skipped is of what could not be read.
func skipped(what string, err error) []Result {
	hint := "check the network, and repeat"
	switch {
	case apierrors.IsForbidden(err):
		hint = "repeat with a user who may read it"
	case apierrors.IsUnauthorized(err):
		hint = "log in again: the cluster rejects the credentials of the kubeconfig"
	case meta.IsNoMatchError(err), apierrors.IsNotFound(err):
		hint = "install or upgrade the operator: the cluster does not have this kind"
	}
	return []Result{{Result: Skipped, Message: fmt.Sprintf("%s cannot be read: %v", what, err), Hint: hint}}
}

// required is of an object that could not be read and that every installation has.
func required(what string, err error) []Result {
	if apierrors.IsNotFound(err) {
		return []Result{wrong(
			"check that the manager runs, and that --operator-namespace names its namespace", "there is no %s", what,
		)}
	}
	return skipped(what, err)
}
