// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/version"
)

const (
	// leastKubernetes is what the chart asks for.
	leastKubernetes = "1.33.0"
	enforceLabel    = "pod-security.kubernetes.io/enforce"
)

func kubernetesVersion(f *Facts) []Result {
	if f.Kubernetes.Err != nil {
		return []Result{wrong("check the kubeconfig and the network", "the API server does not answer: %v", f.Kubernetes.Err)}
	}
	found, err := version.ParseGeneric(f.Kubernetes.Value)
	if err != nil {
		return []Result{warning("", "Kubernetes has the unknown version %q", f.Kubernetes.Value)}
	}
	if !found.AtLeast(version.MustParseGeneric(leastKubernetes)) {
		return []Result{wrong("upgrade Kubernetes", "Kubernetes %s is older than %s", f.Kubernetes.Value, leastKubernetes)}
	}
	return []Result{ok("Kubernetes %s", f.Kubernetes.Value)}
}

func kinds(f *Facts) []Result {
	if f.Served.Err != nil {
		return skipped("the kinds of the cluster", f.Served.Err)
	}
	var missing []string
	for _, kind := range f.Wanted {
		if !slices.Contains(f.Served.Value, kind) {
			missing = append(missing, kind)
		}
	}
	switch {
	case len(missing) == len(f.Wanted):
		return []Result{wrong(
			"install the operator: helm upgrade --install lighterage ...", "the cluster has no kind of Lighterage",
		)}
	case len(missing) > 0:
		return []Result{warning(
			"upgrade the operator, or use the plugin of its version", "the cluster lacks %s", strings.Join(missing, ", "),
		)}
	}
	return []Result{ok("all %d kinds are served", len(f.Wanted))}
}

func operatorVersion(f *Facts) []Result {
	if f.Deployments.Err != nil {
		return skipped("the Deployments of namespace "+f.OperatorNamespace, f.Deployments.Err)
	}
	var versions []string
	for i := range f.Deployments.Value {
		if d := &f.Deployments.Value[i]; d.Labels["app.kubernetes.io/name"] == "lighterage" {
			versions = append(versions, d.Labels["app.kubernetes.io/version"])
		}
	}
	slices.Sort(versions)
	versions = slices.Compact(versions)
	switch {
	case len(versions) == 0:
		return []Result{wrong(
			"install it, or give its namespace with --operator-namespace", "there is no operator in namespace %s",
			f.OperatorNamespace,
		)}
	case len(versions) > 1:
		return []Result{warning(
			"finish the upgrade", "manager and gateway have different versions: %s", strings.Join(versions, ", "),
		)}
	case versions[0] != "" && !strings.HasPrefix(strings.TrimPrefix(f.Client, "v"), strings.TrimPrefix(versions[0], "v")):
		return []Result{warning(
			"use the plugin of the operator's version", "operator %s, plugin %s", versions[0], f.Client,
		)}
	}
	return []Result{ok("operator %s, plugin %s", cmp.Or(versions[0], "of unknown version"), f.Client)}
}

func deployment(name string) func(*Facts) []Result {
	return func(f *Facts) []Result {
		if f.Deployments.Err != nil {
			return skipped("the Deployments of namespace "+f.OperatorNamespace, f.Deployments.Err)
		}
		i := slices.IndexFunc(f.Deployments.Value, func(d appsv1.Deployment) bool { return d.Name == name })
		if i < 0 {
			return []Result{wrong(
				"install it, or give its namespace with --operator-namespace", "there is no Deployment %s in namespace %s", name,
				f.OperatorNamespace,
			)}
		}
		d := &f.Deployments.Value[i]
		wanted := int32(1)
		if d.Spec.Replicas != nil {
			wanted = *d.Spec.Replicas
		}
		hint := "kubectl -n " + f.OperatorNamespace + " describe pods, and logs of deployment/" + name
		switch ready := d.Status.ReadyReplicas; {
		case wanted == 0:
			return []Result{wrong("scale the Deployment up", "%s is scaled to 0", name)}
		case ready == 0:
			return []Result{wrong(hint, "%s: none of %d pods is ready", name, wanted)}
		case ready < wanted:
			return []Result{warning(hint, "%s: %d of %d pods are ready", name, ready, wanted)}
		}
		return []Result{ok("%s: %d of %d pods are ready", name, d.Status.ReadyReplicas, wanted)}
	}
}

func podSecurity(f *Facts) []Result {
	if f.Namespace.Err != nil {
		return required("namespace "+f.OperatorNamespace, f.Namespace.Err)
	}
	switch level := f.Namespace.Value.Labels[enforceLabel]; level {
	case "restricted":
		return []Result{ok("namespace %s enforces restricted", f.OperatorNamespace)}
	case "":
		return []Result{warning(
			"kubectl label namespace "+f.OperatorNamespace+" "+enforceLabel+"=restricted",
			"namespace %s enforces no Pod Security level", f.OperatorNamespace,
		)}
	default:
		return []Result{warning(
			"the operator runs under restricted; a node agent with counters needs more", "namespace %s enforces %s",
			f.OperatorNamespace, level,
		)}
	}
}

func networkPolicies(f *Facts) []Result {
	if f.NetworkPolicies.Err != nil {
		return skipped("the NetworkPolicies of namespace "+f.OperatorNamespace, f.NetworkPolicies.Err)
	}
	var missing []string
	for _, name := range []string{"lighterage-manager", "lighterage-gateway"} {
		found := false
		for i := range f.NetworkPolicies.Value {
			found = found || f.NetworkPolicies.Value[i].Name == name
		}
		if !found {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return []Result{warning(
			"set networkPolicy.enabled of the chart", "namespace %s has no NetworkPolicy %s", f.OperatorNamespace,
			strings.Join(missing, ", "),
		)}
	}
	return []Result{ok("manager and gateway have NetworkPolicies")}
}
