// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/api/v1alpha1"
)

// newLocalTransfer is from claim "source" to claim "copy" of the same cluster.
func newLocalTransfer(namespace, name string) *v1alpha1.Transfer {
	transfer := newTransfer(namespace, name)
	transfer.Spec.Destination.Peer = ""
	return transfer
}

// noAgents waits until a namespace of east has no Jobs and pods of agents: status has all that those of a complete run
// can tell.
func noAgents(t *testing.T, namespace string) {
	t.Helper()
	eventually(t, 2*time.Minute, "the agents' Jobs and pods to be gone", func() (bool, string) {
		for _, list := range []client.ObjectList{&batchv1.JobList{}, &corev1.PodList{}} {
			err := east.List(
				context.Background(), list, client.InNamespace(namespace),
				client.MatchingLabels{"app.kubernetes.io/name": "lighterage-agent"},
			)
			if n := itemCount(list); err != nil || n > 0 {
				return false, fmt.Sprintf("%d in a %T, %v", n, list, err)
			}
		}
		return true, ""
	})
}

// Two claims that one node can mount: one pod, and no network.
func TestWithinANamespace(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	namespace := newNamespace(t)
	east.claim(t, namespace, "source", "", "100Mi")
	node := nodeOf(t, namespace, "source")
	east.claimAt(t, namespace, "copy", func(pod *corev1.PodSpec) {
		pod.NodeSelector = map[string]string{corev1.LabelHostname: node}
	})
	east.sh(t, namespace, "source", fill)
	transfer := newLocalTransfer(namespace, "ledger")
	if err := east.Create(ctx, transfer); err != nil {
		t.Fatal(err)
	}
	waitFor(t, transfer, v1alpha1.ConditionComplete, metav1.ConditionTrue, "")
	if want, got := east.sh(t, namespace, "source", listing), east.sh(t, namespace, "copy", listing); want != got {
		t.Errorf("the two claims differ:\nsource:\n%s\ncopy:\n%s", want, got)
	}
	s := transfer.Status
	if s.Run.Route != v1alpha1.RoutePod || s.Peer != v1alpha1.ThisCluster || s.Run.Attempt != 1 ||
		s.Progress.Files != 303 || len(s.History) != 1 {
		t.Errorf("%+v %+v", s.Run, s.Progress)
	}
	if c := s.Compression; c.Reason != v1alpha1.CompressionNoNetwork || c.Engine != "none" ||
		c.Stored.Bytes != c.UncompressedBytes || c.UncompressedBytes < 12_000_000 {
		t.Errorf("%+v", c)
	}
	noAgents(t, namespace)
	if err := east.Delete(ctx, transfer); err != nil {
		t.Fatal(err)
	}
	gone(t, namespace)
}

// Two claims of two nodes: two agents.
func TestWithinANamespaceOnTwoNodes(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	var nodes corev1.NodeList
	if err := east.List(ctx, &nodes); err != nil {
		t.Fatal(err)
	}
	if len(nodes.Items) < 2 {
		t.Skip("cluster east has one node")
	}
	namespace := newNamespace(t)
	for i, claim := range []string{"source", "copy"} {
		east.claimAt(t, namespace, claim, func(pod *corev1.PodSpec) {
			pod.NodeSelector = map[string]string{corev1.LabelHostname: nodes.Items[i].Labels[corev1.LabelHostname]}
		})
	}
	east.sh(t, namespace, "source", fill)
	transfer := newLocalTransfer(namespace, "ledger")
	transfer.Spec.Compression = &v1alpha1.Compression{Mode: v1alpha1.CompressionAlways}
	if err := east.Create(ctx, transfer); err != nil {
		t.Fatal(err)
	}
	waitFor(t, transfer, v1alpha1.ConditionComplete, metav1.ConditionTrue, "")
	if want, got := east.sh(t, namespace, "source", listing), east.sh(t, namespace, "copy", listing); want != got {
		t.Errorf("the two claims differ:\nsource:\n%s\ncopy:\n%s", want, got)
	}
	if transfer.Status.Run.Route != v1alpha1.RouteDirect || transfer.Status.Compression.Software.Operations == 0 {
		t.Errorf("%+v %+v", transfer.Status.Run, transfer.Status.Compression)
	}
	noAgents(t, namespace)
	if err := east.Delete(ctx, transfer); err != nil {
		t.Fatal(err)
	}
	gone(t, namespace)
}

// Into another namespace: by a grant, with two agents, and until the grant is gone.
func TestToAnotherNamespace(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	from, to := newNamespace(t), newNamespace(t)
	east.claim(t, from, "source", "", "100Mi")
	east.claim(t, to, "copy", "", "100Mi")
	east.sh(t, from, "source", fill)
	transfer := newLocalTransfer(from, "ledger")
	transfer.Spec.Destination.Namespace = to
	transfer.Spec.Compression = &v1alpha1.Compression{Mode: v1alpha1.CompressionAlways}
	if err := east.Create(ctx, transfer); err != nil {
		t.Fatal(err)
	}
	waitFor(t, transfer, v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonNotGranted)
	grant := &v1alpha1.PeerGrant{
		ObjectMeta: metav1.ObjectMeta{Namespace: to, Name: "from-another"},
		Spec: v1alpha1.PeerGrantSpec{
			From: []v1alpha1.PeerGrantFrom{{Namespaces: []string{from}}},
			To:   []v1alpha1.PeerGrantTo{{Kind: v1alpha1.GrantedPersistentVolumeClaim, Name: "copy"}},
		},
	}
	if err := east.Create(ctx, grant); err != nil {
		t.Fatal(err)
	}
	waitFor(t, transfer, v1alpha1.ConditionComplete, metav1.ConditionTrue, "")
	if want, got := east.sh(t, from, "source", listing), east.sh(t, to, "copy", listing); want != got {
		t.Errorf("the two claims differ:\nsource:\n%s\ncopy:\n%s", want, got)
	}
	eventually(t, 6*time.Minute, "one complete Delivery from this cluster", func() (bool, string) {
		var deliveries v1alpha1.DeliveryList
		if err := east.List(ctx, &deliveries, client.InNamespace(to)); err != nil {
			return false, err.Error()
		}
		if len(deliveries.Items) != 1 {
			return false, fmt.Sprintf("%d Deliveries", len(deliveries.Items))
		}
		status := deliveries.Items[0].Status
		return status.Phase == v1alpha1.DeliveryComplete &&
			status.Peer == v1alpha1.ThisCluster, fmt.Sprintf("%s from %q", status.Phase, status.Peer)
	})
	if transfer.Status.Run.Route != v1alpha1.RouteDirect || transfer.Status.Compression.Software.Operations == 0 {
		t.Errorf("%+v %+v", transfer.Status.Run, transfer.Status.Compression)
	}
	if err := east.Delete(ctx, transfer); err != nil {
		t.Fatal(err)
	}
	gone(t, from)
	gone(t, to)
}

// nodeOf is the host name of the node that the shell pod of a claim of east runs on.
func nodeOf(t *testing.T, namespace, claim string) string {
	t.Helper()
	ctx := context.Background()
	pod, node := &corev1.Pod{}, &corev1.Node{}
	if err := east.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "shell-" + claim}, pod); err != nil {
		t.Fatal(err)
	}
	if err := east.Get(ctx, client.ObjectKey{Name: pod.Spec.NodeName}, node); err != nil {
		t.Fatal(err)
	}
	return node.Labels[corev1.LabelHostname]
}
