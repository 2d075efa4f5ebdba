// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package index

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

func ready(conditions []metav1.Condition) bool {
	return meta.IsStatusConditionTrue(conditions, v1alpha1.ConditionReady)
}

func inForce(policy *v1alpha1.PolicyStatus) []string {
	if policy == nil || policy.Name == "" {
		return nil
	}
	return []string{InForce(policy.IsLocal(), policy.Name)}
}

// InForce is the value of PolicyInForce for a policy. Those of a LocalCompressionPolicy are in its namespace.
func InForce(local bool, name string) string {
	if local {
		return "local/" + name // no name of a CompressionPolicy has a slash
	}
	return name
}

// policies are the values of Policy of an object that names one, with what status has. One without a status may wait for
// the prices of the default policy.
func policies(name string, status *v1alpha1.PolicyStatus) []string {
	if name != "" && (status == nil || status.IsLocal()) {
		return []string{name, ""}
	}
	return []string{name}
}

// PolicyNames are the values of Policy that a change of a policy concerns: its name, and the empty one if it is a
// CompressionPolicy that is annotated as a default. Of a change both what was and what is are asked about.
func PolicyNames(policy client.Object) []string {
	names := []string{policy.GetName()}
	if policy.GetNamespace() == "" && policy.GetAnnotations()[v1alpha1.DefaultPolicyAnnotation] == "true" {
		names = append(names, "")
	}
	return names
}

func archiveClaims(q *v1alpha1.Queue) (claims []string) {
	if q.Spec.Archive != nil && q.Spec.Archive.PersistentVolumeClaim.ClaimName != "" {
		claims = append(claims, q.Spec.Archive.PersistentVolumeClaim.ClaimName)
	}
	if q.Spec.Restore != nil && q.Spec.Restore.PersistentVolumeClaim.ClaimName != "" {
		claims = append(claims, q.Spec.Restore.PersistentVolumeClaim.ClaimName)
	}
	return claims
}

func owners(labels map[string]string) (uids []string) {
	for _, label := range []string{
		v1alpha1.TransferLabel, v1alpha1.DeliveryLabel, v1alpha1.TrialLabel, v1alpha1.QueueLabel, v1alpha1.HTTPEndpointLabel,
		v1alpha1.ObjectStoreLabel,
	} {
		if labels[label] != "" {
			uids = append(uids, labels[label])
		}
	}
	return uids
}

// NodeOf is the node that a pod is on, or that its DaemonSet has made it for; empty if neither is known.
func NodeOf(pod *corev1.Pod) string {
	if pod.Spec.NodeName != "" {
		return pod.Spec.NodeName
	}
	affinity := pod.Spec.Affinity
	if affinity == nil || affinity.NodeAffinity == nil ||
		affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return ""
	}
	for _, term := range affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		for _, field := range term.MatchFields {
			if field.Key == metav1.ObjectNameField && field.Operator == corev1.NodeSelectorOpIn && len(field.Values) == 1 {
				return field.Values[0]
			}
		}
	}
	return ""
}
