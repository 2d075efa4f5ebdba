// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package transfer_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/controllertest"
	"github.com/lighterage/lighterage/controllers/pki"
)

// limitPeer sets the limits of the namespace's Peer, and waits until the manager knows of them.
func (f *tenants) limitPeer(limits *v1alpha1.PeerLimits) {
	f.Helper()
	peer := &v1alpha1.Peer{}
	key := client.ObjectKey{Name: f.namespace}
	if err := cluster.Client.Get(context.Background(), key, peer); err != nil {
		f.Fatal(err)
	}
	patch := client.MergeFrom(peer.DeepCopy())
	peer.Spec.Limits = limits
	if err := cluster.Client.Patch(context.Background(), peer, patch); err != nil {
		f.Fatal(err)
	}
	controllertest.Eventually(f, func() error {
		seen := &v1alpha1.Peer{}
		if err := cached.Get(context.Background(), key, seen); err != nil {
			return err
		}
		if seen.Generation < peer.Generation {
			return errors.New("the manager does not know of the limits")
		}
		return nil
	})
}

// TestPeerLimits: two namespaces share what a Peer allows. The one that has nothing is next, however young it is; those
// that wait show their place, and nothing of them exists; at rest nothing is written.
func TestPeerLimits(t *testing.T) {
	f := prepareTenants(t)
	other := &tenants{fixture: prepareSerially(t)}
	f.limitPeer(&v1alpha1.PeerLimits{RunningTransfers: ptr.To[int32](2)})
	a := f.add("a", "")
	f.settle(0, "a")
	f.add("b", "")
	f.settle(0, "a", "b")
	c := f.add("c", "")
	f.settle(1, "a", "b")
	d := other.make("d")
	d.Spec.Destination.Peer = f.namespace
	cluster.Create(t, d)
	other.settle(1)

	shows := func(transfer *v1alpha1.Transfer, place, waiting int32) {
		t.Helper()
		controllertest.Eventually(t, func() error {
			if err := cluster.Client.Get(context.Background(), client.ObjectKeyFromObject(transfer), transfer); err != nil {
				return err
			}
			queued := transfer.Status.Queued
			if queued == nil || queued.Place != place || queued.Waiting != waiting {
				return fmt.Errorf("%s: %+v, want %d of %d", transfer.Name, queued, place, waiting)
			}
			return nil
		})
	}
	shows(d, 1, 2)
	ready := meta.FindStatusCondition(d.Status.Conditions, v1alpha1.ConditionReady)
	if d.Status.Phase != v1alpha1.TransferQueued || !strings.Contains(ready.Message, "number 1 of 2") ||
		!strings.Contains(ready.Message, "spec.limits.runningTransfers") {
		t.Errorf("%s: %+v", d.Status.Phase, ready)
	}
	for _, waits := range []*v1alpha1.Transfer{c, d} {
		if jobs := cluster.Jobs(t, waits.Namespace, v1alpha1.TransferLabel, string(waits.UID)); len(jobs) > 0 {
			t.Errorf("%s has a Job and is queued", waits.Name)
		}
	}
	version := d.ResourceVersion
	touch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":{"example.com/look":"1"}}}`))
	if err := cluster.Client.Patch(context.Background(), d, touch); err != nil {
		t.Fatal(err)
	}
	touched := d.ResourceVersion
	time.Sleep(time.Second)
	shows(d, 1, 2)
	if touched == version || d.ResourceVersion != touched {
		t.Errorf("a second look writes: %s, %s, %s", version, touched, d.ResourceVersion)
	}

	f.end(a)
	other.settle(0, "d")
	shows(c, 1, 1)
	f.limitPeer(nil)
	f.settle(0, "b", "c")
}

// TestPeerBandwidth: a run has the least until its agent answers, and then all. It gives back half when another one has
// come, which has that half when its agent answers; when that ends, the first has all again.
func TestPeerBandwidth(t *testing.T) {
	f := prepareTenants(t)
	f.limitPeer(&v1alpha1.PeerLimits{Bandwidth: ptr.To(resource.MustParse("10Mi"))})
	share := func(transfer *v1alpha1.Transfer, want int64, told bool) {
		t.Helper()
		controllertest.Eventually(t, func() error {
			if err := cluster.Client.Get(context.Background(), client.ObjectKeyFromObject(transfer), transfer); err != nil {
				return err
			}
			run := transfer.Status.Run
			if run == nil || run.BandwidthShare == nil || run.BandwidthShare.Value() != want {
				return fmt.Errorf("%s has %+v, want %d", transfer.Name, run, want)
			}
			limit, given := agents.Limited(pki.SendServerName(string(transfer.UID)))
			if given != told || told && int64(limit) != want {
				return fmt.Errorf("the agent of %s was told %d, %t", transfer.Name, limit, given)
			}
			return nil
		})
	}
	first := f.add("first", "")
	f.settle(0, "first")
	share(first, 256<<10, false)
	f.pod(first)
	share(first, 10<<20, true)
	second := f.add("second", "")
	f.settle(0, "first", "second")
	share(first, 5<<20, true)
	share(second, 256<<10, false)
	pod := f.pod(second)
	share(second, 5<<20, true)
	cluster.EndPod(t, pod, 0, encode(t, succeeded()))
	share(first, 10<<20, true)
}
