// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"

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

// FuzzBounded: of a body one message is read, as it is, and memory is held for what its head says at most, up to the
// limit. However its bytes come, gRPC is given as many at once as it asks for.
func FuzzBounded(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x00\x03abc"))
	f.Add([]byte("\x00\x00\x00\x00\x03abc and what follows"))
	f.Add([]byte("\x00\x00\x00\x00\x00and what follows"))
	f.Add([]byte("\x00\xff\xff\xff\xffabc"))
	f.Add([]byte("\x00\x00"))
	f.Fuzz(func(t *testing.T, body []byte) {
		const limit = 1 << 20
		ctx, a := accounted(t.Context(), httptest.NewRecorder(), 4*limit)
		pieces := iotest.OneByteReader(bytes.NewReader(body))
		b := &bounded{ReadCloser: io.NopCloser(pieces), context: ctx, limit: limit}
		var reads int
		var got []byte
		var err error
		for p := make([]byte, limit); err == nil; reads++ {
			var n int
			n, err = b.Read(p)
			got = append(got, p[:n]...)
		}
		length := 0
		if len(body) >= 5 {
			length = 5 + min(int(binary.BigEndian.Uint32(body[1:])), limit)
		}
		if want := body[:min(length, len(body))]; !bytes.Equal(got, want) {
			t.Errorf("%q is read as %q, %v", body, got, err)
		}
		if whole := len(body) >= max(length, 5); whole && !errors.Is(err, io.EOF) {
			t.Errorf("%q ends with %v", body, err)
		}
		if reads > 3 {
			t.Errorf("%q is read in %d pieces", body, reads)
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

// TestPaced: of a stream no more is read than it wants, and what nobody wants any more does not keep its reader.
func TestPaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const first, second = "\x00\x00\x00\x00\x03abc", "\x00\x00\x00\x00\x01d"
		from := strings.NewReader(first + second)
		p := &paced{
			ReadCloser: io.NopCloser(from), context: t.Context(), limit: 10, wanted: make(chan struct{}, 1),
			closed: make(chan struct{}),
		}
		var got []byte
		ended := make(chan error, 1)
		go func() {
			var err error
			got, err = io.ReadAll(p)
			ended <- err
		}()
		synctest.Wait()
		if from.Len() != len(first+second) {
			t.Errorf("%d bytes are left before any is wanted", from.Len())
		}
		p.wanted <- struct{}{}
		synctest.Wait()
		if from.Len() != len(second) {
			t.Errorf("%d bytes are left when one message is wanted", from.Len())
		}
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; err != nil || string(got) != first {
			t.Errorf("%q is read, %v", got, err)
		}
	})
}
