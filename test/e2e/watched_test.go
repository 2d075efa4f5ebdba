// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/test/render"
)

const release = "lighterage"

// TestWatchNamespaces upgrades the release of west so that it watches two of three namespaces, and back. Transfers
// within west and from east work in the two; in the third nothing acts, and neither manager nor gateway has a right
// there. Other tests use west, so none of them may run at the same time.
func TestWatchNamespaces(t *testing.T) {
	ctx := context.Background()
	bank, shop, other := newNamespace(t), newNamespace(t), newNamespace(t)
	for namespace, claims := range map[string][]string{bank: {"source"}, shop: {"copy"}, other: {"source", "copy"}} {
		for _, claim := range claims {
			west.claim(t, namespace, claim, "", "50Mi")
		}
	}
	west.sh(t, bank, "source", "echo ledger of bank >/data/ledger")
	west.sh(t, other, "source", "echo ledger of other >/data/ledger")
	for _, namespace := range []string{shop, other} {
		east.claim(t, namespace, "source", "", "50Mi")
		east.sh(t, namespace, "source", "echo ledger of east >/data/ledger")
		grant(t, namespace, "copy")
		local := &v1alpha1.PeerGrant{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "from-bank"},
			Spec: v1alpha1.PeerGrantSpec{
				From: []v1alpha1.PeerGrantFrom{{Namespaces: []string{bank}}},
				To:   []v1alpha1.PeerGrantTo{{Kind: v1alpha1.GrantedPersistentVolumeClaim, Name: "copy"}},
			},
		}
		if err := west.Create(ctx, local); err != nil {
			t.Fatal(err)
		}
	}
	for _, right := range rightsInNamespaces {
		if !west.may(t, right, other) {
			t.Fatalf(
				"%s may not %s %s in every namespace, which is what is to change", right.account, right.verb, right.resource,
			)
		}
	}

	restore := watch(t, bank, shop)
	notes, err := west.Helm("get", "notes", release)
	if err != nil || !strings.Contains(notes, bank) || !strings.Contains(notes, shop) || strings.Contains(notes, other) {
		t.Errorf("the release's notes do not list what is watched, %v:\n%s", err, notes)
	}
	for _, right := range rightsInNamespaces {
		wanted := map[string]bool{bank: true, shop: true, render.Namespace: true, other: false, "": false}
		for namespace, want := range wanted {
			if got := west.may(t, right, namespace); got != want {
				t.Errorf("%s may %s %s in namespace %q: %v", right.account, right.verb, right.resource, namespace, got)
			}
		}
	}

	// What nothing may act on is made first.
	send := func(c *cluster, from, to, name string) *v1alpha1.Transfer {
		t.Helper()
		transfer := newLocalTransfer(from, name)
		if c == east {
			transfer.Spec.Destination.Peer = "west"
		} else if to != from {
			transfer.Spec.Destination.Namespace = to
		}
		transfer.Spec.Destination.PersistentVolumeClaim.Path = "/" + name
		if err := c.Create(ctx, transfer); err != nil {
			t.Fatal(err)
		}
		return transfer
	}
	ignored := send(west, other, other, "ignored")
	refusedToPeer, refused := send(east, other, other, "refused"), send(west, bank, other, "refused")
	arrives, crosses := send(east, shop, shop, "from-east"), send(west, bank, shop, "from-bank")
	east.WaitFor(t, arrives, v1alpha1.ConditionComplete, metav1.ConditionTrue, "")
	west.WaitFor(t, crosses, v1alpha1.ConditionComplete, metav1.ConditionTrue, "")
	if got := west.sh(
		t, shop, "copy", "cat /data/from-east/ledger /data/from-bank/ledger",
	); got != "ledger of east\nledger of bank\n" {
		t.Errorf("what arrived is %q", got)
	}
	east.WaitFor(t, refusedToPeer, v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonNotGranted)
	west.WaitFor(t, refused, v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonNotGranted)
	west.untouched(t, ignored)

	// The same Transfer shows that nothing but the missing namespace held it up.
	restore()
	west.WaitFor(t, ignored, v1alpha1.ConditionComplete, metav1.ConditionTrue, "")
}

// right of an account to objects of namespaces.
type right struct{ account, verb, group, resource string }

var rightsInNamespaces = []right{
	{"lighterage-manager", "create", "", "secrets"},
	{"lighterage-manager", "delete", "", "secrets"},
	{"lighterage-manager", "create", "batch", "jobs"},
	{"lighterage-manager", "list", "batch", "jobs"},
	{"lighterage-manager", "list", "", "pods"},
	{"lighterage-manager", "patch", "lighterage.dev", "transfers/status"},
	{"lighterage-gateway", "create", "lighterage.dev", "deliveries"},
	{"lighterage-gateway", "list", "lighterage.dev", "peergrants"},
}

// may asks the API server; an empty namespace stands for all.
func (c *cluster) may(t *testing.T, r right, namespace string) bool {
	t.Helper()
	resource, subresource, _ := strings.Cut(r.resource, "/")
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User:   "system:serviceaccount:" + render.Namespace + ":" + r.account,
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + render.Namespace, "system:authenticated"},
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: namespace, Verb: r.verb, Group: r.group, Resource: resource, Subresource: subresource,
		},
	}}
	if err := c.Create(context.Background(), review); err != nil {
		t.Fatal(err)
	}
	return review.Status.Allowed
}

// watch upgrades the release of west, and returns what takes it back to its former revision, at the latest when the
// test ends.
func watch(t *testing.T, namespaces ...string) (restore func()) {
	t.Helper()
	out, err := west.Helm("status", release, "--output", "json")
	if err != nil {
		t.Fatal(err)
	}
	var before struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal([]byte(out), &before); err != nil || before.Version == 0 {
		t.Fatalf("which revision the release has: %v\n%s", err, out)
	}
	restore = sync.OnceFunc(func() {
		t.Helper()
		if _, err := west.Helm("rollback", release, strconv.Itoa(before.Version), "--wait", "--timeout", "10m"); err != nil {
			t.Errorf("west watches %v until `make demo-install` has run: %v", namespaces, err)
		}
	})
	t.Cleanup(restore)
	_, err = west.Helm("upgrade", release, render.ChartDir, "--reset-then-reuse-values",
		"--set", "watchNamespaces={"+strings.Join(namespaces, ",")+"}", "--wait", "--timeout", "10m")
	if err != nil {
		t.Fatal(err)
	}
	// Pods with the former arguments may still be ending, and one of them be the leader.
	eventually(t, 6*time.Minute, "the pods that watch all namespaces to be gone", func() (bool, string) {
		var pods corev1.PodList
		if err := west.List(context.Background(), &pods, client.InNamespace(render.Namespace)); err != nil {
			return false, err.Error()
		}
		watching := 0
		for i := range pods.Items {
			pod := &pods.Items[i]
			switch args := strings.Join(pod.Spec.Containers[0].Args, " "); {
			case pod.Labels["app.kubernetes.io/component"] == "node-agent":
			case strings.Contains(args, "--watch-namespaces="):
				watching++
			default:
				return false, pod.Name + " is there"
			}
		}
		return watching >= 2, fmt.Sprintf("%d pods watch some", watching)
	})
	return restore
}

// untouched wants a Transfer on which nothing has acted.
func (c *cluster) untouched(t *testing.T, transfer *v1alpha1.Transfer) {
	t.Helper()
	ctx, in := context.Background(), client.InNamespace(transfer.Namespace)
	jobs, deliveries := &batchv1.JobList{}, &v1alpha1.DeliveryList{}
	err := errors.Join(
		c.Get(ctx, client.ObjectKeyFromObject(transfer), transfer), c.List(ctx, jobs, in), c.List(ctx, deliveries, in),
	)
	if err != nil {
		t.Fatal(err)
	}
	touched := len(transfer.Finalizers) > 0 || len(transfer.Status.Conditions) > 0
	if touched || len(jobs.Items) > 0 || len(deliveries.Items) > 0 {
		t.Errorf("%s has finalizers %v, conditions %+v; its namespace has %d Jobs and %d Deliveries",
			transfer.Name, transfer.Finalizers, transfer.Status.Conditions, len(jobs.Items), len(deliveries.Items))
	}
}
