// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer_test

import (
	"io"
	"net"
	"testing"
)

// splice listens and passes connections on to an address, as a gateway does.
func splice(t *testing.T, g *gate, address string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			in, err := listener.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", address)
			if err != nil {
				in.Close()
				continue
			}
			g.add(in, out)
			for _, pair := range [][2]net.Conn{{in, out}, {out, in}} {
				go func() {
					io.Copy(pair[0], pair[1])
					pair[0].Close()
				}()
			}
		}
	}()
	return listener.Addr().String()
}
