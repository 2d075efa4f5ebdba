// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package send

import (
	"context"
	"fmt"
	"net"
	"slices"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc"

	"github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

func dialFar(context.Context) (net.Conn, error) { return nil, net.ErrClosed }

// On a long path every stream gets something to send at first, and blocks become longer then.
func TestPackerOnALongPath(t *testing.T) {
	const files, size = 400, 16 << 10
	queue := make(chan *outFile, files)
	for i := range files {
		entry := &tree.Entry{Path: fmt.Sprintf("%03d", i), Type: tree.File, Size: size}
		queue <- &outFile{entry: entry, index: uint64(i)}
	}
	close(queue)
	p := &packer{queue: queue, workload: newWorkload(), changed: &changedFiles{}, most: farBlock, streams: 2}
	ended := make(chan error, 1)
	go func() { ended <- p.run(t.Context()) }()
	var got []int
	for item := range p.workload.items {
		got = append(got, len(item))
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if want := []int{4, 4, 8, 8, 16, 16, 32, 32, 64, 64, 64, 64, 24}; !slices.Equal(got, want) {
		t.Errorf("blocks of %v files, want %v", got, want)
	}
}

// manifests are the lengths of those that were sent.
type manifests struct {
	grpc.BidiStreamingClient[wirev1.SessionRequest, wirev1.SessionResponse]
	entries []int
}

func (m *manifests) Send(r *wirev1.SessionRequest) error {
	if n := len(r.GetManifest().GetEntries()); n > 0 {
		m.entries = append(m.entries, n)
	}
	return nil
}

// emptySource has so many directories.
type emptySource struct {
	Source
	entries int
}

func (s emptySource) Walk(_ context.Context, visit func(*tree.Entry) error) error {
	for i := range s.entries {
		if err := visit(&tree.Entry{Path: fmt.Sprintf("%06d", i), Type: tree.Directory}); err != nil {
			return err
		}
	}
	return nil
}

// On a long path the first manifest is short, so that its answer comes soon.
func TestManifestsOnALongPath(t *testing.T) {
	for name, test := range map[string]struct {
		dial func(context.Context) (net.Conn, error)
		want []int
	}{
		"Near": {nil, []int{1024, 1024, 1024, 428}},
		"Far":  {dialFar, []int{96, 192, 384, 768, 1024, 1024, 12}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sent := &manifests{}
				o := &Options{Source: emptySource{entries: 3500}, Report: NewReport(), DialEarly: test.dial}
				a := newAnnouncer(o, &session{stream: sent}, newWindow())
				if err := a.wait(t.Context()); err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(sent.entries, test.want) {
					t.Errorf("manifests of %v entries, want %v", sent.entries, test.want)
				}
			})
		})
	}
}

// An announcer ends with the work that it is part of, also if it began before.
func TestAnnouncerEnds(t *testing.T) {
	a := newAnnouncer(&Options{Source: emptySource{entries: 1 << 30}, Report: NewReport()}, &session{stream: &manifests{}},
		newWindow())
	a.start(t.Context())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if a.wait(ctx) == nil { // it waits for a matcher before
		t.Error("it went through")
	}
	a.end()
}

// A receiver sees no manifest before it has said that it can do what the sender cannot do without.
func TestAnnouncesEarly(t *testing.T) {
	for name, test := range map[string]struct {
		options Options
		want    bool
	}{
		"Near":     {Options{}, false},
		"Far":      {Options{DialEarly: dialFar}, true},
		"Mirror":   {Options{DialEarly: dialFar, Mirror: &wirev1.Mirror{}}, true},
		"Block":    {Options{DialEarly: dialFar, Block: true}, false},
		"Contents": {Options{DialEarly: dialFar, Contents: true}, false},
		"Form":     {Options{DialEarly: dialFar, Form: cargo.Gzip}, false},
		"Fan":      {Options{DialEarly: dialFar, Place: &Place{}}, false},
	} {
		if got := test.options.announcesEarly(); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
