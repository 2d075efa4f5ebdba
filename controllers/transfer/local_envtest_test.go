// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package transfer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/attempt"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/controllertest"
	"github.com/lighterage/lighterage/controllers/pki"
)

// prepareLocal makes a namespace with the source claim, and a Transfer within the cluster that is not created yet.
func prepareLocal(t *testing.T) *fixture {
	t.Parallel()
	namespace := cluster.Namespace(t)
	cluster.Claim(t, namespace, "ledger")
	f := &fixture{T: t, namespace: namespace}
	f.transfer = f.make("ledger")
	f.transfer.Spec.Destination.Peer = ""
	return f
}

func TestMovesWithinANamespace(t *testing.T) {
	f := prepareLocal(t)
	f.create()
	f.wait(v1alpha1.TransferPending, v1alpha1.ConditionStalled, v1alpha1.ReasonDestinationNotFound)
	cluster.Claim(t, f.namespace, "copy")
	job := f.job(1)
	if volumes := job.Spec.Template.Spec.Volumes; len(volumes) != 3 {
		t.Errorf("%+v", volumes)
	}
	pod := cluster.RunPod(t, job, f.namespace)
	agents.Say(f.serverName(), transferring())
	f.wait(v1alpha1.TransferTransferring, v1alpha1.ConditionReconciling, v1alpha1.ReasonTransferring)
	cluster.EndPod(t, pod, 0, encode(t, succeeded()))
	f.wait(v1alpha1.TransferComplete, v1alpha1.ConditionReady, v1alpha1.ReasonSucceeded)
	if status := f.transfer.Status; status.Run.Route != v1alpha1.RoutePod || status.Peer != v1alpha1.ThisCluster ||
		len(status.History) != 1 {
		t.Errorf("%+v", status)
	}
	if left := f.deliveries(f.namespace); len(left) != 0 {
		t.Errorf("Deliveries were made: %v", left)
	}
}

func (f *fixture) deliveries(namespace string) []v1alpha1.Delivery {
	f.Helper()
	list := &v1alpha1.DeliveryList{}
	if err := cluster.Client.List(context.Background(), list, client.InNamespace(namespace)); err != nil {
		f.Fatal(err)
	}
	return list.Items
}

func TestMovesToAnotherNamespace(t *testing.T) {
	f := prepareLocal(t)
	ctx := context.Background()
	vault := cluster.Namespace(t)
	cluster.Claim(t, vault, "copy")
	f.transfer.Spec.Destination.Namespace = vault
	f.create()
	f.wait(v1alpha1.TransferPending, v1alpha1.ConditionStalled, v1alpha1.ReasonNotGranted)
	message := meta.FindStatusCondition(f.transfer.Status.Conditions, v1alpha1.ConditionReady).Message
	if !strings.Contains(
		message,
		fmt.Sprintf(
			"spec: {from: [{namespaces: [%s]}], to: [{kind: PersistentVolumeClaim, name: copy, path: \"/ledger\"}]}",
			f.namespace,
		),
	) {
		t.Errorf("the message does not say what to create: %s", message)
	}
	cluster.Create(t, &v1alpha1.PeerGrant{
		ObjectMeta: metav1.ObjectMeta{Namespace: vault, Name: "from-there"},
		Spec: v1alpha1.PeerGrantSpec{
			From: []v1alpha1.PeerGrantFrom{{Namespaces: []string{f.namespace}}},
			To:   []v1alpha1.PeerGrantTo{{Kind: v1alpha1.GrantedPersistentVolumeClaim, Name: "copy"}},
		},
	})
	f.wait(v1alpha1.TransferStarting, v1alpha1.ConditionReconciling, v1alpha1.ReasonOpening)
	var delivery v1alpha1.Delivery
	controllertest.Eventually(t, func() error {
		made := f.deliveries(vault)
		if len(made) != 1 {
			return fmt.Errorf("%d Deliveries", len(made))
		}
		delivery = made[0]
		return nil
	})
	if jobs := f.jobs(); len(jobs) != 0 {
		t.Fatalf("the sender was started before the receiver: %v", jobs)
	}
	// Nobody looks after Deliveries here.
	delivery.Status.Phase, delivery.Status.Peer = v1alpha1.DeliveryWaiting, v1alpha1.ThisCluster
	delivery.Status.Endpoint, delivery.Status.ServerName = "10.0.0.7:8443", pki.ReceiveServerName(string(delivery.UID))
	delivery.Status.Conditions = conditions.Merge(
		nil, conditions.Reconciling(v1alpha1.ReasonOpening, "the agent waits"), 1, metav1.Now().Time,
	)
	if err := cluster.Client.Status().Update(ctx, &delivery); err != nil {
		t.Fatal(err)
	}
	job := f.job(1)
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: job.Namespace, Name: attempt.SecretName(job.Name, f.transfer)}
	if err := cluster.Client.Get(ctx, key, secret); err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(secret.Data["config.json"], []byte("10.0.0.7:8443")) ||
		!bytes.Equal(secret.Data["peer-ca.crt"], secret.Data["cluster-ca.crt"]) {
		t.Errorf("the sender is told %s", secret.Data["config.json"])
	}
	pod := cluster.RunPod(t, job, "node-1")
	cluster.EndPod(t, pod, 0, encode(t, succeeded()))
	f.wait(v1alpha1.TransferComplete, v1alpha1.ConditionReady, v1alpha1.ReasonSucceeded)
	if route := f.transfer.Status.Run.Route; route != v1alpha1.RouteDirect {
		t.Error(route)
	}
	if err := cluster.Client.Delete(ctx, f.transfer); err != nil {
		t.Fatal(err)
	}
	controllertest.Eventually(t, func() error {
		if err := f.refresh(); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the Transfer is still there: %v", err)
		}
		if len(f.deliveries(vault)) != 0 {
			return errors.New("the Delivery is still there")
		}
		return nil
	})
}

func TestSameDirectoryIsRefused(t *testing.T) {
	f := prepareLocal(t)
	f.transfer.Spec.Destination.Namespace = f.namespace // which the API server cannot compare
	f.transfer.Spec.Destination.PersistentVolumeClaim.ClaimName = "ledger"
	f.create()
	f.wait(v1alpha1.TransferPending, v1alpha1.ConditionStalled, v1alpha1.ReasonInvalidSpec)

	again := f.make("again")
	again.Spec.Destination.Peer = ""
	again.Spec.Destination.PersistentVolumeClaim.PersistentVolumeClaimPath = again.Spec.Source.PersistentVolumeClaim
	err := cluster.Client.Create(context.Background(), again)
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "choose another claim, or a path beside the other") {
		t.Errorf("got %v", err)
	}
}
