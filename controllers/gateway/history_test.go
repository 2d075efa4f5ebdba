// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package gateway_test

import (
	"context"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/pki"
)

func keeping(run string) *wirev1.OpenRequest {
	request := ledger(run, 1)
	request.Snapshot = &wirev1.SnapshotRequest{TransferUid: "uid", VolumeSnapshotClassName: "fast", Last: 2, Daily: 3}
	return request
}

// A run that is to keep history takes a grant that says so, and its Delivery has what was asked for.
func TestSnapshotsAreGrantedByName(t *testing.T) {
	east := newCA(t, "east")
	grant := grantOf("vault", "east", "bank", "ledger-copy")
	w := newWest(t, nil, peerOf("east", east), grant)
	certificate := issue(t, east, sender("east"), time.Now())
	refused := open(t, w.dial(certificate), keeping("7f3ca")).refused(wirev1.FailureReason_FAILURE_REASON_NOT_GRANTED)
	if !strings.Contains(refused, "maxSnapshots: 5") || len(w.deliveries()) > 0 {
		t.Errorf("%q, %v", refused, w.deliveries())
	}

	granted := grantOf("vault", "east", "bank", "ledger-copy")
	granted.Spec.To[0].MaxSnapshots = 5
	w = newWest(t, nil, peerOf("east", east), granted)
	open(t, w.dial(certificate), keeping("7f3ca")).pending()
	made := w.deliveries()
	if len(made) != 1 {
		t.Fatal(made)
	}
	if got := made[0].Spec.Destination.Snapshot; got == nil || got.TransferUID != "uid" ||
		got.VolumeSnapshotClassName != "fast" || got.Retention != (v1alpha1.SnapshotRetention{Last: 2, Daily: 3}) {
		t.Errorf("%+v", got)
	}
}

// The Delivery whose snapshot is not taken stays until it is, or for so long that it never will be.
func TestNewerRunAwaitsSnapshot(t *testing.T) {
	for name, test := range map[string]struct {
		age   time.Duration
		state v1alpha1.SnapshotState
		stays bool
	}{
		"taking":   {0, v1alpha1.SnapshotTaking, true},
		"taken":    {0, v1alpha1.SnapshotTaken, false},
		"too late": {time.Hour, v1alpha1.SnapshotTaking, false},
	} {
		east := newCA(t, "east")
		granted := grantOf("vault", "east", "bank", "ledger-copy")
		granted.Spec.To[0].MaxSnapshots = 5
		w := newWest(t, nil, peerOf("east", east), granted)
		now := time.Now()
		open(t, w.dial(issue(t, east, sender("east"), now.Add(-time.Minute))), keeping("7f3ca")).pending()
		w.setStatus(ledgerKey("7f3ca", 1), func(d *v1alpha1.Delivery) {
			at := metav1.NewTime(now.Add(-test.age))
			d.Status.Phase = v1alpha1.DeliveryComplete
			d.Status.Snapshots = []v1alpha1.SnapshotStatus{{Name: "s", Time: at, StartTime: &at, State: test.state}}
		})
		newer := issueFor(t, east, sender("east"), now, func(c *pki.RunClaims) { c.Run = "7f3cb" })
		open(t, w.dial(newer), keeping("7f3cb")).pending()
		first := w.deliveries()[0]
		if stays := first.DeletionTimestamp.IsZero() && first.Spec.Transfer.Run == "7f3ca"; stays != test.stays {
			t.Errorf("%s: %+v", name, first)
		}
	}
}

// Only the manager of the peer whose run it was is told of snapshots.
func TestHistoryOfOthers(t *testing.T) {
	east, north := newCA(t, "east"), newCA(t, "north")
	granted := grantOf("vault", "east", "bank", "ledger-copy")
	granted.Spec.To[0].MaxSnapshots = 5
	w := newWest(t, nil, peerOf("east", east), peerOf("north", north), granted)
	now := time.Now()
	open(t, w.dial(issue(t, east, sender("east"), now)), keeping("7f3ca")).pending()
	ask := func(ca *pki.CA, identity pki.Identity, run string) (*wirev1.HistoryResponse, error) {
		return w.dial(issue(t, ca, identity, now)).History(context.Background(), &wirev1.HistoryRequest{
			Namespace: "bank", Name: "ledger", RunId: run,
		})
	}
	if answer, err := ask(east, manager("east"), "7f3ca"); err != nil || answer.GetGone() || answer.GetDecided() {
		t.Errorf("%v, %v", answer, err)
	}
	w.setStatus(ledgerKey("7f3ca", 1), func(d *v1alpha1.Delivery) {
		d.Status.Phase = v1alpha1.DeliveryComplete
		d.Status.Snapshots = []v1alpha1.SnapshotStatus{
			{Name: "s", RunID: "7f3ca", Time: metav1.NewTime(now), State: v1alpha1.SnapshotReady},
			{Name: "old", RunID: "7f3c0", Time: metav1.NewTime(now), State: v1alpha1.SnapshotRemoving},
		}
	})
	_, err := ask(east, sender("east"), "7f3ca")
	refusedWith(t, err, wirev1.FailureReason_FAILURE_REASON_PEER_UNTRUSTED)
	for _, other := range []struct {
		ca      *pki.CA
		cluster string
		run     string
	}{{north, "north", "7f3ca"}, {east, "east", "7f3cb"}} {
		answer, err := ask(other.ca, manager(other.cluster), other.run)
		if err != nil || !answer.GetGone() || len(answer.GetSnapshots()) > 0 {
			t.Errorf("%+v: %v, %v", other, answer, err)
		}
	}
	answer, err := ask(east, manager("east"), "7f3ca")
	all := answer.GetSnapshots()
	if err != nil || !answer.GetDecided() || len(all) != 1 || all[0].GetName() != "s" || all[0].GetState() != "Ready" {
		t.Errorf("%v, %v", answer, err)
	}
}
