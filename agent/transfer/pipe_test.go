// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer_test

import (
	"context"
	"net"
	"testing"

	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/transfer/receive"
	"github.com/lighterage/lighterage/agent/transfer/send"
	"github.com/lighterage/lighterage/agent/transport"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// throughPipe has the sender reach the receiver in its own process.
func throughPipe(t testing.TB, p *pair) sendOption {
	t.Helper()
	pipe := transport.NewPipe(p.receiver.ServeBlocks)
	wirev1.RegisterReceiverServer(pipe, p.receiver)
	go pipe.Serve(pipe.Listener())
	t.Cleanup(pipe.Stop)
	return func(o *send.Options) {
		o.OneProcess = true
		o.Dial = func() (send.Conn, error) { return pipe.Dial() }
		o.DialBlocks = func(ctx context.Context) (net.Conn, error) { return pipe.DialBlocks(ctx) }
	}
}

func inOneProcess(o *receive.Options) { o.OneProcess = true }

func TestPipe(t *testing.T) {
	source, size := resumable(t)
	destination := t.TempDir()
	p := startReceiver(t, destination, inOneProcess)
	sent, err := p.send(t.Context(), t, source, throughPipe(t, p))
	if err != nil {
		t.Fatal("send:", err)
	}
	if err := p.wait(t); err != nil {
		t.Fatal("receive:", err)
	}
	same(t, source, destination)
	if c := sent.Compression; c.GetReason() != string(policy.NoNetwork) || c.GetStored().GetBytes() != uint64(size) ||
		c.GetEstimate() != nil {
		t.Errorf("compression %v", c)
	}
	if sent.WireBytes != 0 || sent.Cpu.ReceiveNanos != 0 || sent.Cpu.SendNanos == 0 {
		t.Errorf("%d bytes on the wire, %v", sent.WireBytes, sent.Cpu)
	}
}

// What an attempt in one process made safe, one between two agents goes on from, and the other way round.
func TestPipeResumes(t *testing.T) {
	t.Parallel()
	source, size := resumable(t)
	for _, pipeFirst := range []bool{true, false} {
		destination := t.TempDir()
		attempt := func(number uint32, pipe bool, operations int) (*machine, *wirev1.Report, error) {
			var m *machine
			p := startAttempt(t, number, destination, func(o *receive.Options) {
				m = newMachine(o.Destination, destination, operations)
				o.Destination, o.OneProcess = m, pipe
			})
			options := []sendOption{func(o *send.Options) { o.Attempt, o.CheckpointInterval = number, 1<<20 }}
			if pipe {
				options = append(options, throughPipe(t, p))
			}
			sent, err := p.send(t.Context(), t, source, options...)
			if received := p.wait(t); err == nil {
				err = received
			}
			return m, sent, err
		}
		// After so many operations some files are whole and others not.
		broken, _, err := attempt(1, pipeFirst, 150)
		if err == nil {
			t.Fatal("the first attempt went through")
		}
		m, sent, err := attempt(2, !pipeFirst, -1)
		if err != nil {
			t.Fatal(err)
		}
		same(t, source, destination)
		if again := broken.written + m.written - size; again > 3<<20 {
			t.Errorf("%d bytes were written, then %d: %d too many", broken.written, m.written, again)
		}
		if p := sent.Progress; p.UnchangedBytes+p.ResumedBytes == 0 ||
			p.UnchangedBytes+p.ResumedBytes+uint64(m.written) != uint64(size) {
			t.Errorf("progress is %v after %d bytes were written", p, m.written)
		}
	}
}
