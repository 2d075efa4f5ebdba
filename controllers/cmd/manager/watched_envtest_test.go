// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/controllertest"
)

// M5: a manager that watches one namespace works there with the rights that the chart gives it then, and touches
// nothing in another one.
func TestManagerThatWatchesOneNamespace(t *testing.T) {
	if !inOwnProcess(t) {
		return
	}
	ctrl.SetLogger(logr.Discard())
	cluster, err := controllertest.Start("../../../config/crd/bases")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cluster.Stop() })
	ctx := context.Background()
	for _, name := range []string{"watched", "other"} {
		cluster.Create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
		cluster.Claim(t, name, "ledger")
		cluster.Claim(t, name, "copy")
	}
	cluster.Install(t, "watchNamespaces={watched}")
	config := rest.CopyConfig(cluster.Config)
	config.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + controllertest.OperatorNamespace + ":lighterage-manager",
		Groups:   []string{"system:serviceaccounts", "system:authenticated"},
	}
	settings, err := parse([]string{
		"--namespace", controllertest.OperatorNamespace, "--agent-image", "registry.example/lighterage/agent:v0.1.0",
		"--watch-namespaces", "watched",
		"--metrics-bind-address", "0", "--health-probe-bind-address", "0",
	})
	if err != nil {
		t.Fatal(err)
	}
	mgr, err := newManager(config, settings)
	if err != nil {
		t.Fatal(err)
	}
	running, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- mgr.Start(running) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})

	make := func(namespace, name, destination string) *v1alpha1.Transfer {
		transfer := &v1alpha1.Transfer{Spec: v1alpha1.TransferSpec{
			Source: v1alpha1.TransferSource{PersistentVolumeClaim: v1alpha1.PersistentVolumeClaimPath{ClaimName: "ledger"}},
			Destination: v1alpha1.TransferDestination{
				Namespace: destination, PersistentVolumeClaim: v1alpha1.DestinationClaim{
					PersistentVolumeClaimPath: v1alpha1.PersistentVolumeClaimPath{ClaimName: "copy"},
				},
			},
		}}
		transfer.Namespace, transfer.Name = namespace, name
		cluster.Create(t, transfer)
		return transfer
	}
	// The other one is made first, and by a mistake there is a grant for what crosses.
	ignored := make("other", "ignored", "")
	grant := &v1alpha1.PeerGrant{Spec: v1alpha1.PeerGrantSpec{
		From: []v1alpha1.PeerGrantFrom{{Namespaces: []string{"watched"}}},
		To:   []v1alpha1.PeerGrantTo{{Kind: v1alpha1.GrantedPersistentVolumeClaim, Name: "copy"}},
	}}
	grant.Namespace, grant.Name = "other", "grant"
	cluster.Create(t, grant)
	crosses, stays := make("watched", "crosses", "other"), make("watched", "stays", "")
	controllertest.Eventually(t, func() error {
		for _, transfer := range []*v1alpha1.Transfer{crosses, stays} {
			if err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(transfer), transfer); err != nil {
				return err
			}
		}
		if jobs := cluster.Jobs(t, "watched", v1alpha1.TransferLabel, string(stays.UID)); len(jobs) != 1 {
			return fmt.Errorf("%d Jobs; conditions %+v", len(jobs), stays.Status.Conditions)
		}
		return controllertest.Expect(crosses.Status.Conditions, v1alpha1.ConditionStalled, v1alpha1.ReasonNotGranted)
	})
	if err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(ignored), ignored); err != nil {
		t.Fatal(err)
	}
	if len(ignored.Status.Conditions) > 0 || len(ignored.Finalizers) > 0 {
		t.Errorf("a Transfer of another namespace: %v %+v", ignored.Finalizers, ignored.Status)
	}
	deliveries := &v1alpha1.DeliveryList{}
	if err := cluster.Client.List(ctx, deliveries, client.InNamespace("other")); err != nil || len(deliveries.Items) > 0 {
		t.Errorf("%d Deliveries in another namespace, %v", len(deliveries.Items), err)
	}
	checkWatchedSets(t, cluster)
}

// checkWatchedSets checks that a TransferSet of several namespaces works in those that are watched, and names the other
// ones in place of being Ready without them.
func checkWatchedSets(t *testing.T, cluster *controllertest.Cluster) {
	t.Helper()
	set := &v1alpha1.TransferSet{Spec: v1alpha1.TransferSetSpec{
		NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
			Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpIn, Values: []string{"watched", "other"},
		}}},
		Selector: &metav1.LabelSelector{},
		Template: v1alpha1.TransferSetTemplate{Destination: v1alpha1.TransferSetDestination{Peer: "none"}},
	}}
	set.Namespace, set.Name = controllertest.OperatorNamespace, "several"
	cluster.Create(t, set)
	controllertest.Eventually(t, func() error {
		if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(set), set); err != nil {
			return err
		}
		if m := set.Status.Members; m == nil || m.Selected != 2 || set.Status.Namespaces != 2 {
			return fmt.Errorf("%+v", set.Status)
		}
		return controllertest.Expect(
			set.Status.Conditions, v1alpha1.ConditionStalled, v1alpha1.ReasonNamespaceNotWatched)
	})
	sets := &v1alpha1.TransferSetList{}
	if err := cluster.Client.List(t.Context(), sets, client.InNamespace("other")); err != nil || len(sets.Items) > 0 {
		t.Errorf("%d TransferSets in another namespace, %v", len(sets.Items), err)
	}
}

// inOwnProcess runs the test again in a process of its own, and reports whether this is that process. A process has one
// manager: controllers and metrics are registered under their names.
func inOwnProcess(t *testing.T) bool {
	t.Helper()
	const own = "LIGHTERAGE_TEST_OWN_PROCESS"
	if os.Getenv(own) != "" {
		return true
	}
	command := exec.CommandContext(
		t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v",
	) //nolint:gosec // this very program
	command.Env = append(os.Environ(), own+"=1")
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return false
}
