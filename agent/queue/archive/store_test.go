// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package archive_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/objectstore"
	"github.com/lighterage/lighterage/agent/objectstore/objectstoretest"
	"github.com/lighterage/lighterage/agent/queue/archive"
	"github.com/lighterage/lighterage/agent/queue/store"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

const storePrefix = "east/archives"

// newStore returns a server and what has archives in it.
func newStore(t *testing.T) (*objectstoretest.Server, *objectstore.Store) {
	t.Helper()
	server := objectstoretest.New(t, "me")
	o := server.Options(storePrefix)
	o.CredentialsDirectory = objectstoretest.Credentials(t, "me", "hush")
	return server, objectstoretest.Open(t, o)
}

func (q *queue) storeArchiver(
	to *objectstore.Store, change func(*archive.Options, *archive.Settings),
) *archive.Archiver {
	return q.archiver("", func(o *archive.Options, s *archive.Settings) {
		o.Place = archive.Place{Store: to}
		if change != nil {
			change(o, s)
		}
	})
}

func (q *queue) storeRestorer(from *objectstore.Store, change func(*archive.RestoreOptions)) *archive.Restorer {
	return q.restorer("", func(o *archive.RestoreOptions) {
		o.Place = archive.Place{Store: from}
		if change != nil {
			change(o)
		}
	})
}

// each has one range for each message.
func each(_ *archive.Options, s *archive.Settings) { s.RangeBytes = 1 }

// dataSuffix ends the names of ranges.
const dataSuffix = ".jsonl.zst"

// named are the keys that end with a text.
func named(server *objectstoretest.Server, end string) []string {
	return slices.DeleteFunc(server.Keys(), func(key string) bool { return !strings.HasSuffix(key, end) })
}

func reasonOf(err error) wirev1.FailureReason { return failure.ToWire(err).GetReason() }

// roundTrip archives a queue to a store in two goes, and makes another of it, and one more of everything without the
// index.
func roundTrip(t *testing.T, at *objectstore.Store, loseIndex func(name string)) {
	t.Helper()
	from := newQueue(t, "orders", store.Settings{})
	from.put("orders.new.eu", "one", "Nats-Msg-Id", "id-1")
	from.put("orders", "two")
	from.put(store.DeadSubject("orders"), "three", "Lighterage-Dead-Reason", "rejected")
	s := from.archived(from.storeArchiver(at, nil), upTo(3))
	if s.Index.Messages != 3 || s.Index.Ranges != 1 || s.LastError != nil {
		t.Errorf("status %+v", s)
	}
	from.remove(2)
	from.put("orders", strings.Repeat("four ", 1000))
	s = from.archived(from.storeArchiver(at, nil), upTo(4))
	if s.Index.Messages != 4 || s.Index.Ranges != 2 {
		t.Errorf("taken over: %+v", s)
	}
	to := newQueue(t, "invoices", store.Settings{})
	if done := to.restore(to.storeRestorer(at, nil)); done.Messages != 3 || done.Path != s.Path {
		t.Errorf("restored %+v", done)
	}
	to.expect("invoices.new.eu=one", "$LIGHTERAGE.DEAD.invoices=three", "invoices="+strings.Repeat("four ", 1000))
	loseIndex(s.Path + "/index")
	all := newQueue(t, "all", store.Settings{})
	all.restore(all.storeRestorer(at, func(o *archive.RestoreOptions) { o.Everything = true }))
	all.expect("all.new.eu=one", "all=two", "$LIGHTERAGE.DEAD.all=three", "all="+strings.Repeat("four ", 1000))
	// Whoever goes on makes the index again.
	if s = from.archived(from.storeArchiver(at, nil), upTo(4)); s.Index.Messages != 4 || s.Index.Ranges != 2 {
		t.Errorf("without an index: %+v", s)
	}
	if _, err := at.Head(t.Context(), s.Path+"/index"); err != nil {
		t.Error(err)
	}
}

func TestStoreArchive(t *testing.T) {
	server, at := newStore(t)
	roundTrip(t, at, func(name string) {
		if err := at.Delete(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	})
	for _, key := range server.Keys() {
		if !strings.HasPrefix(key, storePrefix+"/orders.") {
			t.Errorf("%s is there", key)
		}
	}
	if server.Uploads() != 0 {
		t.Errorf("%d uploads are left", server.Uploads())
	}
}

// TestStoreCopies: each of two copies is written whatever becomes of the other, and either can be restored.
func TestStoreCopies(t *testing.T) {
	server, at := newStore(t)
	directory := t.TempDir()
	from := newQueue(t, "orders", store.Settings{})
	from.put("orders", "one")
	server.Set(objectstoretest.Faults{Denied: []string{http.MethodPut}}, "me")
	refused := from.archived(from.storeArchiver(at, nil), func(s archive.Status) bool { return s.LastError != nil })
	if got := reasonOf(refused.LastError); got != wirev1.FailureReason_FAILURE_REASON_STORE_DENIED {
		t.Errorf("%v: %v", got, refused.LastError)
	}
	from.archived(from.archiver(directory, nil), upTo(1))
	server.Set(objectstoretest.Faults{}, "me")
	from.archived(from.storeArchiver(at, nil), upTo(1))
	one := newQueue(t, "one", store.Settings{})
	one.restore(one.restorer(directory, nil))
	one.expect("one=one")
	two := newQueue(t, "two", store.Settings{})
	two.restore(two.storeRestorer(at, nil))
	two.expect("two=one")
}

// TestStoreKilled ends an archiver at each of its requests that write, before it is carried out and after. Nothing half
// is there, and another goes on with what is.
func TestStoreKilled(t *testing.T) {
	from := newQueue(t, "orders", store.Settings{})
	var want []string
	for i := range 3 {
		text := fmt.Sprintf("%d %s", i, strings.Repeat("x", 2000))
		from.put("orders", text)
		want = append(want, "again="+text)
	}
	const last = 8
	for step := 1; step <= last; step++ { // the index, three ranges, each with what is beside it before, and the index
		for _, carriedOut := range []bool{false, true} {
			t.Run(fmt.Sprintf("put %d, carried out: %t", step, carriedOut), func(t *testing.T) {
				server, at := newStore(t)
				ctx, kill := context.WithCancel(t.Context())
				puts, dead := 0, false
				server.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
					if r.Method == http.MethodPut {
						puts++
					}
					dead = dead || puts > step || puts == step && (!carriedOut || r.Method != http.MethodPut)
					if !dead {
						return false
					}
					kill()
					_, _ = r.Body.Read(make([]byte, 100)) // some of it has come
					conn, _, err := http.NewResponseController(w).Hijack()
					if err == nil {
						_ = conn.Close()
					}
					return true
				})
				if step == last && carriedOut {
					time.AfterFunc(500*time.Millisecond, kill) // nothing comes after it but looks
				}
				from.storeArchiver(at, each).Run(ctx)
				server.Intercept(nil)
				if n, least := len(named(server, dataSuffix)), (step-2)/2; n < least || n > (step-1)/2 ||
					len(named(server, ".lgci")) < n {
					t.Errorf("%d ranges are there: %q", n, server.Keys())
				}
				from.T = t
				s := from.archived(from.storeArchiver(at, each), upTo(3))
				if s.Index.Messages != 3 || s.Index.Ranges != 3 || len(named(server, dataSuffix)) != 3 {
					t.Errorf("status %+v of %q", s, server.Keys())
				}
				to := newQueue(t, "again", store.Settings{})
				to.restore(to.storeRestorer(at, nil))
				to.expect(want...)
				if server.Uploads() != 0 {
					t.Errorf("%d uploads are left", server.Uploads())
				}
			})
		}
	}
	from.T = t
}

// TestStoreConditions: a range that another member has written is never overwritten; an answer that is lost is no
// reason to fail.
func TestStoreConditions(t *testing.T) {
	server, at := newStore(t)
	from := newQueue(t, "orders", store.Settings{})
	from.put("orders", "one")
	from.put("orders", "two")
	refused := 0
	server.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		isRange := strings.HasSuffix(r.URL.Path, dataSuffix)
		if r.Method == http.MethodPut && !strings.HasSuffix(r.URL.Path, "/index") && r.Header.Get("If-None-Match") != "*" {
			t.Errorf("%s without a condition", r.URL.Path)
		}
		if r.Method == http.MethodPut && isRange && refused == 0 {
			refused++
			w.WriteHeader(http.StatusPreconditionFailed)
			return true
		}
		return false
	})
	s := from.archived(from.storeArchiver(at, each), upTo(2))
	if refused != 1 || s.Index.Messages != 2 || len(named(server, dataSuffix)) != 2 {
		t.Errorf("status %+v of %q", s, server.Keys())
	}
	server.Intercept(nil)
	from.put("orders", "three")
	server.Reset(1, http.MethodPut, true)
	if s = from.archived(from.storeArchiver(at, each), upTo(3)); s.Index.Messages != 3 || s.LastError != nil {
		t.Errorf("status %+v", s)
	}
}

// TestStoreFaults: the reason says what is wrong, and when that is over the archive goes on.
func TestStoreFaults(t *testing.T) {
	from := newQueue(t, "orders", store.Settings{})
	from.put("orders", "one")
	for name, test := range map[string]struct {
		begin  func(*objectstoretest.Server)
		reason wirev1.FailureReason
	}{
		"full": {func(s *objectstoretest.Server) {
			s.Intercept(objectstoretest.Times(-1, http.MethodPut, http.StatusInsufficientStorage, "XMinioStorageFull"))
		}, wirev1.FailureReason_FAILURE_REASON_STORE_FULL},
		"storm": {func(s *objectstoretest.Server) {
			s.Intercept(objectstoretest.Times(-1, http.MethodPut, http.StatusServiceUnavailable, "SlowDown"))
		}, wirev1.FailureReason_FAILURE_REASON_STORE_UNREACHABLE},
		"revoked": {
			func(s *objectstoretest.Server) { s.Set(objectstoretest.Faults{}, "somebody else") },
			wirev1.FailureReason_FAILURE_REASON_STORE_DENIED,
		},
		"clock": {
			func(s *objectstoretest.Server) { s.Set(objectstoretest.Faults{ClockOffset: 20 * time.Minute}, "me") },
			wirev1.FailureReason_FAILURE_REASON_STORE_CLOCK_SKEW,
		},
	} {
		t.Run(name, func(t *testing.T) {
			server, at := newStore(t)
			test.begin(server)
			from.T = t
			a := from.storeArchiver(at, nil)
			s := from.archived(a, func(s archive.Status) bool { return s.LastError != nil })
			if got := reasonOf(s.LastError); got != test.reason {
				t.Errorf("%v: %v", got, s.LastError)
			}
			if keys := server.Keys(); len(keys) != 0 {
				t.Errorf("%q are there", keys)
			}
			server.Intercept(nil)
			server.Set(objectstoretest.Faults{}, "me")
			if s = from.archived(a, upTo(1)); s.LastError != nil {
				t.Error(s.LastError)
			}
		})
	}
	from.T = t
}

// TestStoreDeleted: an archive that somebody deletes while it is written begins again, and what has left is deleted
// when its time has come.
func TestStoreDeleted(t *testing.T) {
	server, at := newStore(t)
	from := newQueue(t, "orders", store.Settings{})
	from.put("orders", "one")
	from.put("orders", "two")
	a := from.storeArchiver(at, each)
	deleted := false
	from.archived(a, func(s archive.Status) bool {
		if s.Sequence == 2 && !s.LastTime.IsZero() && !deleted {
			deleted = true
			server.Clear() // at once: what the archiver makes again meanwhile stays
		}
		return deleted && len(named(server, dataSuffix)) == 2 && len(named(server, "/index")) == 1
	})
	from.remove(1)
	from.archived(from.storeArchiver(at, func(o *archive.Options, s *archive.Settings) {
		each(o, s)
		s.Retention = time.Nanosecond
	}), func(s archive.Status) bool { return s.Index.From == 2 && len(named(server, dataSuffix)) == 1 })
	to := newQueue(t, "again", store.Settings{})
	to.restore(to.storeRestorer(at, nil))
	to.expect("again=two")
}

// TestStoreDeletedWithinALook: an archive that somebody deletes while it is looked at does not get an index without the
// ranges that this counts.
func TestStoreDeletedWithinALook(t *testing.T) {
	server, at := newStore(t)
	from := newQueue(t, "orders", store.Settings{})
	from.put("orders", "one")
	from.put("orders", "two")
	// The index is looked for when the archive is opened, and twice in each look that follows.
	looks, deleted := 0, make(chan struct{})
	server.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodHead && strings.HasSuffix(r.URL.Path, "/index") {
			if looks++; looks == 3 {
				server.Unlocked(server.Clear)
				close(deleted)
			}
		}
		return false
	})
	from.archived(from.storeArchiver(at, each), func(archive.Status) bool {
		select {
		case <-deleted:
			return len(named(server, dataSuffix)) == 2 && len(named(server, "/index")) == 1
		default:
			return false
		}
	})
}

// TestStoreRangeDeleted: a range that somebody deletes while the archive is written is missed, although nothing is put.
func TestStoreRangeDeleted(t *testing.T) {
	server, at := newStore(t)
	from := newQueue(t, "orders", store.Settings{})
	for _, payload := range []string{"one", "two", "three"} {
		from.put("orders", payload)
	}
	a := from.storeArchiver(at, func(o *archive.Options, s *archive.Settings) {
		each(o, s)
		o.Recheck = time.Nanosecond
	})
	deleted := false
	s := from.archived(a, func(s archive.Status) bool {
		if s.Sequence == 3 && s.LastError == nil && len(named(server, "/index")) == 1 && !deleted {
			deleted = true
			middle := strings.TrimPrefix(named(server, dataSuffix)[1], storePrefix+"/")
			if err := at.Delete(t.Context(), middle); err != nil {
				t.Error(err)
			}
		}
		return deleted && s.LastError != nil
	})
	if reasonOf(s.LastError) != wirev1.FailureReason_FAILURE_REASON_INVALID_DATA ||
		!strings.Contains(s.LastError.Error(), "after message 1") {
		t.Errorf("%v", s.LastError)
	}
}

// TestStoreRefused: what is no archive, or damaged, is not restored.
func TestStoreRefused(t *testing.T) {
	server, at := newStore(t)
	to := newQueue(t, "again", store.Settings{})
	if err := to.refused(to.storeRestorer(at, nil)); !errors.Is(err, archive.ErrNotFound) {
		t.Error(err)
	}
	if err := to.refused(to.storeRestorer(at, func(o *archive.RestoreOptions) {
		o.Queue, o.Path = "", "orders.20261121T202512.123456789Z"
	})); !errors.Is(err, archive.ErrNotFound) {
		t.Error(err)
	}
	from := newQueue(t, "orders", store.Settings{})
	from.put("orders", "one")
	from.archived(from.storeArchiver(at, nil), upTo(1))
	for _, content := range []string{"", "LGBK", strings.Repeat("x", 1000)} {
		server.Add(named(server, dataSuffix)[0], []byte(content), time.Now())
		err := to.refused(to.storeRestorer(at, nil))
		if !errors.Is(err, archive.ErrDamaged) ||
			reasonOf(err) != wirev1.FailureReason_FAILURE_REASON_INVALID_DATA {
			t.Errorf("%q: %v", content, err)
		}
	}
	stream, err := to.js.Stream(t.Context(), "again")
	if err != nil || stream.CachedInfo().State.Msgs != 0 {
		t.Errorf("messages are there: %v", err)
	}
}

// TestStoreUpgraded: what a release before the form of lines began goes on in this form, and its index says so before
// there is anything that this release does not read.
func TestStoreUpgraded(t *testing.T) {
	server, at := newStore(t)
	from := newQueue(t, "orders", store.Settings{})
	var records []archive.Record
	for i, payload := range []string{"one", "two", "three"} {
		from.put("orders.eu", payload)
		records = append(records, archive.Record{
			Sequence: uint64(i + 1), Time: time.Now(), Suffix: ".eu", Payload: []byte(payload),
		})
	}
	from.remove(2)
	stream, err := from.js.Stream(t.Context(), "orders")
	if err != nil {
		t.Fatal(err)
	}
	directory := t.TempDir()
	// The index counts the first range only, as when an end came before it was written again.
	name := archive.WriteFormer(t, directory, "orders", archive.Life(stream.CachedInfo().Created), records, 1)
	files, err := os.ReadDir(filepath.Join(directory, name))
	if err != nil || len(files) != 3 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, f := range files {
		content, err := os.ReadFile(filepath.Join(directory, name, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		server.Add(storePrefix+"/"+name+"/"+f.Name(), content, time.Now())
	}
	// As long as nothing is put the index stays in a version that this release reads.
	decoder, err := archive.NewDecoder(engines.Default())
	if err != nil {
		t.Fatal(err)
	}
	defer decoder.Close()
	version := func() int {
		t.Helper()
		d, err := archive.Open(directory, name)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		x, err := d.ReadIndex(decoder)
		if err != nil || x.To < 3 {
			t.Fatalf("index %+v, %v", x, err)
		}
		return x.Version
	}
	from.archived(from.archiver(directory, nil), upTo(3))
	if v := version(); v != 1 {
		t.Errorf("the index has version %d although nothing was put", v)
	}
	from.put("orders.eu", "four")
	var order []string
	server.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPut {
			order = append(order, r.URL.Path[strings.LastIndexByte(r.URL.Path, '.'):])
		}
		return false
	})
	for _, write := range []struct {
		to        *archive.Archiver
		directory string
	}{{from.archiver(directory, nil), directory}, {from.storeArchiver(at, nil), ""}} {
		s := from.archived(write.to, upTo(4))
		if s.Index.Messages != 4 || s.Index.Ranges != 3 || s.Index.Version != 2 || s.LastError != nil || s.Path != name {
			t.Errorf("status %+v", s)
		}
		to := newQueue(t, "again", store.Settings{})
		r := to.storeRestorer(at, nil)
		if write.directory != "" {
			r = to.restorer(directory, nil)
		}
		to.restore(r)
		to.expect("again.eu=one", "again.eu=three", "again.eu=four")
	}
	server.Intercept(nil)
	if v := version(); v != 2 {
		t.Errorf("the index has version %d", v)
	}
	if len(order) < 4 || !strings.HasSuffix(order[0], "/index") || order[1] != ".lgci" || order[2] != ".zst" {
		t.Errorf("put %q", order)
	}
	if keys := named(server, ".range"); len(keys) != 2 {
		t.Errorf("the former ranges are %q", keys)
	}
}
