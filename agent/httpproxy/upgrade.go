// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpproxy

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/lighterage/lighterage/agent/meter"
)

// switchProtocols connects the client with the backend, which both speak something
// else from now on, such as WebSocket.
func (x *exchange) switchProtocols(out *http.Request, res *http.Response) {
	asked, got := out.Header.Get("Upgrade"), res.Header.Get("Upgrade")
	behind, ok := res.Body.(io.ReadWriteCloser)
	if asked == "" || !strings.EqualFold(asked, got) || !ok {
		x.fail(fmt.Errorf("the backend switched to %q; the client asked for %q", got, asked))
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
	x.server.stats.add(outcome{meter: meter.Outcome{Path: meter.Stored}})

	removeHopByHop(res.Header)
	res.Header["Connection"], res.Header["Upgrade"] = []string{"Upgrade"}, []string{got}
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
