// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

const (
	nodeAgent              = "lighterage-node-agent"
	defaultClassAnnotation = "storageclass.kubernetes.io/is-default-class"
)

func nodeAgents(f *Facts) []Result {
	if f.DaemonSets.Err != nil {
		return skipped("the DaemonSets of namespace "+f.OperatorNamespace, f.DaemonSets.Err)
	}
	i := slices.IndexFunc(f.DaemonSets.Value, func(d appsv1.DaemonSet) bool { return d.Name == nodeAgent })
	if i < 0 {
		return []Result{warning(
			"set nodeAgent.enabled of the chart", "there is no DaemonSet %s, so nodes are not measured", nodeAgent,
		)}
	}
	status := f.DaemonSets.Value[i].Status
	if status.NumberReady < status.DesiredNumberScheduled {
		return []Result{warning(
			"kubectl -n "+f.OperatorNamespace+" describe daemonset "+nodeAgent, "%d of %d node agents are ready",
			status.NumberReady, status.DesiredNumberScheduled,
		)}
	}
	results := []Result{ok("%d node agents are ready", status.NumberReady)}
	if f.NodeProfiles.Err != nil || f.Nodes.Err != nil {
		return results
	}
	var without []string
	for j := range f.Nodes.Value {
		name := f.Nodes.Value[j].Name
		if !slices.ContainsFunc(f.NodeProfiles.Value, func(p v1alpha1.NodeProfile) bool { return p.Name == name }) {
			without = append(without, name)
		}
	}
	if len(without) > 0 {
		results = append(results, warning(
			"node agents measure Linux nodes that their tolerations and nodeSelector admit", "without a NodeProfile: %s",
			names(without),
		))
	}
	return results
}

// maxNames bounds how many names a message has.
const maxNames = 5

func names(all []string) string {
	if more := len(all) - maxNames; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(all[:maxNames], ", "), more)
	}
	return strings.Join(all, ", ")
}

func engines(f *Facts) []Result {
	if f.NodeProfiles.Err != nil {
		return skipped("NodeProfiles", f.NodeProfiles.Err)
	}
	var results []Result
	for i := range f.NodeProfiles.Value {
		p := &f.NodeProfiles.Value[i]
		hint := "kubectl describe nodeprofile " + p.Name
		if c := unready(p.Status.Conditions); c != "" {
			results = append(results, warning(hint, "node %s: %s", p.Name, c))
			continue
		}
		var verified, not []string
		for _, e := range p.Status.Engines {
			if e.Verified {
				verified = append(verified, e.Name)
			} else {
				not = append(not, e.Name)
			}
		}
		switch {
		case len(verified) == 0:
			results = append(results, wrong(hint, "node %s: no engine is verified", p.Name))
		case len(not) > 0:
			results = append(results, warning(hint, "node %s: not verified: %s", p.Name, strings.Join(not, ", ")))
		default:
			results = append(results, ok("node %s: %s", p.Name, strings.Join(verified, ", ")))
		}
	}
	return results
}

// unready is the reason and message of a condition Ready that is not True; empty if it is.
func unready(conditions []metav1.Condition) string {
	c := meta.FindStatusCondition(conditions, v1alpha1.ConditionReady)
	switch {
	case c == nil:
		return "the manager has not looked at it"
	case c.Status == metav1.ConditionTrue:
		return ""
	}
	return c.Reason + ": " + c.Message
}

func accelerators(f *Facts) []Result {
	if f.NodeProfiles.Err != nil {
		return skipped("NodeProfiles", f.NodeProfiles.Err)
	}
	var results []Result
	absent := 0
	for i := range f.NodeProfiles.Value {
		p := &f.NodeProfiles.Value[i]
		a := p.Status.Accelerator
		switch {
		case a == nil || a.State == v1alpha1.AcceleratorAbsent:
			absent++
		case a.State == v1alpha1.AcceleratorVerified && a.SlowerThanSoftware:
			results = append(results, warning(
				"prefer software by the CompressionPolicy", "node %s: the accelerator is slower than software", p.Name,
			))
		case a.State == v1alpha1.AcceleratorVerified:
			results = append(results, ok("node %s: use of the accelerator is proved", p.Name))
		default:
			results = append(results, warning(
				"kubectl describe nodeprofile "+p.Name, "node %s: the accelerator is not used: %s: %s", p.Name, a.Reason, a.Message,
			))
		}
	}
	if absent > 0 {
		results = append(results, ok("%d nodes have no accelerator and compress in software", absent))
	}
	return results
}

func storageClasses(f *Facts) []Result {
	if f.StorageClasses.Err != nil {
		return skipped("StorageClasses", f.StorageClasses.Err)
	}
	var standard []string
	for i := range f.StorageClasses.Value {
		if f.StorageClasses.Value[i].Annotations[defaultClassAnnotation] == "true" {
			standard = append(standard, f.StorageClasses.Value[i].Name)
		}
	}
	switch len(standard) {
	case 0:
		return []Result{warning(
			"name a class in spec.storage.storageClassName of Queues, or annotate one with "+defaultClassAnnotation+"=true",
			"none of %d StorageClasses is the default", len(f.StorageClasses.Value),
		)}
	case 1:
		return []Result{ok("StorageClass %s is the default", standard[0])}
	}
	return []Result{warning(
		"keep the annotation "+defaultClassAnnotation+" on one of them", "%d StorageClasses are the default: %s",
		len(standard), names(standard),
	)}
}

func objectStores(f *Facts) []Result {
	if f.ObjectStores.Err != nil {
		return skipped("ObjectStores", f.ObjectStores.Err)
	}
	var results []Result
	for i := range f.ObjectStores.Value {
		s := &f.ObjectStores.Value[i]
		name := s.Namespace + "/" + s.Name
		fix := "kubectl -n " + s.Namespace + " describe objectstore " + s.Name
		c := unready(s.Status.Conditions)
		relay := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionHandOffReady)
		switch {
		case c != "":
			results = append(results, wrong(fix, "ObjectStore %s: %s", name, c))
		case relay != nil && relay.Status != metav1.ConditionTrue:
			results = append(results, wrong(
				fix, "Transfers through ObjectStore %s do not arrive: %s: %s", name, relay.Reason, relay.Message,
			))
		default:
			results = append(results, ok("ObjectStore %s is ready", name))
		}
	}
	return results
}
