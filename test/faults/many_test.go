// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build faults

package faults_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/test/clusters"
)

// TestGatewayRestartWithManyRuns kills the gateway while 50 runs move data through it.
func TestGatewayRestartWithManyRuns(t *testing.T) {
	const runs, size = 50, 64 << 20
	ctx := context.Background()
	namespace := pair.Namespace(t, "faults-")
	for _, c := range []*clusters.Cluster{east, west} {
		crowd(t, c, namespace)
	}
	east.Claim(t, namespace, "source", "", "1Gi")
	west.Claim(t, namespace, "copy", "", "8Gi")
	east.Sh(t, namespace, "source", fmt.Sprintf("head -c %d /dev/urandom > /data/large", size))
	want, _, _ := strings.Cut(east.Sh(t, namespace, "source", "sha256sum /data/large"), " ")
	pair.Grant(t, namespace, "copy")
	// The slowest there is: the first one must not be through before the last one has begun.
	limit := resource.MustParse("256Ki")
	for i := range runs {
		transfer := clusters.NewTransfer(namespace, "run-"+strconv.Itoa(i))
		transfer.Spec.Destination.PersistentVolumeClaim.Path = "/" + transfer.Name
		transfer.Spec.BandwidthLimit = &limit
		transfer.Spec.Streams = 1
		transfer.Spec.CheckpointInterval = resource.NewQuantity(interval, resource.BinarySI)
		if err := east.Create(ctx, transfer); err != nil {
			t.Fatal(err)
		}
	}
	transfers := func() []v1alpha1.Transfer {
		var list v1alpha1.TransferList
		if err := east.List(ctx, &list, client.InNamespace(namespace)); err != nil {
			t.Fatal(err)
		}
		return list.Items
	}
	all := func(phase v1alpha1.TransferPhase) func() (bool, string) {
		return func() (bool, string) {
			phases := map[v1alpha1.TransferPhase]int{}
			for _, transfer := range transfers() {
				phases[transfer.Status.Phase]++
			}
			return phases[phase] == runs, fmt.Sprint(phases)
		}
	}
	clusters.Eventually(t, 2*patience, "all runs to move data", all(v1alpha1.TransferTransferring))
	for _, transfer := range transfers() {
		before := transfer.DeepCopy()
		transfer.Spec.BandwidthLimit = nil
		if err := east.Patch(ctx, &transfer, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
	}
	killComponent(t, west, "gateway")
	clusters.Eventually(t, 2*patience, "all runs to complete", all(v1alpha1.TransferComplete))

	var sums strings.Builder
	for i := range runs {
		fmt.Fprintf(&sums, "%s  run-%d/large\n", want, i)
	}
	got := west.Sh(
		t, namespace, "copy",
		fmt.Sprintf(
			"cd /data; for i in $(seq 0 %d); do sha256sum run-$i/large; done; ls -A run-* | grep -vE '^(run-.*:|large|)$' || "+
				"true",
			runs-1,
		),
	)
	if got != sums.String() {
		t.Errorf("the destination has\n%s\nwant\n%s", got, &sums)
	}
	attempts, again := 0, int64(0)
	for _, transfer := range transfers() {
		history := transfer.Status.History
		if len(history) < 2 {
			t.Errorf("%s was not hit: it took %d attempt", transfer.Name, len(history))
		}
		attempts += len(history)
		for _, h := range history {
			again += h.ResentBytes
			if h.ResentBytes > interval {
				t.Errorf("attempt %d of %s sent %d bytes again, on one connection", h.Attempt, transfer.Name, h.ResentBytes)
			}
		}
	}
	t.Logf("%d runs took %d attempts, %d bytes were sent again", runs, attempts, again)
}

// crowd lets more agents start in a namespace than the processors of its cluster's nodes are enough for: each asks for
// next to nothing.
func crowd(t *testing.T, c *clusters.Cluster, namespace string) {
	t.Helper()
	ctx := context.Background()
	equivalent, fail := admissionv1.Equivalent, admissionv1.Fail
	policy := &admissionv1.MutatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Spec: admissionv1.MutatingAdmissionPolicySpec{
			FailurePolicy:      &fail,
			ReinvocationPolicy: admissionv1.NeverReinvocationPolicy,
			MatchConstraints: &admissionv1.MatchResources{
				MatchPolicy:       &equivalent,
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}},
				ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Create},
					Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
				}}},
			},
			MatchConditions: []admissionv1.MatchCondition{{
				Name:       "asks-for-cpu",
				Expression: `object.spec.containers.all(c, has(c.resources.requests) && "cpu" in c.resources.requests)`,
			}},
			Mutations: []admissionv1.Mutation{{
				PatchType: admissionv1.PatchTypeJSONPatch,
				JSONPatch: &admissionv1.JSONPatch{
					Expression: `[JSONPatch{op: "replace", path: "/spec/containers/0/resources/requests/cpu", value: "1m"}]`,
				},
			}},
		},
	}
	binding := &admissionv1.MutatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Spec:       admissionv1.MutatingAdmissionPolicyBindingSpec{PolicyName: namespace},
	}
	for _, object := range []client.Object{policy, binding} {
		if err := c.Create(ctx, object); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Delete(ctx, object) })
	}
	// It takes the API server a moment to act on it.
	clusters.Eventually(t, patience, "pods in "+c.Name+" to ask for next to nothing", func() (bool, string) {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "probe"},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{
				Name: "probe", Image: c.Busybox(),
				Resources: corev1.ResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")},
				},
			}}},
		}
		yes, no := true, false
		pod.Spec.SecurityContext = &corev1.PodSecurityContext{
			RunAsNonRoot: &yes, SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		}
		pod.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{
			AllowPrivilegeEscalation: &no, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		}
		if err := c.Create(ctx, pod, client.DryRunAll); err != nil {
			return false, err.Error()
		}
		asks := pod.Spec.Containers[0].Resources.Requests.Cpu()
		return asks.Cmp(resource.MustParse("1m")) == 0, "they ask for " + asks.String()
	})
}
