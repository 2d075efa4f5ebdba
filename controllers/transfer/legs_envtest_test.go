// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package transfer_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/attempt"
	"github.com/lighterage/lighterage/controllers/controllertest"
	"github.com/lighterage/lighterage/controllers/pki"
	"github.com/lighterage/lighterage/controllers/plan"
)

// leg waits for the Transfer of a destination to be in that phase.
func (f *fixture) leg(destination string, phase v1alpha1.TransferPhase) *v1alpha1.Transfer {
	f.Helper()
	leg := &v1alpha1.Transfer{}
	controllertest.Eventually(f, func() error {
		key := client.ObjectKey{Namespace: f.namespace, Name: plan.LegName(f.transfer.Name, destination)}
		if err := cluster.Client.Get(context.Background(), key, leg); err != nil {
			return err
		}
		if leg.Status.Phase != phase {
			return fmt.Errorf("%s is %q, want %q: %+v", leg.Name, leg.Status.Phase, phase, leg.Status.Conditions)
		}
		return nil
	})
	return leg
}

// One pod for two destinations, of a Peer and of this cluster; each is asked about by its own name, one is done before
// the other, and what the pod leaves is what the other gets. Deletion takes all along.
func TestSeveralDestinations(t *testing.T) {
	f := prepare(t)
	ctx := context.Background()
	cluster.Claim(t, f.namespace, "spare")
	f.transfer.Spec.Destination = v1alpha1.TransferDestination{}
	f.transfer.Spec.Destinations = []v1alpha1.NamedDestination{
		{
			Name: "west", Peer: f.namespace,
			PersistentVolumeClaim: v1alpha1.PersistentVolumeClaimPath{ClaimName: "copy", Path: "/"},
		},
		{Name: "spare", PersistentVolumeClaim: v1alpha1.PersistentVolumeClaimPath{ClaimName: "spare", Path: "/"}},
	}
	f.create()
	f.wait(v1alpha1.TransferStarting, v1alpha1.ConditionReconciling, v1alpha1.ReasonGathering)
	var delivery v1alpha1.Delivery
	controllertest.Eventually(t, func() error {
		made := f.deliveries(f.namespace)
		if len(made) != 1 {
			return fmt.Errorf("%d Deliveries", len(made))
		}
		delivery = made[0]
		return nil
	})
	if jobs := f.jobs(); len(jobs) != 0 {
		t.Fatalf("the pod was made before the receiver was ready: %v", jobs)
	}
	delivery.Status.Phase, delivery.Status.Peer = v1alpha1.DeliveryWaiting, v1alpha1.ThisCluster
	delivery.Status.Endpoint, delivery.Status.ServerName = "10.0.0.7:8443", pki.ReceiveServerName(string(delivery.UID))
	if err := cluster.Client.Status().Update(ctx, &delivery); err != nil {
		t.Fatal(err)
	}
	job := f.job(1)
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: job.Namespace, Name: attempt.SecretName(job.Name, f.transfer)}
	if err := cluster.Client.Get(ctx, key, secret); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"west.tls.crt", "west.tls.key", "west.peer-ca.crt", "spare.tls.crt", "cluster-ca.crt"} {
		if len(secret.Data[name]) == 0 {
			t.Errorf("the Secret lacks %s", name)
		}
	}
	if bytes.Equal(secret.Data["west.tls.crt"], secret.Data["spare.tls.crt"]) || len(secret.Data["tls.crt"]) > 0 {
		t.Error("the destinations do not have a certificate each")
	}
	west, spare := f.leg("west", v1alpha1.TransferStarting), f.leg("spare", v1alpha1.TransferStarting)
	agents.Say(pki.SendServerName(string(west.UID)), transferring())
	agents.Say(pki.SendServerName(string(spare.UID)), transferring())
	pod := cluster.RunPod(t, job, f.namespace)
	f.leg("west", v1alpha1.TransferTransferring)
	f.leg("spare", v1alpha1.TransferTransferring)
	agents.Say(pki.SendServerName(string(spare.UID)), succeeded())
	spare = f.leg("spare", v1alpha1.TransferComplete)
	if h := spare.Status.History; len(h) != 1 || h[0].Bytes != 8<<30 || spare.Status.Run.Node != f.namespace {
		t.Errorf("%+v", spare.Status)
	}
	f.leg("west", v1alpha1.TransferTransferring)
	done, err := proto.Marshal(succeeded())
	if err != nil {
		t.Fatal(err)
	}
	cluster.EndPod(t, pod, 0, encode(t, &wirev1.Report{
		State: wirev1.AgentState_AGENT_STATE_SUCCEEDED, Version: "test", Receivers: map[string][]byte{"west": done},
	}))
	if west = f.leg("west", v1alpha1.TransferComplete); west.Status.History[0].Usage == nil {
		t.Errorf("%+v", west.Status.History)
	}
	f.wait(v1alpha1.TransferComplete, v1alpha1.ConditionReady, v1alpha1.ReasonSucceeded)
	controllertest.Eventually(t, func() error {
		if jobs := f.jobs(); len(jobs) != 0 || f.secretExists(job.Name) {
			return fmt.Errorf("%d Jobs are left, and their Secret: %v", len(jobs), f.secretExists(job.Name))
		}
		return nil
	})
	status := f.transfer.Status
	if len(status.Destinations) != 2 || status.Destinations[0].Transfer != west.Name ||
		status.Destinations[1].Delivery != delivery.Name || status.Destinations[0].Percent != 100 ||
		status.Peer != "(2 destinations)" || status.Progress.Bytes != 16<<30 {
		t.Errorf("%+v", status)
	}
	// Who owns it keeps the spec.
	generation := west.Generation
	f.change(func(transfer *v1alpha1.Transfer) {
		transfer.Annotations = map[string]string{v1alpha1.RunAnnotation: "again"}
		transfer.Spec.MaxAttempts = 7
	})
	controllertest.Eventually(t, func() error {
		leg := f.leg("west", v1alpha1.TransferStarting)
		if leg.Spec.MaxAttempts != 7 || leg.Generation != generation+1 {
			return fmt.Errorf("maxAttempts %d, generation %d after %d", leg.Spec.MaxAttempts, leg.Generation, generation)
		}
		return nil
	})
	if err := cluster.Client.Delete(ctx, f.transfer); err != nil {
		t.Fatal(err)
	}
	controllertest.Eventually(t, func() error {
		list := &v1alpha1.TransferList{}
		if err := cluster.Client.List(ctx, list, client.InNamespace(f.namespace)); err != nil {
			return err
		}
		if len(list.Items) > 0 {
			return fmt.Errorf("%d Transfers are left: %+v", len(list.Items), list.Items[0].ObjectMeta)
		}
		return nil
	})
}

// One pod of its own for a destination in an object store, beside that of the others.
func TestStoreAmongSeveralDestinations(t *testing.T) {
	f := prepare(t)
	f.transfer.Spec.Destination = v1alpha1.TransferDestination{}
	f.transfer.Spec.Destinations = []v1alpha1.NamedDestination{
		{
			Name: "west", Peer: f.namespace,
			PersistentVolumeClaim: v1alpha1.PersistentVolumeClaimPath{ClaimName: "copy", Path: "/"},
		},
		{
			Name: "vault", ObjectStore: &v1alpha1.ObjectStorePath{Name: "vault", Path: "/books"},
			Form: v1alpha1.RestingArchive,
		},
	}
	f.ready(f.store("vault"), metav1.ConditionTrue, v1alpha1.ReasonPromisesKept)
	f.create()
	// The Job of a store is one of its leg.
	all := func() []batchv1.Job {
		return cluster.Jobs(t, f.namespace, v1alpha1.DestinationsLabel, string(f.transfer.UID))
	}
	jobs := map[string]*batchv1.Job{} // by mode
	controllertest.Eventually(t, func() error {
		for _, job := range all() {
			jobs[job.Labels[agentpod.ComponentLabel]] = job.DeepCopy()
		}
		if len(jobs) == 2 && jobs["send"] != nil && jobs[attempt.LocalMode] != nil {
			return nil
		}
		vault := &v1alpha1.Transfer{}
		key := client.ObjectKey{Namespace: f.namespace, Name: plan.LegName(f.transfer.Name, "vault")}
		if err := cluster.Client.Get(context.Background(), key, vault); err != nil {
			return err
		}
		return fmt.Errorf("there are Jobs of modes %v; %s is %q: %+v", slices.Sorted(maps.Keys(jobs)), vault.Name,
			vault.Status.Phase, meta.FindStatusCondition(vault.Status.Conditions, v1alpha1.ConditionReady))
	})
	west, vault := f.leg("west", v1alpha1.TransferStarting), f.leg("vault", v1alpha1.TransferStarting)
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: f.namespace, Name: attempt.SecretName(jobs[attempt.LocalMode].Name, vault)}
	if err := cluster.Client.Get(context.Background(), key, secret); err != nil || len(secret.Data["tls.crt"]) == 0 {
		t.Fatalf("the pod of the store has no certificate of its own: %v", err)
	}
	agents.Say(pki.SendServerName(string(west.UID)), transferring())
	agents.Say(pki.SendServerName(string(vault.UID)), transferring())
	sends, writes := cluster.RunPod(t, jobs["send"], f.namespace), cluster.RunPod(t, jobs[attempt.LocalMode], f.namespace)
	f.leg("west", v1alpha1.TransferTransferring)
	f.leg("vault", v1alpha1.TransferTransferring)
	done, err := proto.Marshal(succeeded())
	if err != nil {
		t.Fatal(err)
	}
	cluster.EndPod(t, sends, 0, encode(t, &wirev1.Report{
		State: wirev1.AgentState_AGENT_STATE_SUCCEEDED, Version: "test", Receivers: map[string][]byte{"west": done},
	}))
	f.leg("west", v1alpha1.TransferComplete)
	f.wait(v1alpha1.TransferTransferring, v1alpha1.ConditionReconciling, v1alpha1.ReasonTransferring)
	cluster.EndPod(t, writes, 0, encode(t, succeeded()))
	f.leg("vault", v1alpha1.TransferComplete)
	f.wait(v1alpha1.TransferComplete, v1alpha1.ConditionReady, v1alpha1.ReasonSucceeded)
	controllertest.Eventually(t, func() error {
		if left := all(); len(left) != 0 {
			return fmt.Errorf("%d Jobs are left", len(left))
		}
		return nil
	})
}

// What the API server rejects.
func TestDestinationsOfTheAPI(t *testing.T) {
	f := prepare(t)
	one := func(name, claim string) v1alpha1.NamedDestination {
		return v1alpha1.NamedDestination{
			Name: name, PersistentVolumeClaim: v1alpha1.PersistentVolumeClaimPath{ClaimName: claim, Path: "/"},
		}
	}
	vault := &v1alpha1.ObjectStorePath{Name: "vault", Path: "/"}
	encryption := &v1alpha1.ArchiveEncryption{Recipients: []v1alpha1.AgeRecipient{
		"age1qyqszqgpqyqszqgpqyqszqgpqyqszqgpqyqszqgpqyqszqgpqyqs3290gq",
	}}
	valid := func(name string) *v1alpha1.Transfer {
		transfer := f.make(name)
		transfer.Spec.Suspend = true
		transfer.Spec.Destination = v1alpha1.TransferDestination{}
		transfer.Spec.Destinations = []v1alpha1.NamedDestination{one("a", "a"), one("b", "b")}
		return transfer
	}
	for name, change := range map[string]func(*v1alpha1.Transfer){
		"both": func(t *v1alpha1.Transfer) {
			t.Spec.Destination.PersistentVolumeClaim.ClaimName, t.Spec.Destination.PersistentVolumeClaim.Path = "c", "/"
		},
		"neither":   func(t *v1alpha1.Transfer) { t.Spec.Destinations = nil },
		"same-name": func(t *v1alpha1.Transfer) { t.Spec.Destinations[1].Name = "a" },
		"source":    func(t *v1alpha1.Transfer) { t.Spec.Destinations[1].PersistentVolumeClaim.ClaimName = "ledger" },
		"hooks": func(t *v1alpha1.Transfer) {
			t.Spec.Source.Hooks = &v1alpha1.SourceHooks{After: &v1alpha1.Hook{CronJob: "after"}}
		},
		"claim-and-store": func(t *v1alpha1.Transfer) { t.Spec.Destinations[1].ObjectStore = vault },
		"store-of-peer": func(t *v1alpha1.Transfer) {
			t.Spec.Destinations[1] = v1alpha1.NamedDestination{Name: "b", Peer: "west", ObjectStore: vault}
		},
		"archives-in-claim": func(t *v1alpha1.Transfer) { t.Spec.Destinations[1].Form = v1alpha1.RestingArchive },
		"encrypted-files": func(t *v1alpha1.Transfer) {
			t.Spec.Destinations[1] = v1alpha1.NamedDestination{Name: "b", ObjectStore: vault, Encryption: encryption}
		},
		"encrypted-receipt": func(t *v1alpha1.Transfer) {
			t.Spec.Receipt = true
			t.Spec.Destinations[1] = v1alpha1.NamedDestination{
				Name: "b", ObjectStore: vault, Form: v1alpha1.RestingArchive, Encryption: encryption,
			}
		},
		"too-many": func(t *v1alpha1.Transfer) {
			for i := range 63 {
				t.Spec.Destinations = append(t.Spec.Destinations, one(fmt.Sprint("x", i), fmt.Sprint("x", i)))
			}
		},
	} {
		transfer := valid(name)
		change(transfer)
		if err := cluster.Client.Create(context.Background(), transfer); !apierrors.IsInvalid(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	hooked := valid("hooked")
	hooked.Spec.Source.CopyMethod = v1alpha1.CopySnapshot
	hooked.Spec.Source.Hooks = &v1alpha1.SourceHooks{After: &v1alpha1.Hook{CronJob: "after"}}
	cluster.Create(t, hooked)
	stores := valid("stores")
	for _, form := range []v1alpha1.RestingForm{"", v1alpha1.RestingFiles, v1alpha1.RestingGzip, v1alpha1.RestingZstd} {
		name := fmt.Sprint("x", len(stores.Spec.Destinations))
		stores.Spec.Destinations = append(stores.Spec.Destinations, v1alpha1.NamedDestination{
			Name: name, ObjectStore: &v1alpha1.ObjectStorePath{Name: name, Path: "/"}, Form: form,
		})
	}
	stores.Spec.Destinations = append(stores.Spec.Destinations, v1alpha1.NamedDestination{
		Name: "sealed", ObjectStore: vault, Form: v1alpha1.RestingArchive, Encryption: encryption,
	})
	cluster.Create(t, stores)
	transfer := valid("valid")
	for i := range 62 {
		transfer.Spec.Destinations = append(transfer.Spec.Destinations, one(fmt.Sprint("x", i), fmt.Sprint("x", i)))
	}
	cluster.Create(t, transfer)
	changed := func(change func(*v1alpha1.TransferSpec)) error {
		present := &v1alpha1.Transfer{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "valid"}}
		if err := cluster.Client.Get(context.Background(), client.ObjectKeyFromObject(present), present); err != nil {
			t.Fatal(err)
		}
		patch := client.MergeFrom(present.DeepCopy())
		change(&present.Spec)
		return cluster.Client.Patch(context.Background(), present, patch)
	}
	err := changed(func(s *v1alpha1.TransferSpec) { s.Destinations[0].PersistentVolumeClaim.ClaimName = "other" })
	if !apierrors.IsInvalid(err) {
		t.Errorf("a destination is changed: %v", err)
	}
	err = changed(func(s *v1alpha1.TransferSpec) { s.Destinations = append(s.Destinations[2:], one("c", "c")) })
	if err != nil {
		t.Errorf("destinations are removed and added: %v", err)
	}
}
