// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package objectstore_test

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lighterage/lighterage/agent/objectstore"
	"github.com/lighterage/lighterage/agent/objectstore/objectstoretest"
)

// broken are the promises of verdicts that are not kept, by name.
func broken(verdicts []objectstore.Verdict) []string {
	found := map[string]bool{}
	for _, v := range verdicts {
		if v.Problem != nil {
			found[string(v.Promise)] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

func TestProbe(t *testing.T) {
	reads := []string{http.MethodGet, http.MethodHead}
	for name, test := range map[string]struct {
		faults objectstoretest.Faults
		broken string
	}{
		"none":                     {},
		"lists uploads of a key":   {faults: objectstoretest.Faults{ExactUploads: true}},
		"ignores conditions":       {objectstoretest.Faults{IgnoreConditions: true}, "ConditionalComplete ConditionalPut"},
		"ignores them on complete": {objectstoretest.Faults{IgnoreConditionalComplete: true}, "ConditionalComplete"},
		"ignores ranges":           {objectstoretest.Faults{IgnoreRange: true}, "Multipart RangedGet"},
		"lists what was before":    {objectstoretest.Faults{StaleLists: true}, "List"},
		"lists for ever":           {objectstoretest.Faults{EndlessLists: true}, "Delete List"},
		"lists wrong ETags":        {objectstoretest.Faults{WrongETags: true}, "Multipart"},
		"keeps what was aborted":   {objectstoretest.Faults{KeepAborted: true}, "Abort"},
		"keeps what was deleted":   {objectstoretest.Faults{KeepDeleted: true}, "Delete"},
		"denies deletion":          {objectstoretest.Faults{Denied: []string{http.MethodDelete}}, "Abort Delete"},
		"reads what was before":    {objectstoretest.Faults{StaleReads: true}, "ReadAfterWrite"},
		"denies starting of uploads": {
			objectstoretest.Faults{Denied: []string{http.MethodPost}},
			"Abort ConditionalComplete Multipart",
		},
		"reads are not permitted": {
			objectstoretest.Faults{Denied: reads},
			"Abort ConditionalPut Delete List Multipart RangedGet ReadAfterWrite",
		},
	} {
		server, store := start(t)
		server.Set(test.faults, "me")
		verdicts, err := objectstore.Probe(t.Context(), store)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if len(verdicts) != 8 {
			t.Errorf("%s: %d verdicts", name, len(verdicts))
		}
		got := broken(verdicts)
		for _, want := range strings.Fields(test.broken) {
			if !slices.Contains(got, want) {
				t.Errorf("%s: %s is kept", name, want)
			}
		}
		if test.broken == "" && len(got) > 0 {
			t.Errorf("%s: %v are not kept", name, verdicts)
		}
		if test.faults.KeepDeleted || test.faults.KeepAborted || test.faults.Denied != nil {
			continue // then something has to stay
		}
		if left := server.Keys(); len(left) > 0 || server.Uploads() > 0 {
			t.Errorf("%s: it leaves %v and %d uploads", name, left, server.Uploads())
		}
		for _, promise := range objectstore.Wire(verdicts) {
			if promise.GetKept() != (promise.GetMessage() == "") || len(promise.GetMessage()) > 200 {
				t.Errorf("%s: %v", name, promise)
			}
		}
	}
}

// TestProbeStops has the server answer no more after some requests: the probe fails, and cleans up what it can.
func TestProbeStops(t *testing.T) {
	whole, store := start(t)
	if _, err := objectstore.Probe(t.Context(), store); err != nil {
		t.Fatal(err)
	}
	const others = 2 // requests about what other probes left, which are best effort
	for n := 0; n < len(whole.Requests())-others; n += 9 {
		server, store := start(t)
		left, storm := n, 2*objectstoretest.Retry.Tries // as many as one request and the first one of cleaning take
		server.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
			if left--; left >= 0 || storm == 0 {
				return false
			}
			storm--
			w.WriteHeader(http.StatusServiceUnavailable)
			return true
		})
		if _, err := objectstore.Probe(t.Context(), store); !errors.Is(err, objectstore.ErrUnavailable) {
			t.Errorf("after %d requests: %v", n, err)
		}
		if storm > 0 {
			t.Errorf("after %d requests: it did not clean", n)
		}
	}
}

// TestProbeWithExpiredKey: credentials that expire in the middle are an error and say nothing of promises.
func TestProbeWithExpiredKey(t *testing.T) {
	server, store := start(t)
	server.Intercept(objectstoretest.Times(1, http.MethodPost, 400, "ExpiredToken"))
	if verdicts, err := objectstore.Probe(t.Context(), store); !errors.Is(err, objectstore.ErrAccessDenied) {
		t.Errorf("%+v, %v", verdicts, err)
	}
}

// TestProbeIsStopped has the context end in the middle.
func TestProbeIsStopped(t *testing.T) {
	server, store := start(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	left := 20
	server.Intercept(func(http.ResponseWriter, *http.Request) bool {
		if left--; left == 0 {
			cancel()
		}
		return false
	})
	if _, err := objectstore.Probe(ctx, store); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if left := server.Keys(); len(left) > 0 || server.Uploads() > 0 {
		t.Errorf("it leaves %v and %d uploads", left, server.Uploads())
	}
}

// TestProbeCleansOthers has an earlier probe have been killed, and another be under way.
func TestProbeCleansOthers(t *testing.T) {
	server, store := start(t)
	const dir = "east/bank/" + objectstore.ProbeDirectory
	killed, running := dir+strings.Repeat("k", 26)+"/", dir+strings.Repeat("r", 26)+"/"
	for _, name := range []string{"a", "sub/b", "c", "d", "e", "m"} {
		server.Add(killed+name, []byte("x"), time.Now().Add(-2*time.Hour))
	}
	server.Add(running+"a", []byte("x"), time.Now())
	foreign := []string{dir + "accounts/a", killed + "accounts"}
	for _, key := range foreign {
		server.Add(key, []byte("x"), time.Now().Add(-2*time.Hour))
	}
	server.Add("east/bank/data", []byte("x"), time.Now().Add(-2*time.Hour))
	if _, err := objectstore.Probe(t.Context(), store); err != nil {
		t.Fatal(err)
	}
	want := append(foreign, running+"a", "east/bank/data")
	if got := server.Keys(); !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
	for _, request := range server.Requests() {
		if strings.HasPrefix(request, http.MethodDelete) && !strings.Contains(request, objectstore.ProbeDirectory) {
			t.Errorf("it touches what is not its own: %s", request)
		}
	}
}
