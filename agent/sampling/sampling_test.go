// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package sampling_test

import (
	"bytes"
	"context"
	"errors"
	"math"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/lighterage/lighterage/agent/sampling"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

const patience = time.Minute

// TestReservoirIsFair: each of many items has about the same chance, the first as well as the last. So far off is it
// once in 10^9 runs.
func TestReservoirIsFair(t *testing.T) {
	const items, space, rounds = 100, 10, 2000
	var first, last int
	for range rounds {
		r := sampling.NewReservoir(space, items)
		for i := range items {
			key, stays := r.Draw()
			if !stays {
				r.Pass(1)
				continue
			}
			r.Add(key, sampling.Item{Content: []byte{byte(i)}, Length: 1})
		}
		kept, seen := r.Close()
		if len(kept) != space || seen.Items != items || seen.Bytes != items {
			t.Fatalf("%d kept of %+v", len(kept), seen)
		}
		for _, item := range kept {
			switch item.Content[0] {
			case 0:
				first++
			case items - 1:
				last++
			}
		}
	}
	const want = rounds * space / items
	off := 6.2 * math.Sqrt(want*0.9)
	for name, n := range map[string]int{"first": first, "last": last} {
		if math.Abs(float64(n-want)) > off {
			t.Errorf("the %s stayed %d times of %d, want about %d", name, n, rounds, want)
		}
	}
}

func TestReservoirBounds(t *testing.T) {
	r := sampling.NewReservoir(1000, 3)
	for range 50 {
		key, _ := r.Draw()
		r.Add(key, sampling.Item{Content: make([]byte, 400), Length: 5000})
	}
	kept, seen := r.Close()
	if len(kept) != 2 || seen.Items != 50 || seen.Bytes != 50*5000 || !kept[0].Cut() {
		t.Errorf("%d kept, %+v", len(kept), seen)
	}
	// What comes late changes nothing.
	if _, stays := r.Draw(); stays {
		t.Error("something stays in what is closed")
	}
	r.Add(0, sampling.Item{Content: []byte("x"), Length: 1})
	if kept, again := r.Close(); len(kept) != 0 || again != seen {
		t.Errorf("%d kept, %+v", len(kept), again)
	}
	few := sampling.NewReservoir(1<<20, 3)
	for range 9 {
		key, _ := few.Draw()
		few.Add(key, sampling.Item{Content: []byte("x"), Length: 1})
	}
	if kept, _ := few.Close(); len(kept) != 3 {
		t.Errorf("%d kept, want 3", len(kept))
	}
}

// source gives what a test says.
type source func(context.Context, sampling.Request, func(sampling.Item) error) (sampling.Seen, error)

func (s source) Sample(ctx context.Context, r sampling.Request, give func(sampling.Item) error) (sampling.Seen, error) {
	return s(ctx, r, give)
}

// dial serves and returns a connection to it.
func dial(t *testing.T, server wirev1.SamplerServer) *grpc.ClientConn {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer()
	wirev1.RegisterSamplerServer(g, server)
	go func() { _ = g.Serve(listener) }()
	t.Cleanup(g.Stop)
	conn, err := grpc.NewClient(
		"passthrough:///"+listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()),
	)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

var limits = sampling.Limits{Bytes: 100, Items: 3, Duration: patience}

func TestServe(t *testing.T) {
	var asked sampling.Request
	conn := dial(t, sampling.NewServer(source(func(
		_ context.Context, r sampling.Request, give func(sampling.Item) error,
	) (sampling.Seen, error) {
		asked = r
		for _, text := range []string{"one", "two"} {
			if err := give(sampling.Item{Content: []byte(text), Length: 7}); err != nil {
				return sampling.Seen{}, err
			}
		}
		return sampling.Seen{Items: 9, Bytes: 63, Unreadable: 1}, nil
	}), limits))
	items, seen, err := sampling.Fetch(
		t.Context(), conn, sampling.Request{MaxBytes: 1 << 20, MaxItems: 50, Duration: time.Second, Seed: 7},
	)
	if err != nil || len(items) != 2 || string(items[1].Content) != "two" || !items[0].Cut() ||
		seen != (sampling.Seen{Items: 9, Bytes: 63, Unreadable: 1}) {
		t.Errorf("%v %+v %v", items, seen, err)
	}
	if want := (sampling.Request{MaxBytes: 100, MaxItems: 3, Duration: time.Second, Seed: 7}); asked != want {
		t.Errorf("asked for %+v, want %+v", asked, want)
	}
}

// TestOneAtATime: a second caller is refused while the first is served, and served when that has gone.
func TestOneAtATime(t *testing.T) {
	begun := make(chan struct{}, 2)
	conn := dial(t, sampling.NewServer(source(func(
		ctx context.Context, _ sampling.Request, _ func(sampling.Item) error,
	) (sampling.Seen, error) {
		begun <- struct{}{}
		<-ctx.Done()
		return sampling.Seen{}, ctx.Err()
	}), limits))
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan error, 1)
	request := sampling.Request{MaxBytes: 1, MaxItems: 1}
	go func() {
		_, _, err := sampling.Fetch(ctx, conn, request)
		first <- err
	}()
	<-begun
	if _, _, err := sampling.Fetch(t.Context(), conn, request); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a second caller gets %v", err)
	}
	cancel()
	if err := <-first; status.Code(err) != codes.Canceled {
		t.Error(err)
	}
	// The server learns a moment later that the first has gone.
	short, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	for served := false; !served; {
		go func() { _, _, _ = sampling.Fetch(short, conn, request) }()
		select {
		case <-begun:
			served = true
		case <-time.After(10 * time.Millisecond):
		case <-short.Done():
			t.Fatal("nobody is served any more")
		}
	}
	stop()
}

func TestServeRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		q    *wirev1.SampleRequest
		err  error
		want codes.Code
	}{
		"no bytes": {&wirev1.SampleRequest{MaxItems: 1}, nil, codes.InvalidArgument},
		"no items": {&wirev1.SampleRequest{MaxBytes: 1}, nil, codes.InvalidArgument},
		"too long": {
			&wirev1.SampleRequest{MaxBytes: 1, MaxItems: 1, Duration: durationpb.New(time.Hour)}, nil, codes.InvalidArgument,
		},
		"negative": {
			&wirev1.SampleRequest{MaxBytes: 1, MaxItems: 1, Duration: durationpb.New(-time.Second)}, nil, codes.InvalidArgument,
		},
		"busy":      {&wirev1.SampleRequest{MaxBytes: 1, MaxItems: 1}, sampling.ErrBusy, codes.ResourceExhausted},
		"not ready": {&wirev1.SampleRequest{MaxBytes: 1, MaxItems: 1}, sampling.ErrNotReady, codes.Unavailable},
		"too slow":  {&wirev1.SampleRequest{MaxBytes: 1, MaxItems: 1}, context.DeadlineExceeded, codes.DeadlineExceeded},
		"broken":    {&wirev1.SampleRequest{MaxBytes: 1, MaxItems: 1}, errors.New("no disk"), codes.Internal},
	} {
		conn := dial(t, sampling.NewServer(source(func(
			context.Context, sampling.Request, func(sampling.Item) error,
		) (sampling.Seen, error) {
			return sampling.Seen{}, test.err
		}), limits))
		stream, err := wirev1.NewSamplerClient(conn).Sample(t.Context(), test.q)
		if err == nil {
			_, err = stream.Recv()
		}
		if status.Code(err) != test.want {
			t.Errorf("%s: %v, want %v", name, err, test.want)
		}
	}
}

// liar answers what a test says.
type liar struct {
	wirev1.UnimplementedSamplerServer
	answers []*wirev1.SampleResponse
}

func (l *liar) Sample(_ *wirev1.SampleRequest, stream wirev1.Sampler_SampleServer) error {
	for _, a := range l.answers {
		if err := stream.Send(a); err != nil {
			return err
		}
	}
	return nil
}

func item(content []byte, length uint64) *wirev1.SampleResponse {
	return &wirev1.SampleResponse{
		Answer: &wirev1.SampleResponse_Item{Item: &wirev1.SampleItem{Content: content, Length: length}},
	}
}

// TestFetchHoldsToTheRequest: a server that gives more, or nonsense, is not believed.
func TestFetchHoldsToTheRequest(t *testing.T) {
	for name, answers := range map[string][]*wirev1.SampleResponse{
		"no end":         {item([]byte("x"), 1)},
		"nothing":        {{}},
		"empty item":     {item(nil, 1)},
		"shorter":        {item([]byte("xyz"), 2)},
		"too many bytes": {item(bytes.Repeat([]byte("x"), 11), 11)},
		"too many items": {item([]byte("x"), 1), item([]byte("x"), 1), item([]byte("x"), 1)},
		"too long":       {item(bytes.Repeat([]byte("x"), sampling.MaxItem+1), sampling.MaxItem+1)},
	} {
		_, _, err := sampling.Fetch(
			t.Context(), dial(t, &liar{answers: answers}), sampling.Request{MaxBytes: 10, MaxItems: 2},
		)
		if !errors.Is(err, sampling.ErrBadSample) || strings.Contains(err.Error(), "xyz") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
