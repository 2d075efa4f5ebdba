// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpproxy_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
)

// BenchmarkResponse sends bodies of 12,000 bytes, one after the other on one connection to a backend that answers with
// prepared bytes. What backend and client allocate is in the figures: requests and responses that package http reads.
func BenchmarkResponse(b *testing.B) {
	body := text(12000)
	const head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
	answers := map[string]string{
		"/length":  fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", head, len(body), body),
		"/chunked": fmt.Sprintf("%sTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", head, len(body), body),
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				r := bufio.NewReader(c)
				for {
					req, err := http.ReadRequest(r)
					if err != nil {
						return
					}
					if _, err := io.WriteString(c, answers[req.URL.Path]); err != nil {
						return
					}
				}
			}()
		}
	}()
	p := serve(b, settings(l.Addr().String()), nil)
	for _, path := range []string{"/length", "/chunked"} {
		for _, coding := range []string{"gzip", "identity"} {
			b.Run(coding+path, func(b *testing.B) {
				c, err := net.Dial("tcp", p.address)
				if err != nil {
					b.Fatal(err)
				}
				defer c.Close()
				request := fmt.Sprintf("GET %s HTTP/1.1\r\nHost: x\r\nAccept-Encoding: %s\r\n\r\n", path, coding)
				r := bufio.NewReader(c)
				b.SetBytes(int64(len(body)))
				b.ReportAllocs()
				for b.Loop() {
					if _, err := io.WriteString(c, request); err != nil {
						b.Fatal(err)
					}
					res, err := http.ReadResponse(r, nil)
					if err != nil {
						b.Fatal(err)
					}
					if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != http.StatusOK {
						b.Fatal(res.Status, err)
					}
				}
			})
		}
	}
}
