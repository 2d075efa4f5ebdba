// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package compressionpolicy_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/compressionpolicy"
	"github.com/lighterage/lighterage/controllers/controllertest"
	policies "github.com/lighterage/lighterage/controllers/policy"
	"github.com/lighterage/lighterage/controllers/usage"
)

// stand is an API server and a manager that may be replaced, with a clock of its own.
type stand struct {
	*testing.T
	cluster *controllertest.Cluster
	clock   *testclock.FakePassiveClock
	manager controllertest.Manager
	stop    func()
}

// restart starts a manager, in place of the one before if there is one.
func (s *stand) restart() {
	s.Helper()
	if s.stop != nil {
		s.stop()
	}
	var err error
	s.stop, err = s.cluster.StartManager(func(mgr controllertest.Manager) error {
		s.manager = mgr
		return compressionpolicy.Setup(mgr, compressionpolicy.Options{Clock: s.clock})
	})
	if err != nil {
		s.Fatal(err)
	}
}

// look reconciles as the next turn would, once the cache has seen what the API server has.
func (s *stand) look(p *v1alpha1.CompressionPolicy) {
	s.Helper()
	r := compressionpolicy.NewReconciler(s.manager.GetClient(), compressionpolicy.Options{Clock: s.clock})
	controllertest.Eventually(s, func() error {
		if _, err := r.Reconcile(s.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(p)}); err != nil {
			return err
		}
		return s.cluster.Client.Get(s.Context(), client.ObjectKeyFromObject(p), p)
	})
}

// until looks until the canary has the state.
func (s *stand) until(p *v1alpha1.CompressionPolicy, state v1alpha1.CanaryState, reason string) {
	s.Helper()
	controllertest.Eventually(s, func() error {
		s.look(p)
		if p.Status.Canary == nil || p.Status.Canary.State != state {
			return fmt.Errorf("%+v, want %s", p.Status.Canary, state)
		}
		said := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionCanaryFinished)
		if said == nil || said.Reason != reason {
			return fmt.Errorf("%+v, want %s", said, reason)
		}
		return nil
	})
}

// run makes Transfers that name the policy and have moved a GiB with what it resolves to for each of them: perGiB are
// the CPU seconds that it takes at a level.
func (s *stand) run(p *v1alpha1.CompressionPolicy, perGiB map[v1alpha1.CompressionLevel]int64) {
	s.Helper()
	namespace := s.cluster.Namespace(s)
	sides := map[bool]int{}
	for i := 0; sides[true] < 4 || sides[false] < 4; i++ {
		t := &v1alpha1.Transfer{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprint("t-", i)},
			Spec: v1alpha1.TransferSpec{
				Source: v1alpha1.TransferSource{PersistentVolumeClaim: v1alpha1.PersistentVolumeClaimPath{ClaimName: "a"}},
				Destination: v1alpha1.TransferDestination{
					Peer: "west", PersistentVolumeClaim: v1alpha1.DestinationClaim{
						PersistentVolumeClaimPath: v1alpha1.PersistentVolumeClaimPath{ClaimName: "b"},
					},
				},
				Compression: &v1alpha1.Compression{PolicyName: p.Name},
			},
		}
		s.cluster.Create(s, t)
		resolved, err := policies.Resolve(t.UID, t.Spec.Compression, []v1alpha1.CompressionPolicy{*p}, nil)
		if err != nil || resolved.Canary == nil {
			s.Fatalf("%+v, %v", resolved, err)
		}
		sides[resolved.Canary.Applies]++
		used := usage.Usage{Send: usage.CPU{usage.Process: perGiB[resolved.Level] * 1e9}, Uncompressed: 1 << 30}
		t.Status.Policy = resolved.Status()
		t.Status.Run = &v1alpha1.RunStatus{ID: "r", Usage: used.Status()}
		if err := s.cluster.Client.Status().Update(s.Context(), t); err != nil {
			s.Fatal(err)
		}
	}
}

// TestCanaryAgainstAnAPIServer: a worse canary is rolled back before its end and a better one promoted at its end, by
// the status alone, whichever manager looks.
func TestCanaryAgainstAnAPIServer(t *testing.T) {
	ctrl.SetLogger(logr.Discard())
	cluster, err := controllertest.Start("../../config/crd/bases")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cluster.Stop() })
	s := &stand{T: t, cluster: cluster, clock: testclock.NewFakePassiveClock(time.Now().Truncate(time.Second))}
	s.restart()
	t.Cleanup(func() { s.stop() })
	for _, c := range []struct {
		name   string
		high   int64
		passes time.Duration
		state  v1alpha1.CanaryState
		reason string
		level  v1alpha1.CompressionLevel
	}{
		{"worse", 30, time.Minute, v1alpha1.CanaryRolledBack, v1alpha1.ReasonCanaryRolledBack, v1alpha1.CompressionFast},
		{"better", 5, 20 * time.Minute, v1alpha1.CanaryPromoted, v1alpha1.ReasonCanaryPromoted, v1alpha1.CompressionHigh},
	} {
		p := &v1alpha1.CompressionPolicy{ObjectMeta: metav1.ObjectMeta{Name: c.name}, Spec: v1alpha1.CompressionPolicySpec{
			Prices: &v1alpha1.Prices{Currency: "EUR", CPUHour: "1", NetworkGiB: "1"},
			Canary: &v1alpha1.CompressionCanary{
				Settings: v1alpha1.CanarySettings{Level: v1alpha1.CompressionHigh}, SharePercent: 50,
				Duration: &metav1.Duration{Duration: 20 * time.Minute},
			},
		}}
		cluster.Create(t, p)
		spec := p.Spec.DeepCopy()
		s.until(p, v1alpha1.CanaryMeasuring, v1alpha1.ReasonCanaryMeasuring)
		s.run(p, map[v1alpha1.CompressionLevel]int64{v1alpha1.CompressionFast: 10, v1alpha1.CompressionHigh: c.high})
		began := p.Status.Canary.StartTime.DeepCopy()

		s.restart()
		s.clock.SetTime(s.clock.Now().Add(c.passes))
		s.until(p, c.state, c.reason)
		if got := p.Status.Canary; !got.StartTime.Equal(began) || got.Inside.Objects < 4 || got.Outside.Objects < 4 ||
			got.Objective != v1alpha1.ObjectiveCost || got.Currency != "EUR" || got.ChangePercent == "" {
			t.Errorf("%s: %+v", c.name, got)
		}
		version := p.ResourceVersion
		s.restart()
		s.look(p)
		if p.ResourceVersion != version {
			t.Errorf("%s: it was written without a change: %+v", c.name, p.Status)
		}
		if diff := cmp.Diff(*spec, p.Spec); diff != "" || p.Generation != 1 {
			t.Errorf("%s: the spec was written: %s", c.name, diff)
		}
		for _, field := range p.ManagedFields {
			if field.Subresource == "" && field.Manager == "lighterage" {
				t.Errorf("%s: %+v", c.name, field)
			}
		}
		for _, uid := range []string{"1", "2", "3", "4", "5", "6", "7", "8"} {
			got, err := policies.Resolve(
				types.UID(uid), &v1alpha1.Compression{PolicyName: p.Name}, []v1alpha1.CompressionPolicy{*p}, nil,
			)
			if err != nil || got.Level != c.level {
				t.Errorf("%s: an object has %+v, %v", c.name, got, err)
			}
		}

		// Another bound is another canary, and without one nothing is left of it.
		p.Spec.Canary.SharePercent = 20
		if err := cluster.Client.Update(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		s.until(p, v1alpha1.CanaryMeasuring, v1alpha1.ReasonCanaryMeasuring)
		if p.Status.Canary.Inside.Objects != 0 || p.Status.Canary.StartTime.Equal(began) {
			t.Errorf("%s: %+v", c.name, p.Status.Canary)
		}
		p.Spec.Canary = nil
		if err := cluster.Client.Update(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		controllertest.Eventually(t, func() error {
			s.look(p)
			if p.Status.Canary != nil || meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionCanaryFinished) != nil {
				return fmt.Errorf("%+v", p.Status)
			}
			return nil
		})
	}
}

// TestCanaryRules: what the API server rejects.
func TestCanaryRules(t *testing.T) {
	cluster, err := controllertest.Start("../../config/crd/bases")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cluster.Stop() })
	zstd := v1alpha1.CanarySettings{Codecs: []v1alpha1.Codec{v1alpha1.CodecZstd}}
	high := v1alpha1.CanarySettings{Level: v1alpha1.CompressionHigh}
	for name, spec := range map[string]v1alpha1.CompressionPolicySpec{
		"spec.canary.settings":     {Canary: &v1alpha1.CompressionCanary{}},
		"spec.canary.sharePercent": {Canary: &v1alpha1.CompressionCanary{Settings: high, SharePercent: 51}},
		"spec.canary.duration": {Canary: &v1alpha1.CompressionCanary{
			Settings: high, Duration: &metav1.Duration{Duration: time.Minute},
		}},
		"software.disabled": {
			Software: &v1alpha1.SoftwareCompression{Disabled: true}, Canary: &v1alpha1.CompressionCanary{Settings: zstd},
		},
		"placement": {
			Placement: v1alpha1.PlacementRequireHardware, Canary: &v1alpha1.CompressionCanary{Settings: zstd},
		},
	} {
		p := &v1alpha1.CompressionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "rejected"}, Spec: spec}
		if err := cluster.Client.Create(t.Context(), p); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
