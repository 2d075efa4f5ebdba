// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package transfer_test

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/controllertest"
)

// inOtherNamespace is a Transfer of another namespace into the very place that f's Transfer writes into. Its source
// does not exist.
func (f *fixture) inOtherNamespace(namespace string) *fixture {
	other := f.transfer.DeepCopy()
	other.Namespace, other.Name = namespace, "payroll-nightly"
	other.Spec.Destination.Namespace = f.namespace
	return &fixture{T: f.T, namespace: namespace, transfer: other}
}

// H1: a Transfer of another namespace that nobody granted anything, suspended or not, older or not, keeps nobody
// waiting.
func TestTransferOfAStranger(t *testing.T) {
	for name, local := range map[string]bool{"to a peer": false, "within the cluster": true} {
		for _, suspended := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, suspended %v", name, suspended), func(t *testing.T) {
				f := prepare(t)
				if local {
					cluster.Claim(t, f.namespace, "copy")
					f.transfer.Spec.Destination.Peer = ""
				}
				evil := f.inOtherNamespace(cluster.Namespace(t))
				evil.transfer.Spec.Suspend = suspended
				evil.create()
				controllertest.Eventually(t, func() error {
					if err := evil.refresh(); err != nil {
						return err
					}
					if evil.transfer.Status.Phase == "" {
						return fmt.Errorf("the manager has not looked at it yet")
					}
					return nil
				})
				f.create()
				f.wait(v1alpha1.TransferStarting, v1alpha1.ConditionReconciling, v1alpha1.ReasonStarting)
				f.job(1)
			})
		}
	}
}

// H1: a Transfer of another namespace that a PeerGrant allows keeps others waiting while its attempt lasts, and they do
// not learn its name.
func TestTransferOfAGuest(t *testing.T) {
	f := prepareLocal(t)
	cluster.Claim(t, f.namespace, "copy")
	guest := f.inOtherNamespace(cluster.Namespace(t))
	cluster.Claim(t, guest.namespace, "ledger")
	cluster.Create(t, &v1alpha1.PeerGrant{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "from-guest"},
		Spec: v1alpha1.PeerGrantSpec{
			From: []v1alpha1.PeerGrantFrom{{Namespaces: []string{guest.namespace}}},
			To:   []v1alpha1.PeerGrantTo{{Kind: v1alpha1.GrantedPersistentVolumeClaim, Name: "copy"}},
		},
	})
	f.create()
	f.job(1)
	guest.create()
	guest.wait(v1alpha1.TransferPending, v1alpha1.ConditionStalled, v1alpha1.ReasonDestinationInUse)
	for _, condition := range guest.transfer.Status.Conditions {
		if strings.Contains(condition.Message, f.transfer.Name) ||
			strings.Contains(condition.Message, f.transfer.Spec.Destination.PersistentVolumeClaim.Path) {
			t.Errorf("the guest is told: %s", condition.Message)
		}
	}
	// It is woken when the place is free.
	cluster.EndPod(t, cluster.RunPod(t, f.job(1), f.namespace), 0, encode(t, succeeded()))
	f.wait(v1alpha1.TransferComplete, v1alpha1.ConditionReady, v1alpha1.ReasonSucceeded)
	guest.wait(v1alpha1.TransferStarting, v1alpha1.ConditionReconciling, v1alpha1.ReasonOpening)
}
