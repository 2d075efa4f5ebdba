// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package staging_test

import (
	"context"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/plan"
)

// earlier are times of runs, the newest first: of one hour, one day, one week, one month and one year, and of the year
// before.
var earlier = []struct{ name, time string }{
	{"a", "2020-12-31T23:30:00Z"}, {"b", "2020-12-31T23:10:00Z"}, {"c", "2020-12-31T22:00:00Z"},
	{"d", "2020-12-30T22:00:00Z"}, {"e", "2020-12-20T22:00:00Z"}, {"f", "2020-11-20T22:00:00Z"},
	{"g", "2019-06-01T22:00:00Z"},
}

// prunesHistory: each field of a retention keeps the newest of its kind in the cluster, and all else is deleted.
func prunesHistory(t *testing.T) {
	for name, test := range map[string]struct {
		retention v1alpha1.SnapshotRetention
		// kept of those earlier ones, beside that of the run.
		kept []string
	}{
		"Last":    {v1alpha1.SnapshotRetention{Last: 3}, []string{"a", "b"}},
		"Hourly":  {v1alpha1.SnapshotRetention{Hourly: 3}, []string{"a", "c"}},
		"Daily":   {v1alpha1.SnapshotRetention{Daily: 3}, []string{"a", "d"}},
		"Weekly":  {v1alpha1.SnapshotRetention{Weekly: 3}, []string{"a", "e"}},
		"Monthly": {v1alpha1.SnapshotRetention{Monthly: 3}, []string{"a", "f"}},
		"Yearly":  {v1alpha1.SnapshotRetention{Yearly: 3}, []string{"a", "g"}},
		"Any":     {v1alpha1.SnapshotRetention{Last: 2, Weekly: 3, Yearly: 3}, []string{"a", "e", "g"}},
		"OfNone":  {v1alpha1.SnapshotRetention{Daily: 1}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, r := prepareHistory(t), reconciler(manager.GetClient())
			s.transfer.Spec.Destination.Snapshot.Retention.Last = 100
			cluster.Create(t, s.transfer)
			s.until("the first", r, s.kept(1))
			newest := s.transfer.Status.Snapshots[0].Name
			s.had()
			s.until("those had", r, s.kept(1+len(earlier)))
			s.atRest(r)
			s.transfer.Spec.Destination.Snapshot.Retention = test.retention
			if err := cluster.Client.Update(context.Background(), s.transfer); err != nil {
				t.Fatal(err)
			}
			s.until("fewer", r, s.kept(1+len(test.kept)))
			s.atRest(r)
			for i, want := range append([]string{newest}, test.kept...) {
				if got := s.transfer.Status.Snapshots[i].Name; got != want {
					t.Errorf("%d: %s, want %s", i, got, want)
				}
			}
		})
	}
}

// had adds snapshots of earlier runs, as if the Transfer had been there long.
func (s *storage) had() {
	s.Helper()
	for _, one := range earlier {
		at, err := time.Parse(time.RFC3339, one.time)
		if err != nil {
			s.Fatal(err)
		}
		o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
			"source": map[string]any{"persistentVolumeClaimName": "copy"},
		}}}
		o.SetGroupVersionKind(kind("VolumeSnapshot"))
		o.SetNamespace(s.namespace)
		o.SetName(one.name)
		o.SetLabels(plan.TransferHistory(s.transfer).Labels("run-" + one.name))
		cluster.Create(s, o)
		s.transfer.Status.Snapshots = append(slices.Clone(s.transfer.Status.Snapshots), v1alpha1.SnapshotStatus{
			Name: one.name, RunID: "run-" + one.name, Time: metav1.NewTime(at), State: v1alpha1.SnapshotReady,
		})
	}
	if err := cluster.Client.Status().Update(context.Background(), s.transfer); err != nil {
		s.Fatal(err)
	}
}
