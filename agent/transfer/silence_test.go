// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer_test

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/transfer/receive"
	"github.com/lighterage/lighterage/agent/transfer/send"
	"github.com/lighterage/lighterage/agent/transport"
	"github.com/lighterage/lighterage/agent/tree"
	"github.com/lighterage/lighterage/agent/wire/contents"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

const lost = wirev1.FailureReason_FAILURE_REASON_CONNECTION_LOST

func TestSilentSender(t *testing.T) {
	say := func(s *quietStream, messages ...*wirev1.SessionRequest) {
		for _, m := range messages {
			s.says <- m
			synctest.Wait()
		}
	}
	begin := &wirev1.SessionRequest{Message: &wirev1.SessionRequest_Begin{Begin: goodBegin()}}
	manifest := &wirev1.SessionRequest{Message: &wirev1.SessionRequest_Manifest{
		Manifest: &wirev1.Manifest{Entries: []*wirev1.Entry{root(), fileEntry("a", 10)}},
	}}
	tests := map[string]func(*testing.T, *quietStream, *receive.Receiver){
		"FromTheStart":  func(*testing.T, *quietStream, *receive.Receiver) {},
		"AfterAccepted": func(_ *testing.T, s *quietStream, _ *receive.Receiver) { say(s, begin) },
		"AfterManifest": func(_ *testing.T, s *quietStream, _ *receive.Receiver) { say(s, begin, manifest) },
		"InData": func(t *testing.T, s *quietStream, r *receive.Receiver) {
			say(s, begin)
			h := &peer{t: t, encoder: newEncoder(t), token: (<-s.hears).GetAccepted().GetSession()}
			say(s, manifest)
			near, far := net.Pipe()
			t.Cleanup(func() { _ = near.Close() })
			go func() {
				r.ServeBlocks(far)
				_ = far.Close()
			}()
			if err := (blockConn{near}).send(h.block(0, &wirev1.Segment{Index: 1, Length: 10})); err != nil {
				t.Fatal(err)
			}
		},
	}
	for name, speak := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, err := tree.OpenDestination(t.TempDir(), ".", "run", 1)
				if err != nil {
					t.Fatal(err)
				}
				const idle = time.Minute
				r := receive.New(receive.Options{
					RunID: "run", Attempt: 1, Destination: receive.Tree{Destination: d}, Engines: engines.Default(),
					Report: receive.NewReport(), Idle: idle,
				})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				s := &quietStream{ctx: ctx, says: make(chan *wirev1.SessionRequest), hears: make(chan *wirev1.SessionResponse, 100)}
				ended := make(chan error, 1)
				go func() { ended <- r.Session(s) }()
				start := time.Now()
				speak(t, s, r)
				if err := <-ended; err != nil {
					t.Error(err)
				}
				if silence := time.Since(start); silence <= idle || silence > idle+2*time.Second {
					t.Errorf("it took %v", silence)
				}
				close(s.hears)
				var last *wirev1.SessionResponse
				for m := range s.hears {
					last = m
				}
				if f := last.GetFailure(); f.GetReason() != lost {
					t.Errorf("the last word is %v", last)
				}
				if err := r.Wait(ctx); !failure.Is(err, lost) {
					t.Errorf("the receiver ended with %v", err)
				}
			})
		})
	}
}

// slowSync is a destination on a disk that takes long to sync.
type slowSync struct {
	receive.Destination
	takes time.Duration
}

func (d slowSync) Finish() error {
	time.Sleep(d.takes)
	return d.Destination.Finish()
}

// With a receipt everything is synced amid the session. However long that takes, the sender is not silent.
func TestContentsAfterALongSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, err := tree.OpenDestination(t.TempDir(), ".", "run", 1)
		if err != nil {
			t.Fatal(err)
		}
		const idle = time.Minute
		r := receive.New(receive.Options{
			RunID: "run", Attempt: 1, Destination: slowSync{receive.Tree{Destination: d}, 3 * idle},
			Engines: engines.Default(), Report: receive.NewReport(), Idle: idle,
		})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		s := &quietStream{
			ctx: ctx, says: make(chan *wirev1.SessionRequest), hears: make(chan *wirev1.SessionResponse, 1000),
		}
		ended := make(chan error, 1)
		go func() { ended <- r.Session(s) }()
		empty, err := contents.NewDigest(nil)
		if err != nil {
			t.Fatal(err)
		}
		begin := goodBegin()
		begin.Contents = true
		for _, m := range []*wirev1.SessionRequest{
			{Message: &wirev1.SessionRequest_Begin{Begin: begin}},
			{Message: &wirev1.SessionRequest_Manifest{Manifest: &wirev1.Manifest{Entries: []*wirev1.Entry{root()}}}},
			{Message: &wirev1.SessionRequest_ManifestEnd{ManifestEnd: &wirev1.ManifestEnd{Entries: 1}}},
			{Message: &wirev1.SessionRequest_Contents{Contents: &wirev1.Contents{}}},
			{Message: &wirev1.SessionRequest_Finish{Finish: &wirev1.Finish{ContentsSha256: empty.Sum()}}},
		} {
			select {
			case s.says <- m:
			case err := <-ended:
				t.Fatalf("it ended with %v before the sender had said everything", err)
			}
		}
		if err := r.Wait(ctx); err != nil {
			t.Errorf("the receiver ended with %v", err)
		}
		cancel()
		<-ended
	})
}

// quietStream is the session of a sender that hears everything and says what a test does. Sending to says waits for the
// receiver.
type quietStream struct {
	grpc.ServerStream
	ctx   context.Context
	says  chan *wirev1.SessionRequest
	hears chan *wirev1.SessionResponse
}

func (s *quietStream) Context() context.Context { return s.ctx }

func (s *quietStream) Recv() (*wirev1.SessionRequest, error) {
	select {
	case m := <-s.says:
		return m, nil
	case <-s.ctx.Done():
		return nil, s.ctx.Err()
	}
}

func (s *quietStream) Send(m *wirev1.SessionResponse) error {
	s.hears <- m
	return nil
}

// deafStream is the session of a sender that announces its root and then takes and says nothing more.
type deafStream struct {
	grpc.ServerStream
	ctx  context.Context
	says chan *wirev1.SessionRequest
	sent int
}

func (d *deafStream) Context() context.Context { return d.ctx }

func (d *deafStream) Recv() (*wirev1.SessionRequest, error) {
	select {
	case m := <-d.says:
		return m, nil
	case <-d.ctx.Done():
		return nil, d.ctx.Err()
	}
}

func (d *deafStream) Send(*wirev1.SessionResponse) error {
	if d.sent++; d.sent == 1 {
		return nil // Accepted
	}
	<-d.ctx.Done()
	return d.ctx.Err()
}

func TestDeafSender(t *testing.T) {
	d, err := tree.OpenDestination(t.TempDir(), ".", "run", 1)
	if err != nil {
		t.Fatal(err)
	}
	r := receive.New(receive.Options{
		RunID: "run", Attempt: 1, Destination: receive.Tree{Destination: d}, Engines: engines.Default(),
		Report: receive.NewReport(), Idle: 50 * time.Millisecond,
	})
	stream := &deafStream{ctx: t.Context(), says: make(chan *wirev1.SessionRequest, 2)}
	stream.says <- &wirev1.SessionRequest{Message: &wirev1.SessionRequest_Begin{Begin: goodBegin()}}
	stream.says <- &wirev1.SessionRequest{Message: &wirev1.SessionRequest_Manifest{
		Manifest: &wirev1.Manifest{Entries: []*wirev1.Entry{root()}},
	}}
	ended := make(chan error, 1)
	go func() { ended <- r.Session(stream) }()
	select {
	case <-ended:
		if err := r.Wait(t.Context()); !failure.Is(err, lost) {
			t.Errorf("the receiver ended with %v", err)
		}
	case <-time.After(patience):
		t.Error("the session does not end")
	}
}

// mute is a receiver that stops to speak after some messages, and to hear, too, unless hears is set.
type mute struct {
	wirev1.UnimplementedReceiverServer
	says  []*wirev1.SessionResponse
	hears bool
	done  <-chan struct{}
}

func (m mute) Session(stream wirev1.Receiver_SessionServer) error {
	for _, message := range m.says {
		if _, err := stream.Recv(); err != nil {
			return err
		}
		if err := stream.Send(message); err != nil {
			return err
		}
	}
	if m.hears {
		var err error
		for err == nil {
			_, err = stream.Recv()
		}
		return err
	}
	<-stream.Context().Done()
	return stream.Context().Err()
}

// ServeBlocks takes nothing.
func (m mute) ServeBlocks(net.Conn) { <-m.done }

func TestSilentReceiver(t *testing.T) {
	source := t.TempDir()
	// More than fits into the windows of the connections, so that workers block as well.
	file(t, source, "a", noise(1, 40<<20), 0o600)
	accepted := &wirev1.SessionResponse{
		Message: &wirev1.SessionResponse_Accepted{Accepted: &wirev1.Accepted{Codec: 1, Session: []byte("session")}},
	}
	need := &wirev1.SessionResponse{Message: &wirev1.SessionResponse_Need{Need: &wirev1.Need{Bitmap: []byte{0b10}}}}
	tests := map[string][]*wirev1.SessionResponse{
		"FromTheStart":  nil,
		"AfterAccepted": {accepted},
		"AfterNeed":     {accepted, need},
	}
	for name, says := range tests {
		t.Run(name, func(t *testing.T) {
			p := &pair{dialer: serve(t, mute{says: says, done: t.Context().Done()}, &transport.Counter{})}
			ended := make(chan error, 1)
			go func() {
				_, err := p.send(context.Background(), t, source, func(o *send.Options) {
					o.Silence = 300 * time.Millisecond
				})
				ended <- err
			}()
			select {
			case err := <-ended:
				if !failure.Is(err, lost) || err.Error() != "the receiver was silent for 300ms" {
					t.Errorf("the sender ended with %v", err)
				}
			case <-time.After(patience):
				t.Error("the sender does not end")
			}
		})
	}
}
