// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package transfer_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/attempt"
)

func (f *fixture) store(name string) *v1alpha1.ObjectStore {
	f.Helper()
	store := &v1alpha1.ObjectStore{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: name},
		Spec: v1alpha1.ObjectStoreSpec{
			Endpoint: "https://192.0.2.7:9000", Bucket: "cargo", Prefix: "east",
			Credentials: &v1alpha1.StoreCredentials{SecretName: name + "-keys"},
		},
	}
	cluster.Create(f, store)
	return store
}

// ready says of a store what its controller, which does not run here, would.
func (f *fixture) ready(store *v1alpha1.ObjectStore, status metav1.ConditionStatus, reason string) {
	f.Helper()
	store.Status.Conditions = []metav1.Condition{{
		Type: v1alpha1.ConditionReady, Status: status, Reason: reason, ObservedGeneration: store.Generation,
		LastTransitionTime: metav1.Now(),
	}}
	if err := cluster.Client.Status().Update(context.Background(), store); err != nil {
		f.Fatal(err)
	}
}

func TestMovesToAnObjectStore(t *testing.T) {
	f := prepareLocal(t)
	f.transfer.Spec.Destination = v1alpha1.TransferDestination{ObjectStore: &v1alpha1.ObjectStorePath{Name: "vault"}}
	f.transfer.Spec.Receipt = true
	f.create()
	f.wait(v1alpha1.TransferPending, v1alpha1.ConditionStalled, v1alpha1.ReasonDestinationNotFound)
	store := f.store("vault")
	f.wait(v1alpha1.TransferPending, v1alpha1.ConditionReconciling, v1alpha1.ReasonProbing)
	f.ready(store, metav1.ConditionFalse, v1alpha1.ReasonStoreDenied)
	f.wait(v1alpha1.TransferPending, v1alpha1.ConditionStalled, v1alpha1.ReasonStoreDenied)
	f.ready(store, metav1.ConditionTrue, v1alpha1.ReasonPromisesKept)
	job := f.job(1)
	if volumes := job.Spec.Template.Spec.Volumes; len(volumes) != 3 || volumes[1].Secret.SecretName != "vault-keys" {
		t.Errorf("%+v", volumes)
	}
	pod := cluster.RunPod(t, job, f.namespace)
	agents.Say(f.serverName(), transferring())
	f.wait(v1alpha1.TransferTransferring, v1alpha1.ConditionReconciling, v1alpha1.ReasonTransferring)
	cluster.EndPod(t, pod, 0, encode(t, withContents()))
	f.wait(v1alpha1.TransferComplete, v1alpha1.ConditionReady, v1alpha1.ReasonSucceeded)
	if run := f.transfer.Status.Run; run.Route != v1alpha1.RouteObjectStore {
		t.Errorf("%+v", run)
	}
	to := f.receiptOf().Predicate.Receiver
	if to.ObjectStore != "vault" || to.Claim != "" || to.Path != "/" || to.Namespace != f.namespace {
		t.Errorf("the receipt is of %+v", to.Party)
	}
}

// TestRestoresIntoAnEphemeralVolume: Kubernetes makes the volume with the pod, and no claim has to be there.
func TestRestoresIntoAnEphemeralVolume(t *testing.T) {
	f := prepareLocal(t)
	f.transfer.Spec.Source = v1alpha1.TransferSource{ObjectStore: &v1alpha1.ObjectStorePath{Name: "vault"}}
	f.transfer.Spec.Destination = v1alpha1.TransferDestination{
		Ephemeral: &v1alpha1.EphemeralVolume{Size: ptr.To(resource.MustParse("3Gi")), StorageClassName: "fast"},
	}
	f.transfer.Spec.Inflate = v1alpha1.InflateSoftware
	f.create()
	f.wait(v1alpha1.TransferPending, v1alpha1.ConditionStalled, v1alpha1.ReasonSourceNotFound)
	f.ready(f.store("vault"), metav1.ConditionTrue, v1alpha1.ReasonPromisesKept)
	job := f.job(1)
	volumes := job.Spec.Template.Spec.Volumes
	if len(volumes) != 3 || volumes[2].Ephemeral == nil {
		t.Fatalf("%+v", volumes)
	}
	claim := volumes[2].Ephemeral.VolumeClaimTemplate.Spec
	if *claim.StorageClassName != "fast" || claim.Resources.Requests.Storage().String() != "3Gi" {
		t.Errorf("%+v", claim)
	}
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: f.namespace, Name: attempt.SecretName(job.Name, f.transfer)}
	if err := cluster.Client.Get(context.Background(), key, secret); err != nil ||
		!strings.Contains(string(secret.Data["config.json"]), "inflateInSoftware") {
		t.Errorf("%v: %s", err, secret.Data["config.json"])
	}
	pod := cluster.RunPod(t, job, f.namespace)
	report := succeeded()
	written := start.Add(-time.Hour).Truncate(time.Second)
	report.CopyTime = timestamppb.New(written)
	cluster.EndPod(t, pod, 0, encode(t, report))
	f.wait(v1alpha1.TransferComplete, v1alpha1.ConditionReady, v1alpha1.ReasonSucceeded)
	if run := f.transfer.Status.Run; run.Route != v1alpha1.RouteObjectStore || !run.CopyTime.Time.Equal(written) {
		t.Errorf("%+v", run)
	}
}

func TestStoreEndsAreValidated(t *testing.T) {
	f := prepareLocal(t)
	at := &v1alpha1.ObjectStorePath{Name: "vault", Path: "/a"}
	for name, test := range map[string]struct {
		change func(*v1alpha1.TransferSpec)
		says   string
	}{
		"neither": {func(s *v1alpha1.TransferSpec) { s.Source = v1alpha1.TransferSource{} }, "source"},
		"both":    {func(s *v1alpha1.TransferSpec) { s.Source.ObjectStore = at }, "exactly one"},
		"a peer": {func(s *v1alpha1.TransferSpec) {
			s.Destination = v1alpha1.TransferDestination{ObjectStore: at, Peer: "west"}
		}, "peer"},
		"from a store to a peer": {func(s *v1alpha1.TransferSpec) {
			s.Source, s.Destination.Peer = v1alpha1.TransferSource{ObjectStore: at}, "west"
		}, "namespace"},
		"an ephemeral volume for a claim": {func(s *v1alpha1.TransferSpec) {
			s.Destination = v1alpha1.TransferDestination{
				Ephemeral: &v1alpha1.EphemeralVolume{Size: ptr.To(resource.MustParse("1Gi"))},
			}
		}, "ephemeral"},
		"two destinations": {func(s *v1alpha1.TransferSpec) {
			s.Source = v1alpha1.TransferSource{ObjectStore: at}
			s.Destination.Ephemeral = &v1alpha1.EphemeralVolume{Size: ptr.To(resource.MustParse("1Gi"))}
		}, "exactly one"},
		"inflate without a store": {func(s *v1alpha1.TransferSpec) { s.Inflate = v1alpha1.InflateSoftware }, "inflate"},
		"dots": {func(s *v1alpha1.TransferSpec) {
			s.Source = v1alpha1.TransferSource{ObjectStore: &v1alpha1.ObjectStorePath{Name: "vault", Path: "/a/../b"}}
		}, "path"},
		"ours": {func(s *v1alpha1.TransferSpec) {
			s.Source = v1alpha1.TransferSource{ObjectStore: &v1alpha1.ObjectStorePath{Name: "vault", Path: "/.lighterage/x"}}
		}, "path"},
		"control characters": {func(s *v1alpha1.TransferSpec) {
			s.Source = v1alpha1.TransferSource{ObjectStore: &v1alpha1.ObjectStorePath{Name: "vault", Path: "/a\x01"}}
		}, "path"},
		"empty elements": {func(s *v1alpha1.TransferSpec) {
			s.Source = v1alpha1.TransferSource{ObjectStore: &v1alpha1.ObjectStorePath{Name: "vault", Path: "/a//b"}}
		}, "path"},
	} {
		transfer := f.make("invalid")
		transfer.Spec.Destination.Peer = ""
		test.change(&transfer.Spec)
		err := cluster.Client.Create(context.Background(), transfer, client.DryRunAll)
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestMovesThroughAnObjectStore: to a Peer that cannot be reached over the network.
func TestMovesThroughAnObjectStore(t *testing.T) {
	f := prepare(t)
	peer := &v1alpha1.Peer{}
	if err := cluster.Client.Get(context.Background(), client.ObjectKey{Name: f.namespace}, peer); err != nil {
		t.Fatal(err)
	}
	before := client.MergeFrom(peer.DeepCopy())
	peer.Spec.Endpoint = ""
	if err := cluster.Client.Patch(context.Background(), peer, before); err != nil {
		t.Fatal(err)
	}
	via := &v1alpha1.TransferVia{ObjectStore: v1alpha1.ObjectStoreReference{Name: "vault"}}
	for says, change := range map[string]func(*v1alpha1.TransferSpec){
		"add peer":  func(s *v1alpha1.TransferSpec) { s.Destination.Peer = "" },
		"a receipt": func(s *v1alpha1.TransferSpec) { s.Receipt = true },
		"Required":  func(s *v1alpha1.TransferSpec) { s.Destination.Via = &v1alpha1.TransferVia{} },
	} {
		invalid := f.make("invalid")
		invalid.Spec.Destination.Via = via.DeepCopy()
		change(&invalid.Spec)
		err := cluster.Client.Create(context.Background(), invalid, client.DryRunAll)
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
	f.transfer.Spec.Destination.Via = via
	f.create()
	f.wait(v1alpha1.TransferPending, v1alpha1.ConditionStalled, v1alpha1.ReasonStoreNotFound)
	f.ready(f.store("vault"), metav1.ConditionTrue, v1alpha1.ReasonPromisesKept)
	job := f.job(1)
	if volumes := job.Spec.Template.Spec.Volumes; len(volumes) != 3 || volumes[1].Secret.SecretName != "vault-keys" ||
		job.Spec.Template.Spec.Containers[0].Args[0] != "handoff" {
		t.Errorf("%+v", job.Spec.Template.Spec)
	}
	pod := cluster.RunPod(t, job, f.namespace)
	agents.Say(f.serverName(), transferring())
	f.wait(v1alpha1.TransferTransferring, v1alpha1.ConditionReconciling, v1alpha1.ReasonTransferring)
	cluster.EndPod(t, pod, 0, encode(t, succeeded()))
	f.wait(v1alpha1.TransferComplete, v1alpha1.ConditionReady, v1alpha1.ReasonSucceeded)
	if run := f.transfer.Status.Run; run.Route != v1alpha1.RouteStorage {
		t.Errorf("%+v", run)
	}
}
