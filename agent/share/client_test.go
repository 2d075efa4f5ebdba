// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package share_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/share"
)

// line is a connection to a broker that grants nothing, or fails.
type line struct {
	grpc.ClientConnInterface
	err    error
	closed bool
}

func (l *line) Invoke(context.Context, string, any, any, ...grpc.CallOption) error { return l.err }

func (l *line) Close() error {
	l.closed = true
	return nil
}

// TestRun: after draws have failed for a while it connects again, as is needed after a rotation of the CA; one
// that works is kept, and both are closed in the end.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		account := share.NewAccount(func() time.Duration { return 0 }, nil)
		broken := errors.New("not of this CA")
		lines := []*line{nil, {err: broken}, {}} // nil: it cannot even be made
		dialled := 0
		ctx, cancel := context.WithCancel(t.Context())
		go share.Run(ctx, account, func() (share.Conn, error) {
			made := lines[dialled]
			if dialled++; made == nil {
				return nil, broken
			}
			return made, nil
		}, slog.New(slog.DiscardHandler))
		time.Sleep(time.Minute + time.Second/2)
		synctest.Wait()
		if reason := account.Enter(false); reason != policy.AcceleratorShare || dialled != 3 || !lines[1].closed ||
			lines[2].closed {
			t.Errorf("%q after %d connections, %+v", reason, dialled, lines[1:])
		}
		cancel()
		synctest.Wait()
		if !lines[2].closed {
			t.Error("the connection is left open")
		}
	})
}
