// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package usedby_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/usage"
	"github.com/lighterage/lighterage/controllers/usedby"
)

var now = time.Date(2026, 11, 2, 12, 0, 0, 0, time.UTC)

func transfer(peer string, began time.Time, send, receive int64, currency string) usedby.Use {
	used := usage.Usage{
		Send: usage.CPU{usage.Process: send, usage.Network: 1}, Receive: usage.CPU{usage.Process: receive},
		Uncompressed: 8, Compressed: 4, Wire: 5,
	}
	t := &v1alpha1.Transfer{}
	t.Spec.Destination.Peer = peer
	t.Status.Run = &v1alpha1.RunStatus{
		StartTime: &metav1.Time{Time: began}, Usage: used.Status(),
		Cost: &v1alpha1.CostStatus{Currency: currency, CPU: "1.5", Network: "2", Saved: "-0.25"},
	}
	return usedby.OfTransfer(t)
}

func TestSum(t *testing.T) {
	if got := usedby.Sum(nil, nil, now); got != nil {
		t.Errorf("of nothing: %+v", got)
	}
	endpoint := usedby.OfEndpoint(&v1alpha1.HTTPEndpoint{})
	uses := []usedby.Use{
		transfer("west", now.Add(-time.Hour), 2e9, 9e9, "EUR"), transfer("", now.Add(-2*time.Hour), 1e9, 1e9, "EUR"),
		transfer("west", now.Add(-3*time.Hour), 0, 0, "USD"), endpoint,
	}
	first := usedby.Sum(nil, uses, now)
	if diff := cmp.Diff(&v1alpha1.UsedByStatus{
		Objects:     []v1alpha1.UsingObjects{{Kind: "HTTPEndpoint", Count: 1}, {Kind: "Transfer", Count: 3}},
		LastUseTime: &metav1.Time{Time: now.Add(-time.Hour)}, UncompressedBytes: 24, CompressedBytes: 12, WireBytes: 15,
		CPUSeconds: "4.000000003", // what another cluster claims is not in it
		Costs: []v1alpha1.CurrencyCost{
			{Currency: "EUR", CPU: "3.0000", Network: "4.0000", Saved: "-0.5000"},
			{Currency: "USD", CPU: "1.5000", Network: "2.0000", Saved: "-0.2500"},
		},
		Time: &metav1.Time{Time: now},
	}, first); diff != "" {
		t.Error(diff)
	}
	if got := usedby.Sum(first, uses, now.Add(time.Hour)); got != first {
		t.Errorf("the same figures are written again: %+v", got)
	}
	if got := usedby.Sum(first, nil, now.Add(59*time.Second)); got != first {
		t.Errorf("written twice within a minute: %+v", got)
	}
	later := usedby.Sum(first, nil, now.Add(usedby.Interval))
	if diff := cmp.Diff(&v1alpha1.UsedByStatus{
		LastUseTime: &metav1.Time{Time: now.Add(-time.Hour)}, Time: &metav1.Time{Time: now.Add(usedby.Interval)},
	}, later); diff != "" {
		t.Errorf("after all objects were deleted: %s", diff)
	}
	if got := usedby.Sum(first, nil, now.Add(-time.Hour)); got == first {
		t.Error("a clock that was set back stops it")
	}
}
