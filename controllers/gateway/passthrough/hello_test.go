// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package passthrough

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// clientHello returns the first bytes that crypto/tls sends for a server name.
func clientHello(t testing.TB, config *tls.Config) []byte {
	t.Helper()
	client, server := net.Pipe()
	defer server.Close()
	go func() {
		defer client.Close()
		_ = client.SetDeadline(time.Now().Add(30 * time.Second))
		_ = tls.Client(client, config).Handshake()
	}()
	header := make([]byte, 5)
	if _, err := io.ReadFull(server, header); err != nil {
		t.Fatal(err)
	}
	body := make([]byte, int(header[3])<<8|int(header[4]))
	if _, err := io.ReadFull(server, body); err != nil {
		t.Fatal(err)
	}
	return append(header, body...)
}

// inRecords cuts the handshake message in a TLS record into records of at most size bytes.
func inRecords(record []byte, size int) []byte {
	var out []byte
	for rest := record[5:]; len(rest) > 0; {
		n := min(size, len(rest))
		out = append(out, record[0], record[1], record[2], byte(n>>8), byte(n))
		out = append(out, rest[:n]...)
		rest = rest[n:]
	}
	return out
}

func TestReadHello(t *testing.T) {
	hello := clientHello(t, &tls.Config{ServerName: "gateway.lighterage.internal"})
	unnamed := clientHello(t, &tls.Config{InsecureSkipVerify: true})
	large := clientHello(t, &tls.Config{ServerName: "gateway.lighterage.internal", NextProtos: manyProtocols()})
	cases := map[string]struct {
		input []byte
		limit int
		name  string
		err   error
	}{
		"whole": {input: hello, limit: 16 << 10, name: "gateway.lighterage.internal"},
		"with data behind it": {
			input: append(bytes.Clone(hello), "more"...), limit: 16 << 10, name: "gateway.lighterage.internal",
		},
		"in small records":    {input: inRecords(hello, 100), limit: 16 << 10, name: "gateway.lighterage.internal"},
		"without a name":      {input: unnamed, limit: 16 << 10},
		"cut short":           {input: hello[:len(hello)-1], limit: 16 << 10, err: errNotTLS},
		"nothing":             {limit: 16 << 10, err: errNotTLS},
		"HTTP":                {input: []byte("GET / HTTP/1.1\r\nHost: gateway\r\n\r\n"), limit: 16 << 10, err: errNotTLS},
		"zeros":               {input: make([]byte, 1<<16), limit: 16 << 10, err: errNotTLS},
		"larger than allowed": {input: large, limit: 16 << 10, err: errHelloTooLarge},
		"at the limit":        {input: hello, limit: len(hello), name: "gateway.lighterage.internal"},
		"above the limit":     {input: hello, limit: len(hello) - 1, err: errHelloTooLarge},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			serverName, read, err := readHello(bytes.NewReader(c.input), c.limit)
			if !errors.Is(err, c.err) || (err != nil) != (c.err != nil) {
				t.Fatalf("error %v, want %v", err, c.err)
			}
			if serverName != c.name {
				t.Errorf("server name %q, want %q", serverName, c.name)
			}
			if len(read) > c.limit || !bytes.HasPrefix(c.input, read) {
				t.Errorf("%d bytes were recorded that are not the beginning of the %d sent", len(read), len(c.input))
			}
		})
	}
}

// manyProtocols make a ClientHello of more than 16 KiB.
func manyProtocols() []string {
	protocols := make([]string, 100)
	for i := range protocols {
		protocols[i] = strings.Repeat("p", 200)
	}
	return protocols
}

func FuzzReadHello(f *testing.F) {
	hello := clientHello(f, &tls.Config{ServerName: "gateway.lighterage.internal"})
	f.Add(hello)
	f.Add(inRecords(hello, 64))
	f.Add(hello[:40])
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Add([]byte{22, 3, 1, 255, 255})
	f.Fuzz(func(t *testing.T, input []byte) {
		const limit = 4 << 10
		name, read, err := readHello(bytes.NewReader(input), limit)
		if len(read) > limit || !bytes.HasPrefix(input, read) {
			t.Fatalf("recorded %d bytes that are not the beginning of the input", len(read))
		}
		if err != nil && name != "" {
			t.Fatalf("a name, %q, beside the error %v", name, err)
		}
		if len(name) > 255 {
			t.Fatalf("a server name of %d bytes", len(name))
		}
	})
}
