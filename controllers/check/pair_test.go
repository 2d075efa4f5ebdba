// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/pki"
)

// linked are two clusters that know each other.
func linked(t *testing.T) (east, west Side) {
	t.Helper()
	east, west = Side{"east", healthy(t)}, Side{"west", healthy(t)}
	join := func(from, to Side) {
		p := &from.Facts.Peers.Value[0]
		p.Name, p.Spec.Endpoint, p.Spec.CABundle = to.Name, to.Name+".example:8443", to.Facts.CA.Value
		p.Status.KnownAs = from.Name
	}
	join(east, west)
	join(west, east)
	return east, west
}

func TestLinked(t *testing.T) {
	results := Pair(linked(t))
	if len(results) != 3 {
		t.Fatalf("%+v", results)
	}
	for _, r := range results {
		if r.Result != OK || r.Category == "" || r.Check == "" || r.Hint != "" || r.Docs != "" {
			t.Errorf("%+v", r)
		}
	}
	if _, err := os.Stat("../../" + pairDocs); err != nil {
		t.Error(err)
	}
}

// One fact is broken at a time, in west or in what east has of it; level is that of sending from east to west.
func TestLinkFindings(t *testing.T) {
	unreadable := forbidden("things")
	notFound := apierrors.NewNotFound(corev1.Resource("configmaps"), pki.CAName)
	for name, test := range map[string]struct {
		change func(east, west *Facts)
		check  string
		level  Level
		says   string
	}{
		"clocks": {func(_, west *Facts) {
			west.ServerTime.Value = west.ServerTime.Value.Add(20 * time.Minute)
		}, "clocks", Error, "20m0s"},
		"clocks, a little": {func(east, _ *Facts) {
			east.Now = east.Now.Add(10 * time.Second) // Its API server answered later, and its clock stood still.
		}, "clocks", Warning, "10s"},
		"no time":        {func(east, _ *Facts) { east.ServerTime.Err = unreadable }, "clocks", Skipped, "forbidden"},
		"no Peers":       {func(east, _ *Facts) { east.Peers.Err = unreadable }, "peer", Skipped, "forbidden"},
		"no CA":          {func(_, west *Facts) { west.CA.Err = unreadable }, "peer", Skipped, "forbidden"},
		"missing CA":     {func(_, west *Facts) { west.CA.Err = notFound }, "peer", Error, pki.CAName},
		"own CA missing": {func(east, _ *Facts) { east.CA.Err = notFound }, "peer", Error, pki.CAName},
		"a bad CA":       {func(_, west *Facts) { west.CA.Value = []byte("x") }, "peer", Error, "ConfigMap"},
		"no Peer":        {func(east, _ *Facts) { east.Peers.Value = nil }, "peer", Error, "no Peer"},
		"another CA":     {func(east, _ *Facts) { east.Peers.Value[0].Spec.CABundle = nil }, "peer", Error, "no Peer"},
		"one cluster":    {func(east, west *Facts) { west.CA.Value = east.CA.Value }, "peer", Error, "same CA"},
		"another place": {
			func(east, _ *Facts) { east.Peers.Value[0].Status.KnownAs = "x" },
			"peer", Error, "knows it as east",
		},
		"not Ready": {func(east, _ *Facts) { east.Peers.Value[0].Status.Conditions = nil }, "peer", Error, "not Ready"},
		"receives only": {
			func(east, _ *Facts) { east.Peers.Value[0].Spec.Endpoint = "" },
			"peer", OK, "nothing can be sent",
		},
		"two Peers": {func(east, _ *Facts) {
			second := *east.Peers.Value[0].DeepCopy()
			second.Name = "second"
			east.Peers.Value = append(east.Peers.Value, second)
		}, "peer", Error, "west, second"},
		"rotation": {func(east, west *Facts) {
			next, _, err := pki.NewCA("west", now)
			if err != nil {
				panic(err)
			}
			west.CA.Value = slices.Concat(next.CertificatePEM, west.CA.Value)
		}, "peer", Warning, "rotation"},
	} {
		t.Run(name, func(t *testing.T) {
			east, west := linked(t)
			test.change(east.Facts, west.Facts)
			results := Pair(east, west)
			i := slices.IndexFunc(results, func(r Result) bool { return r.Check == test.check })
			r := results[i]
			if r.Result != test.level || !strings.Contains(r.Message, test.says) || (r.Result == OK) != (r.Hint == "") {
				t.Errorf("%+v", r)
			}
		})
	}
}

// A Peer without a name in the other cluster is the fault of that cluster's side alone.
func TestOneDirection(t *testing.T) {
	east, west := linked(t)
	west.Facts.Peers.Value = []v1alpha1.Peer{}
	results := Pair(east, west)
	if results[1].Result != OK || results[2].Result != Error || !strings.Contains(results[2].Message, "cluster west has no") {
		t.Errorf("%+v", results)
	}
	if bytes.Equal(east.Facts.CA.Value, west.Facts.CA.Value) {
		t.Error("the clusters have one CA")
	}
}
