// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpproxy_test

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"net/http"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/lighterage/lighterage/agent/certificates"
)

// TestTargets: a blank or a control character in the target of a request over HTTP/2 never reaches the backend, which
// reads the target from a line that blanks divide (a Low finding of issue 14).
func TestTargets(t *testing.T) {
	seen := make(chan string, 1)
	behind := newRawBackend(t)
	behind.answer = []byte("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
	behind.look = func(r *http.Request, _ *bufio.Reader) {
		if r == nil {
			seen <- "what is no request"
			return
		}
		seen <- r.RequestURI
	}
	dir := t.TempDir()
	writePair(t, dir, "first")
	p := serve(t, settings(behind.Addr().String()), certificates.Read(dir))
	conn, err := tls.Dial("tcp", p.address, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	fmt.Fprint(conn, http2.ClientPreface)
	framer := http2.NewFramer(conn, conn)
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	if err := framer.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	stream := uint32(1)
	// ask sends a target as it is, and returns the status, or "reset".
	ask := func(target string) string {
		var block bytes.Buffer
		encoder := hpack.NewEncoder(&block)
		for _, field := range [][2]string{{":method", "GET"}, {":scheme", "https"}, {":authority", "x"}, {":path", target}} {
			if err := encoder.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]}); err != nil {
				t.Fatal(err)
			}
		}
		err := framer.WriteHeaders(http2.HeadersFrameParam{
			StreamID: stream, BlockFragment: block.Bytes(), EndStream: true, EndHeaders: true,
		})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { stream += 2 }()
		for {
			frame, err := framer.ReadFrame()
			if err != nil {
				t.Fatalf("%q: %v", target, err)
			}
			switch f := frame.(type) {
			case *http2.MetaHeadersFrame:
				if f.StreamID == stream {
					return f.PseudoValue("status")
				}
			case *http2.RSTStreamFrame:
				if f.StreamID == stream {
					return "reset"
				}
			case *http2.SettingsFrame:
				if !f.IsAck() {
					_ = framer.WriteSettingsAck()
				}
			}
		}
	}
	if got := ask("/a%20b?c=%20d"); got != "200" || <-seen != "/a%20b?c=%20d" {
		t.Errorf("what is encoded: %s", got)
	}
	for c := range byte(0x80) {
		if c > ' ' && c < 0x7f {
			continue
		}
		for _, target := range []string{
			"/a" + string(c) + "b", "/a?b" + string(c) + "c", "/a" + string(c), "/a?" + string(c), string(c) + "/",
			"/x?a" + string(c) + "HTTP/1.0" + string(c) + "HTTP/1.1",
		} {
			if got := ask(target); got != "400" && got != "reset" {
				t.Errorf("%q: %s", target, got)
			}
			select {
			case got := <-seen:
				t.Errorf("%q reached the backend as %q", target, got)
			default:
			}
		}
	}
	if got := ask("/a?b c"); got != "400" {
		t.Errorf("a blank: %s", got)
	}
}
