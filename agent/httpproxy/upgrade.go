// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpproxy

import (
	"crypto/sha1" //nolint:gosec // RFC 6455 has it; nothing rests on it.
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/lighterage/lighterage/agent/httpproxy/negotiate"
)

const (
	// webSocketProtocol is the only protocol that a connection may be upgraded to. Through
	// any other, such as h2c, a client would send the backend requests that pass none of
	// the checks here.
	webSocketProtocol = "websocket"
	// webSocketGUID is what RFC 6455 appends to a key before it is hashed.
	webSocketGUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
	// webSocketKey is the length of a key in bytes.
	webSocketKey = 16
)

// wantsWebSocket reports whether a request is an opening handshake of RFC 6455. Its
// version is left to the backend, which answers 426 with those that it supports.
func wantsWebSocket(r *http.Request) bool {
	if r.ProtoMajor != 1 || r.ProtoMinor < 1 || r.Method != http.MethodGet {
		return false
	}
	if r.ContentLength != 0 || len(r.TransferEncoding) > 0 {
		return false
	}
	if !negotiate.Directive(r.Header["Connection"], "Upgrade") {
		return false
	}
	if !negotiate.Directive(r.Header["Upgrade"], webSocketProtocol) {
		return false
	}
	keys := r.Header["Sec-Websocket-Key"]
	if len(keys) != 1 {
		return false
	}
	key, err := base64.StdEncoding.DecodeString(keys[0])
	return err == nil && len(key) == webSocketKey
}

// webSocketAccepted reports whether an answer with status 101 completes the handshake
// that a request began. The hash shows that the backend read the key as one of WebSocket.
func webSocketAccepted(request, response http.Header) bool {
	if request.Get("Upgrade") != webSocketProtocol || !strings.EqualFold(response.Get("Upgrade"), webSocketProtocol) {
		return false
	}
	//nolint:gosec // RFC 6455 names SHA-1; it protects nothing here.
	sum := sha1.Sum([]byte(request.Get("Sec-Websocket-Key") + webSocketGUID))
	return response.Get("Sec-Websocket-Accept") == base64.StdEncoding.EncodeToString(sum[:])
}

// switchProtocols connects the client with the backend, which both speak WebSocket from
// now on.
func (x *exchange) switchProtocols(out *http.Request, res *http.Response) {
	behind, ok := res.Body.(io.ReadWriteCloser)
	if !ok || !webSocketAccepted(out.Header, res.Header) {
		x.fail(fmt.Errorf("the backend switched to %q, which completes no handshake of WebSocket that the client began",
			res.Header.Get("Upgrade")))
		return
	}
	x.server.upgrades.begin()
	defer x.server.upgrades.end()
	defer behind.Close()
	client, buffered, err := http.NewResponseController(x.w).Hijack()
	if err != nil {
		x.fail(fmt.Errorf("take over the connection: %w", err))
		return
	}
	defer client.Close()
	x.server.stats.add(outcome{})

	removeHopByHop(res.Header)
	res.Header["Connection"], res.Header["Upgrade"] = []string{"Upgrade"}, []string{webSocketProtocol}
	res.Body, res.ContentLength, res.TransferEncoding = nil, 0, nil
	if err := client.SetDeadline(time.Time{}); err != nil {
		return
	}
	if err := res.Write(buffered); err != nil {
		return
	}
	if err := buffered.Flush(); err != nil {
		return
	}
	ended := make(chan struct{}, 2)
	go func() {
		_, _ = io.Copy(behind, buffered) // however it ends, it has ended
		endSending(behind)
		ended <- struct{}{}
	}()
	go func() {
		_, _ = io.Copy(client, behind)
		endSending(client)
		ended <- struct{}{}
	}()
	for range 2 {
		select {
		case <-ended:
		case <-x.server.abort:
			return
		case <-x.r.Context().Done():
			return
		}
	}
}

// endSending tells the other side that nothing follows, and goes on to receive. What
// cannot do that is closed.
func endSending(c io.Closer) {
	if half, ok := c.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		return
	}
	c.Close()
}

// upgrades counts the connections that switched protocols. New ones may begin while others
// are waited for, which a sync.WaitGroup does not bear. The zero value is ready.
type upgrades struct {
	mu      sync.Mutex
	n       int
	waiting []chan struct{} // closed when there are none
}

func (u *upgrades) begin() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.n++
}

func (u *upgrades) end() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.n--; u.n > 0 {
		return
	}
	for _, c := range u.waiting {
		close(c)
	}
	u.waiting = nil
}

// ended returns a channel that is closed as soon as there are none.
func (u *upgrades) ended() <-chan struct{} {
	c := make(chan struct{})
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.n == 0 {
		close(c)
	} else {
		u.waiting = append(u.waiting, c)
	}
	return c
}
