// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lighterage/lighterage/agent/queue/envelope"
	"github.com/lighterage/lighterage/agent/queue/message"
)

// FuzzHeaders: what headers say is a message that may be put, or refused with what is wrong.
func FuzzHeaders(f *testing.F) {
	f.Add("Lighterage-Key", "k", "zstd", "100", "0f")
	f.Add("Lighterage-Header-A", "b", "", "", "")
	f.Add("Content-Type", "text/xml\r\n", "deflate-raw", "-1", "x")
	f.Fuzz(func(t *testing.T, name, value, coding, length, sum string) {
		h := http.Header{
			name: {value}, "Content-Encoding": {coding}, message.LengthHeader: {length}, message.ChecksumHeader: {sum},
			message.EngineHeader: {"software"},
		}
		q, err := messageOf(h)
		if err != nil {
			if status.Code(err) != codes.InvalidArgument {
				t.Error(err)
			}
			return
		}
		if _, err := envelope.ParseForm(q.GetStoredForm()); err != nil && !errors.Is(err, message.ErrCorrupt) {
			t.Error(err)
		}
		if _, err := envelope.New("orders", q); err != nil && !errors.Is(err, envelope.ErrInvalid) {
			t.Error(err)
		}
	})
}

func FuzzQuery(f *testing.F) {
	f.Add("wait=20s&visibility=1m&dead=true", "zstd;q=0.5, *;q=0")
	f.Add("wait=-1s&wait", ";;q=,")
	f.Add("0", "\xa8")
	f.Fuzz(func(t *testing.T, query, accepted string) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/message/next", nil)
		r.URL.RawQuery = query
		if _, err := getRequestOf(r); err != nil && status.Code(err) != codes.InvalidArgument {
			t.Error(err)
		}
		for name := range acceptedCodings([]string{accepted}) {
			if strings.ContainsAny(name, ",;") {
				t.Errorf("%q accepts %q", accepted, name)
			}
		}
	})
}

func TestAcceptedCodings(t *testing.T) {
	got := acceptedCodings([]string{"br, zstd;q=0.5", "Deflate-Raw ; q=0, gzip;q=x"})
	for name, want := range map[string]bool{
		"br": true, "zstd": true, "deflate-raw": false, "gzip": false, "identity": false,
	} {
		if got[name] != want {
			t.Errorf("%s: %v", name, got[name])
		}
	}
}

// FuzzBounded: a body is read as it is, and memory is held for what its head says at most, up to
// the limit.
func FuzzBounded(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x00\x03abc"))
	f.Add([]byte("\x00\xff\xff\xff\xffabc"))
	f.Add([]byte("\x00\x00"))
	f.Fuzz(func(t *testing.T, body []byte) {
		const limit = 1 << 20
		ctx, a := accounted(t.Context(), httptest.NewRecorder(), 4*limit)
		got, err := io.ReadAll(&bounded{ReadCloser: io.NopCloser(bytes.NewReader(body)), context: ctx, limit: limit})
		switch {
		case len(body) < 5:
			if len(got) > 0 || len(body) > 0 && err == nil {
				t.Errorf("%q is read as %q, %v", body, got, err)
			}
		case err != nil || !bytes.Equal(got, body):
			t.Errorf("%q is read as %q, %v", body, got, err)
		}
		if a.held > 2*limit {
			t.Errorf("%d bytes are held", a.held)
		}
		a.drop()
		if !a.memory.TryAcquire(4 * limit) {
			t.Error("memory stays held")
		}
	})
}
