// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package front_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/lighterage/lighterage/agent/queue/front"
	"github.com/lighterage/lighterage/agent/queue/store"
)

// sink is a server that reads what it is told and answers each PING that ends it.
type sink struct{ net.Listener }

func (s sink) Dial(ctx context.Context) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "tcp", s.Addr().String())
}
func (sink) Introduce(map[string]any, string) error { return nil }
func (sink) Shared() bool                           { return false }
func (sink) Pending() []store.Pending               { return nil }
func (sink) Configure(context.Context, string, []string) (bool, error) {
	return false, nil
}

func (s sink) serve() {
	conn, err := s.Accept()
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	_, _ = io.WriteString(conn, "INFO {\"headers\":true}\r\n")
	buf, last := make([]byte, 1<<20), []byte(nil)
	for {
		n, err := conn.Read(buf)
		if err != nil {
			return
		}
		last = append(last, buf[max(0, n-6):n]...)
		last = last[max(0, len(last)-6):]
		if bytes.Equal(last, []byte("PING\r\n")) {
			_, _ = io.WriteString(conn, "PONG\r\n")
		}
	}
}

// BenchmarkPut measures what the front does with a put: from the client's connection to the server's.
func BenchmarkPut(b *testing.B) {
	for _, size := range []int{100, 900, 4000, 12000, 100_000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			listen := func() net.Listener {
				l, err := new(net.ListenConfig).Listen(b.Context(), "tcp", "127.0.0.1:0")
				if err != nil {
					b.Fatal(err)
				}
				return l
			}
			server, clients := sink{listen()}, listen()
			go server.serve()
			f, err := front.New(front.Options{Queue: "orders", Server: server, Settings: settings(b, nil)})
			if err != nil {
				b.Fatal(err)
			}
			go func() { _ = f.Serve(clients) }()
			defer f.Close()
			conn, err := new(net.Dialer).DialContext(b.Context(), "tcp", clients.Addr().String())
			if err != nil {
				b.Fatal(err)
			}
			in, out := bufio.NewReader(conn), bufio.NewWriterSize(conn, 1<<16)
			flush := func(text string) {
				_, _ = out.WriteString(text)
				if err := out.Flush(); err != nil {
					b.Fatal(err)
				}
				for line := ""; line != "PONG\r\n"; {
					if line, err = in.ReadString('\n'); err != nil {
						b.Fatal(err)
					}
				}
			}
			flush("CONNECT {\"verbose\":false,\"headers\":true}\r\nPING\r\n")
			const header = "NATS/1.0\r\nNats-Msg-Id: 1234567\r\n\r\n"
			put := fmt.Appendf(nil, "HPUB orders.new _INBOX.abcdefgh.x %d %d\r\n%s%s\r\n",
				len(header), len(header)+size, header, xml(b, size))
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := out.Write(put); err != nil {
					b.Fatal(err)
				}
			}
			flush("PING\r\n")
		})
	}
}
