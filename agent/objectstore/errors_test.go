// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package objectstore_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/objectstore"
	"github.com/lighterage/lighterage/agent/objectstore/objectstoretest"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// TestErrors has a server answer all requests with one error.
func TestErrors(t *testing.T) {
	const (
		unreachable = wirev1.FailureReason_FAILURE_REASON_STORE_UNREACHABLE
		unfit       = wirev1.FailureReason_FAILURE_REASON_STORE_UNFIT
	)
	for _, test := range []struct {
		status int
		code   string
		want   error
		reason wirev1.FailureReason
		tries  int
	}{
		{503, "SlowDown", objectstore.ErrUnavailable, unreachable, objectstoretest.Retry.Tries},
		{429, "", objectstore.ErrUnavailable, unreachable, objectstoretest.Retry.Tries},
		{500, "InternalError", objectstore.ErrUnavailable, unreachable, objectstoretest.Retry.Tries},
		{200, "InternalError", nil, 0, 1}, // put does not look into the body
		{409, "ConditionalRequestConflict", objectstore.ErrUnavailable, unreachable, objectstoretest.Retry.Tries},
		{403, "AccessDenied", objectstore.ErrAccessDenied, wirev1.FailureReason_FAILURE_REASON_STORE_DENIED, 1},
		{403, "SignatureDoesNotMatch", objectstore.ErrAccessDenied, wirev1.FailureReason_FAILURE_REASON_STORE_DENIED, 1},
		{400, "ExpiredToken", objectstore.ErrAccessDenied, wirev1.FailureReason_FAILURE_REASON_STORE_DENIED, 1},
		{400, "KMS.NotFoundException", objectstore.ErrAccessDenied, wirev1.FailureReason_FAILURE_REASON_STORE_DENIED, 1},
		{404, "NoSuchBucket", objectstore.ErrNoBucket, wirev1.FailureReason_FAILURE_REASON_STORE_NOT_FOUND, 1},
		{403, "QuotaExceeded", objectstore.ErrFull, wirev1.FailureReason_FAILURE_REASON_STORE_FULL, 1},
		{507, "XMinioStorageFull", objectstore.ErrFull, wirev1.FailureReason_FAILURE_REASON_STORE_FULL, 1},
		{403, "RequestTimeTooSkewed", objectstore.ErrClock, wirev1.FailureReason_FAILURE_REASON_STORE_CLOCK_SKEW, 1},
		{301, "PermanentRedirect", objectstore.ErrRegion, unfit, 1},
		{302, "", objectstore.ErrRegion, unfit, 1},
		{400, "AuthorizationHeaderMalformed", objectstore.ErrRegion, unfit, 1},
		{501, "NotImplemented", objectstore.ErrNotS3, unfit, 1},
		{400, "InvalidStorageClass", objectstore.ErrInvalid, unfit, 1},
		{400, "\x1b]0;<code>", objectstore.ErrInvalid, unfit, 1},
	} {
		if test.want == nil {
			test.want, test.reason = objectstore.ErrNotS3, unfit
		}
		server, store := start(t)
		server.Intercept(objectstoretest.Times(-1, http.MethodPut, test.status, test.code))
		_, err := store.Put(t.Context(), "a", strings.NewReader("x"), 1, always)
		if !errors.Is(err, test.want) || !failure.Is(err, test.reason) {
			t.Errorf("%d %s: %v", test.status, test.code, err)
			continue
		}
		if n := len(server.Requests()); n != test.tries {
			t.Errorf("%d %s: %d requests", test.status, test.code, n)
		}
		if strings.Contains(err.Error(), "secret details") || strings.Contains(err.Error(), "\x1b") {
			t.Errorf("%d %s: it shows what the server wrote: %v", test.status, test.code, err)
		}
	}
}

// TestRecovers has what is tried again succeed in the end.
func TestRecovers(t *testing.T) {
	content := strings.Repeat("0123456789", 10_000)
	for name, fault := range map[string]func(*objectstoretest.Server){
		"a storm of 503": func(s *objectstoretest.Server) {
			s.Intercept(objectstoretest.Times(3, http.MethodPut, 503, "ServiceUnavailable"))
		},
		"throttling": func(s *objectstoretest.Server) {
			s.Intercept(objectstoretest.Times(2, http.MethodGet, 503, "SlowDown"))
		},
		"resets in the middle of puts":     func(s *objectstoretest.Server) { s.Reset(3, http.MethodPut, false) },
		"resets after puts":                func(s *objectstoretest.Server) { s.Reset(3, http.MethodPut, true) },
		"resets instead of answers":        func(s *objectstoretest.Server) { s.Reset(3, http.MethodGet, false) },
		"answers that end in their middle": func(s *objectstoretest.Server) { s.Truncate(10) },
	} {
		server, store := start(t)
		fault(server)
		put(t, store, "a", content)
		got, err := get(t, store, "a", "", 1, int64(len(content)-2))
		if err != nil || got != content[1:len(content)-1] {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
		if names, err := list(t, store, ""); err != nil || len(names) != 1 {
			t.Errorf("%s: %v, %v", name, names, err)
		}
	}
}

// TestReaderGivesUp has a server whose answers have no bytes at all.
func TestReaderGivesUp(t *testing.T) {
	server, store := start(t)
	etag := put(t, store, "a", "xx")
	before := len(server.Requests())
	server.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Etag", `"`+etag+`"`)
		w.Header().Set("Content-Range", "bytes 0-1/2")
		w.Header().Set("Content-Length", "2")
		w.Header().Set("Last-Modified", time.Now().UTC().Format(http.TimeFormat))
		w.WriteHeader(http.StatusPartialContent)
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	if _, err := get(t, store, "a", "", 0, 2); !errors.Is(err, objectstore.ErrUnavailable) {
		t.Error(err)
	}
	if n := len(server.Requests()) - before; n != objectstoretest.Retry.Tries {
		t.Errorf("%d requests", n)
	}
}

// TestReplacedWhileRead has an object change between the halves of a read.
func TestReplacedWhileRead(t *testing.T) {
	server, store := start(t)
	put(t, store, "a", strings.Repeat("x", 100_000))
	server.Truncate(1)
	body, err := store.Get(t.Context(), "a", "", 0, 100_000)
	if err != nil {
		t.Fatal(err)
	}
	put(t, store, "a", strings.Repeat("y", 100_000))
	if _, err := io.ReadAll(body); !errors.Is(err, objectstore.ErrChanged) {
		t.Error(err)
	}
}

func TestWrongAnswers(t *testing.T) {
	list := func(s *objectstore.Store) error {
		for _, err := range s.List(context.Background(), "") {
			if err != nil {
				return err
			}
		}
		return nil
	}
	head := func(s *objectstore.Store) error {
		_, err := s.Head(context.Background(), "a")
		return err
	}
	put := func(s *objectstore.Store) error {
		_, err := s.Put(context.Background(), "a", strings.NewReader("x"), 1, always)
		return err
	}
	get := func(s *objectstore.Store) error {
		_, err := s.Get(context.Background(), "a", "", 0, 1)
		return err
	}
	create := func(s *objectstore.Store) error {
		_, err := s.Create(context.Background(), "a", nil)
		return err
	}
	page := func(w http.ResponseWriter, _ *http.Request) bool {
		_, _ = io.WriteString(w, "<!doctype html><html><body>Welcome!<br></body></html>")
		return true
	}
	endless := func(w http.ResponseWriter, r *http.Request) bool {
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 1<<16)); err != nil {
				break
			}
		}
		return true
	}
	for name, request := range map[string]func(*objectstore.Store) error{
		"list": list, "head": head, "put": put, "get": get, "create": create,
	} {
		server, store := start(t)
		server.Intercept(page)
		if err := request(store); !errors.Is(err, objectstore.ErrNotS3) {
			t.Errorf("%s from a page: %v", name, err)
		}
		if name == "head" || name == "put" || name == "get" {
			continue // the body means nothing, or is not read
		}
		server.Intercept(endless)
		if err := request(store); !errors.Is(err, objectstore.ErrNotS3) {
			t.Errorf("%s from an answer without end: %v", name, err)
		}
	}
	server, store := start(t)
	server.Set(objectstoretest.Faults{EndlessLists: true}, "me")
	for _, content := range []string{"", "x"} { // pages without and with an object
		if err := list(store); !errors.Is(err, objectstore.ErrNotS3) {
			t.Errorf("list without end: %v", err)
		}
		server.Add("east/bank/a", []byte(content), time.Now())
	}
	server.Set(objectstoretest.Faults{IgnoreRange: true}, "me")
	server.Add("east/bank/a", []byte("xyz"), time.Now())
	if err := get(store); !errors.Is(err, objectstore.ErrNotS3) {
		t.Errorf("get of the whole: %v", err)
	}
}

func TestTLS(t *testing.T) {
	server := objectstoretest.New(t, "me")
	o := options(t, server)
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = http.Serve(plain, http.NotFoundHandler()) }() //nolint:gosec // It is closed below.
	defer plain.Close()
	for name, change := range map[string]func(*objectstore.Options){
		"another CA": func(o *objectstore.Options) { o.CABundle = nil },
		"another name": func(o *objectstore.Options) {
			o.Endpoint = strings.Replace(o.Endpoint, "127.0.0.1", "localhost", 1)
		},
		"no TLS": func(o *objectstore.Options) { o.Endpoint = "https://" + plain.Addr().String() },
	} {
		changed := o
		change(&changed)
		_, err := objectstoretest.Open(t, changed).Head(t.Context(), "a")
		if !errors.Is(err, objectstore.ErrTLS) || !failure.Is(err, wirev1.FailureReason_FAILURE_REASON_STORE_UNTRUSTED) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := len(server.Requests()); n != 0 {
		t.Errorf("%d requests", n)
	}
}

func TestClock(t *testing.T) {
	server := objectstoretest.New(t, "me")
	server.Set(objectstoretest.Faults{ClockOffset: 20 * time.Minute}, "me")
	_, err := objectstoretest.Open(t, options(t, server)).Put(t.Context(), "a", strings.NewReader("x"), 1, always)
	if !errors.Is(err, objectstore.ErrClock) {
		t.Error(err)
	}
	// Servers that say AccessDenied where the clock is what is wrong.
	o := options(t, server)
	o.Now = func() time.Time { return time.Now().Add(-20 * time.Minute) }
	server.Set(objectstoretest.Faults{Denied: []string{http.MethodPut}}, "me")
	_, err = objectstoretest.Open(t, o).Put(t.Context(), "a", strings.NewReader("x"), 1, always)
	if !errors.Is(err, objectstore.ErrClock) {
		t.Error(err)
	}
}

func TestUnreachable(t *testing.T) {
	server := objectstoretest.New(t, "me")
	o := options(t, server)
	dials := 0
	o.Dial = func(context.Context, string) (net.Conn, error) { dials++; return nil, errors.New("connection refused") }
	_, err := objectstoretest.Open(t, o).Head(t.Context(), "a")
	if !errors.Is(err, objectstore.ErrUnavailable) || dials != objectstoretest.Retry.Tries {
		t.Errorf("%d times: %v", dials, err)
	}
	if strings.Contains(err.Error(), "connection refused") {
		t.Errorf("it tells refused from timed out: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := objectstoretest.Open(t, o).Head(ctx, "a"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
