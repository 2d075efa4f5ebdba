// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer_test

import (
	"slices"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/transfer/receive"
	"github.com/lighterage/lighterage/agent/transfer/send"
	"github.com/lighterage/lighterage/agent/transport"
	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// full is a destination whose volume takes a few chunks and no more.
type full struct {
	receive.Destination
	left chan struct{}
}

func newFull(d receive.Destination, chunks int) *full {
	f := &full{Destination: d, left: make(chan struct{}, chunks)}
	for range chunks {
		f.left <- struct{}{}
	}
	return f
}

func (d *full) Stage(number uint64, e *tree.Entry) (receive.StagedFile, error) {
	f, err := d.Destination.Stage(number, e)
	return fullFile{f, d, e.Path}, err
}

type fullFile struct {
	receive.StagedFile
	destination *full
	path        string
}

func (f fullFile) WriteAt(p []byte, offset int64) (int, error) {
	select {
	case <-f.destination.left:
		return f.StagedFile.WriteAt(p, offset)
	default:
		return 0, tree.WriteError("write", f.path, unix.ENOSPC)
	}
}

// Of sixteen receivers one is killed, one's disk fills, one has a certificate of another CA, and one stalls. The others
// have everything before that one goes on, each failure has its reason, and the next attempts complete.
func TestFanOutWithFaultyReceivers(t *testing.T) {
	const receivers, killed, stalled, filled, stranger = 16, 1, 4, 7, 13
	faulty := map[int]wirev1.FailureReason{
		killed:   wirev1.FailureReason_FAILURE_REASON_CONNECTION_LOST,
		filled:   wirev1.FailureReason_FAILURE_REASON_DESTINATION_FULL,
		stranger: wirev1.FailureReason_FAILURE_REASON_PEER_UNTRUSTED,
	}
	source := t.TempDir()
	const size = 8 << 20
	file(t, source, "a", noise(1, size), 0o600)
	f := newFanOut(t, source, send.FanOptions{Spool: 2 << 20}, receivers)
	g := &gate{}
	d := &stuck{arrived: make(chan struct{}, size>>20+1), release: make(chan struct{})}
	release := sync.OnceFunc(func() { close(d.release) })
	defer release()
	for i := range f.pairs {
		p := startReceiver(t, f.destinations[i], func(o *receive.Options) {
			switch i {
			case killed:
				o.Destination = after(o.Destination, 3, g.cut)
			case filled:
				o.Destination = newFull(o.Destination, 3)
			case stalled:
				d.Destination, o.Destination = o.Destination, d
			}
		})
		switch i {
		case killed:
			p.dialer.Address = splice(t, g, p.dialer.Address)
		case stranger:
			other := startReceiver(t, t.TempDir())
			p.dialer = &transport.Dialer{Address: p.dialer.Address, Files: other.dialer.Files}
		}
		f.start(t.Context(), i, source, p)
	}
	for i, p := range f.pairs {
		if _, fails := faulty[i]; fails || i == stalled {
			continue
		}
		if err := p.wait(t); err != nil {
			t.Fatalf("receive %d: %v", i, err)
		}
	}
	release()
	f.running.Wait()
	var again []int
	for i := range f.pairs {
		if reason, fails := faulty[i]; fails {
			if !failure.Is(f.errs[i], reason) {
				t.Errorf("attempt %d ended with %v", i, f.errs[i])
			}
			again = append(again, i)
			continue
		}
		if f.errs[i] != nil {
			t.Fatalf("send %d: %v", i, f.errs[i])
		}
		same(t, source, f.destinations[i])
	}
	for _, i := range []int{killed, filled} { // nobody came to the third
		_ = f.pairs[i].wait(t)
	}
	next := newFanOut(t, source, send.FanOptions{}, len(again))
	for n, i := range again {
		next.destinations[n] = f.destinations[i]
		next.start(t.Context(), n, source, startAttempt(t, 2, f.destinations[i]), func(o *send.Options) { o.Attempt = 2 })
	}
	next.wait(source)
	if n := slices.Index(again, stranger); next.sent[n].GetProgress().GetResumedBytes() != 0 {
		t.Errorf("the one that had nothing went on from %v", next.sent[n].GetProgress())
	}
}
