// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/plan"
)

// viaTransfer is one to a Peer without an endpoint, through an object store.
func viaTransfer() (*v1alpha1.Transfer, plan.TransferFacts) {
	transfer, facts := newTransfer("nightly", time.Hour), goodFacts()
	transfer.Spec.Destination.Via = &v1alpha1.TransferVia{ObjectStore: v1alpha1.ObjectStoreReference{Name: "vault"}}
	facts.Peer.Spec.Endpoint = ""
	facts.Stores.Via, facts.Stores.Dial = readyStore("vault", "keys"), &wirev1.DialPolicy{}
	return transfer, facts
}

func TestViaAttempt(t *testing.T) {
	transfer, facts := viaTransfer()
	transfer.Spec.Destination.Namespace = "books"
	d := plan.DecideTransfer(transfer, facts, agentpod.Image{Name: "agent"})
	if d.Start == nil || d.Status.Run.Route != v1alpha1.RouteStorage {
		t.Fatalf("%+v", d.Status)
	}
	pod := d.Start.Job().Spec.Template.Spec
	var claim string
	var keys *corev1.SecretVolumeSource
	for _, volume := range pod.Volumes {
		switch {
		case volume.PersistentVolumeClaim != nil:
			claim = volume.PersistentVolumeClaim.ClaimName
		case volume.Secret != nil && volume.Secret.SecretName == "keys":
			keys = volume.Secret
		}
	}
	if claim != "ledger" || keys == nil || len(keys.Items) != 3 || pod.Containers[0].Args[0] != "handoff" {
		t.Errorf("%+v", pod)
	}
	b, err := d.Start.Config()
	if err != nil {
		t.Fatal(err)
	}
	var config wirev1.HandOffConfig
	if err := wirev1.UnmarshalConfig(b, &config); err != nil {
		t.Fatal(err)
	}
	send, via := config.GetSend(), config.GetVia()
	if send.GetDestination().GetNamespace() != "books" || send.GetRunId() != "abcde" || send.GetGatewayEndpoint() != "" ||
		via.GetStore().GetPrefix() != "east" || via.GetStore().GetCredentialsDirectory() == "" || via.GetDialPolicy() == nil {
		t.Errorf("%s", b)
	}
	traffic := d.Start.Traffic()
	if len(traffic.Stores) != 1 || traffic.Stores[0].Address != "s3.example:443" || len(traffic.Gateways) > 0 ||
		len(traffic.ReceiverNamespaces) > 0 {
		t.Errorf("traffic %+v", traffic)
	}
	if plan.RunClaims(&v1alpha1.Transfer{Spec: transfer.Spec, Status: d.Status}) == nil {
		t.Error("its certificate does not let it ask the other cluster")
	}
}

func TestViaWaits(t *testing.T) {
	notReady := func(reason string) []metav1.Condition {
		return []metav1.Condition{{
			Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: reason, ObservedGeneration: 1,
		}}
	}
	for name, test := range map[string]struct {
		change    func(*plan.TransferFacts)
		condition string
		reason    string
	}{
		"the store is missing": {
			func(f *plan.TransferFacts) { f.Stores.Via = nil }, v1alpha1.ConditionStalled, v1alpha1.ReasonStoreNotFound,
		},
		"the store is not probed": {
			func(f *plan.TransferFacts) { f.Stores.Via.Status.Conditions = nil }, v1alpha1.ConditionReconciling,
			v1alpha1.ReasonProbing,
		},
		"the store may not be dialed": {
			func(f *plan.TransferFacts) {
				f.Stores.Problem = &agentpod.Problem{Reason: v1alpha1.ReasonAddressNotAllowed, Message: "no"}
			}, v1alpha1.ConditionStalled, v1alpha1.ReasonAddressNotAllowed,
		},
		"the store is where this cluster receives": {
			func(f *plan.TransferFacts) { f.Stores.Via.Spec.HandOff = v1alpha1.StoreHandOffReceive },
			v1alpha1.ConditionStalled, v1alpha1.ReasonInvalidSpec,
		},
		"the Peer is missing": {
			func(f *plan.TransferFacts) { f.Peer = nil }, v1alpha1.ConditionStalled, v1alpha1.ReasonPeerNotFound,
		},
		"the Peer has no CA": {
			func(f *plan.TransferFacts) { f.Peer.Status.Conditions = notReady(v1alpha1.ReasonInvalidCABundle) },
			v1alpha1.ConditionStalled, v1alpha1.ReasonPeerUntrusted,
		},
		// It is not reached over the network.
		"the Peer does not answer": {
			func(f *plan.TransferFacts) { f.Peer.Status.Conditions = notReady(v1alpha1.ReasonPeerUnreachable) }, "", "",
		},
	} {
		transfer, facts := viaTransfer()
		test.change(&facts)
		d := plan.DecideTransfer(transfer, facts, agentpod.Image{})
		if (d.Start != nil) != (test.reason == "") {
			t.Errorf("%s: started %t", name, d.Start != nil)
		}
		if test.reason == "" {
			continue
		}
		found := meta.FindStatusCondition(d.Status.Conditions, test.condition)
		if found == nil || found.Status != metav1.ConditionTrue || found.Reason != test.reason {
			t.Errorf("%s: %+v", name, d.Status.Conditions)
		}
	}
}

func TestViaSpecs(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.TransferSpec){
		"no name":   func(s *v1alpha1.TransferSpec) { s.Destination.Via.ObjectStore.Name = "" },
		"no peer":   func(s *v1alpha1.TransferSpec) { s.Destination.Peer = "" },
		"a receipt": func(s *v1alpha1.TransferSpec) { s.Receipt = true },
		"from a store": func(s *v1alpha1.TransferSpec) {
			s.Source = v1alpha1.TransferSource{ObjectStore: storePath("vault", "/a")}
		},
	} {
		transfer, _ := viaTransfer()
		if err := plan.ValidateTransfer(transfer.Spec); err != nil {
			t.Fatal(err)
		}
		change(&transfer.Spec)
		if err := plan.ValidateTransfer(transfer.Spec); err == nil {
			t.Errorf("%s: valid", name)
		}
	}
}
