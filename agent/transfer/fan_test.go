// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/agent/codec/goflate"
	"github.com/lighterage/lighterage/agent/codec/gozstd"
	"github.com/lighterage/lighterage/agent/codec/identity"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/transfer/receive"
	"github.com/lighterage/lighterage/agent/transfer/send"
	"github.com/lighterage/lighterage/agent/transport"
	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// counted is a source of which a test learns how many bytes were read, by all attempts together.
type counted struct {
	*tree.Source
	bytes *atomic.Int64
}

func (c counted) ReadAt(e *tree.Entry, p []byte, offset int64) error {
	c.bytes.Add(int64(len(p)))
	return c.Source.ReadAt(e, p, offset)
}

// fanOut is a test's Fan with its receivers.
type fanOut struct {
	t      *testing.T
	walked *tree.Source
	read   atomic.Int64

	places       []*send.Place
	destinations []string
	pairs        []*pair
	sent         []*wirev1.Report
	errs         []error
	running      sync.WaitGroup
}

// newFanOut walks the source once.
func newFanOut(t *testing.T, source string, o send.FanOptions, receivers int) *fanOut {
	t.Helper()
	walked, err := tree.OpenSource(source, ".")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = walked.Close() })
	o.Source = walked
	f := &fanOut{
		t: t, walked: walked,
		pairs: make([]*pair, receivers), sent: make([]*wirev1.Report, receivers), errs: make([]error, receivers),
	}
	if o.Gathering == 0 {
		o.Gathering = patience
	}
	var names []string
	for i := range receivers {
		names = append(names, fmt.Sprint(i))
		f.destinations = append(f.destinations, t.TempDir())
	}
	if f.places, err = send.NewFan(o, names...); err != nil {
		t.Fatal(err)
	}
	return f
}

// start begins an attempt for a receiver. It runs until wait.
func (f *fanOut) start(ctx context.Context, i int, source string, p *pair, options ...sendOption) {
	f.pairs[i] = p
	f.running.Go(func() {
		options = append([]sendOption{func(o *send.Options) {
			o.Place, o.Streams, o.CheckpointInterval = f.places[i], 2, 1<<20
			o.Source = counted{o.Source.(*tree.Source), &f.read}
		}}, options...)
		f.sent[i], f.errs[i] = p.send(ctx, f.t, source, options...)
		f.places[i].Leave()
	})
}

// wait waits for all attempts, of which those that are not to fail must have gone well and made the destination equal.
func (f *fanOut) wait(source string, failing ...int) {
	f.t.Helper()
	f.running.Wait()
	for i, p := range f.pairs {
		if len(failing) > 0 && i == failing[0] {
			failing = failing[1:]
			if f.errs[i] == nil {
				f.t.Errorf("attempt %d did not fail", i)
			}
			continue
		}
		f.ended(i, p)
		same(f.t, source, f.destinations[i])
	}
}

func (f *fanOut) ended(i int, p *pair) {
	f.t.Helper()
	if f.errs[i] != nil {
		f.t.Fatalf("send %d: %v", i, f.errs[i])
	}
	if err := p.wait(f.t); err != nil {
		f.t.Fatalf("receive %d: %v", i, err)
	}
}

func always(codecs ...codec.ID) sendOption {
	return func(o *send.Options) {
		o.Policy = policy.Settings{Mode: policy.Always, Level: codec.Fast}
		o.Codecs = codecs
	}
}

// What three receivers need is read and compressed once, each has a whole report, and what was spent is divided.
func TestFanOut(t *testing.T) {
	source := t.TempDir()
	files := mixedTree(t, source)
	f := newFanOut(t, source, send.FanOptions{}, 3)
	for i := range f.pairs {
		f.start(t.Context(), i, source, startReceiver(t, f.destinations[i]))
	}
	f.wait(source)
	var total int64
	for _, sent := range f.sent {
		total = int64(sent.Progress.BytesTotal)
		c, cpu := sent.Compression, sent.Cpu
		if p := sent.Progress; p.Files != uint64(files) || p.Bytes != p.BytesTotal || c.UncompressedBytes != p.Bytes ||
			c.Codec != "deflate" || c.CompressedBytes >= c.UncompressedBytes || sent.WireBytes < c.CompressedBytes {
			t.Errorf("the report is %v", sent)
		}
		if cpu.SendNanos == 0 || cpu.CompressNanos == 0 || cpu.ReadNanos == 0 || cpu.CompressNanos > cpu.SendNanos {
			t.Errorf("CPU is %v", cpu)
		}
	}
	// Small files may be cut otherwise where a receiver is slow to say what it needs.
	if read := f.read.Load(); read < total || read > total*5/4 {
		t.Errorf("%d bytes were read of %d", read, total)
	}

	// Each of what has changed is read for every receiver, and arrives.
	change(t, source, "large", 3<<20)
	change(t, source, "exact", 5)
	file(t, source, "new", text(7, 2<<20), 0o600)
	next := newFanOut(t, source, send.FanOptions{}, 3)
	next.destinations = f.destinations
	for i := range next.pairs {
		next.start(t.Context(), i, source, startReceiver(t, next.destinations[i]))
	}
	next.wait(source)
	for _, sent := range next.sent {
		if p := sent.Progress; p.ReusedBytes < 8<<20 || p.UnchangedFiles < uint64(files)-3 {
			t.Errorf("progress is %v", p)
		}
	}
}

// change writes some bytes into a file.
func change(t *testing.T, root, path string, at int64) {
	t.Helper()
	name := filepath.Join(root, path)
	if err := os.Chmod(name, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte("changed"), at); err != nil {
		t.Fatal(err)
	}
	age(t, name, at)
}

// All are sent what all read; who reads none of that is sent something else.
func TestFanOutAgreesOnACodec(t *testing.T) {
	source := t.TempDir()
	const size = 6 << 20
	file(t, source, "a", text(1, size), 0o600)
	all, old := engines.Default(), codec.NewRegistry(goflate.New(), identity.New())
	none := codec.NewRegistry(identity.New())
	for name, test := range map[string]struct {
		receivers []*codec.Registry
		codecs    []string
		reads     int64 // of the source
	}{
		"all read both":          {[]*codec.Registry{all, all}, []string{"zstd", "zstd"}, 1},
		"one reads deflate only": {[]*codec.Registry{all, old, all}, []string{"deflate", "deflate", "deflate"}, 1},
		"one reads none":         {[]*codec.Registry{all, none, all}, []string{"zstd", "none", "zstd"}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFanOut(t, source, send.FanOptions{}, len(test.receivers))
			for i, registry := range test.receivers {
				p := startReceiver(t, f.destinations[i], func(o *receive.Options) { o.Engines = registry })
				f.start(t.Context(), i, source, p, always(codec.Zstd, codec.Deflate))
			}
			f.wait(source)
			for i, want := range test.codecs {
				if got := f.sent[i].Compression.Codec; got != want {
					t.Errorf("receiver %d was sent %s, want %s", i, got, want)
				}
			}
			if read := f.read.Load(); read != test.reads*size {
				t.Errorf("%d bytes were read, want %d times %d", read, test.reads, size)
			}
		})
	}
}

// A receiver of an earlier release has all of them get blocks that it reads.
func TestFanOutWithEarlierReceiver(t *testing.T) {
	source := t.TempDir()
	file(t, source, "a", text(1, 3<<20), 0o600)
	f := newFanOut(t, source, send.FanOptions{}, 2)
	seen := &headers{}
	for i := range f.pairs {
		p := startReceiver(t, f.destinations[i])
		if i == 0 {
			p.dialer = serve(t, earlier{p.receiver}, &transport.Counter{})
		}
		dialer := p.dialer
		f.start(t.Context(), i, source, p, always(codec.Deflate), observing(dialer, seen))
	}
	f.wait(source)
	for _, h := range seen.all {
		if h.Joinable {
			t.Errorf("block %+v is joinable", h)
		}
	}
	if len(seen.all) < 6 {
		t.Errorf("%d blocks were seen", len(seen.all))
	}
}

// observing notes the headers of blocks that are written.
func observing(dialer *transport.Dialer, seen *headers) sendOption {
	return func(o *send.Options) {
		o.DialBlocks = func(ctx context.Context) (net.Conn, error) {
			conn, err := dialer.DialBlocks(ctx, serverName)
			return observed{conn, seen}, err
		}
	}
}

// One receiver takes nothing more for a time. The others are done before it goes on, and it is sent all.
func TestFanOutWithStalledReceiver(t *testing.T) {
	source := t.TempDir()
	const size = 40 << 20
	file(t, source, "a", noise(1, size), 0o600)
	// The spool is a tenth of what the others are ahead.
	f := newFanOut(t, source, send.FanOptions{Spool: 4 << 20}, 3)
	d := &stuck{arrived: make(chan struct{}, size>>20+1), release: make(chan struct{})}
	release := sync.OnceFunc(func() { close(d.release) })
	defer release()
	stalled := startReceiver(t, f.destinations[0], func(o *receive.Options) {
		d.Destination, o.Destination = o.Destination, d
	})
	f.start(t.Context(), 0, source, stalled)
	for i := 1; i < 3; i++ {
		f.start(t.Context(), i, source, startReceiver(t, f.destinations[i]))
	}
	for i := 1; i < 3; i++ {
		if err := f.pairs[i].wait(t); err != nil {
			t.Fatalf("receive %d: %v", i, err)
		}
	}
	before := f.read.Load()
	if before < size {
		t.Errorf("%d bytes were read for those that go on, of %d", before, size)
	}
	release()
	f.running.Wait()
	for i := range f.pairs {
		if f.errs[i] != nil {
			t.Fatalf("send %d: %v", i, f.errs[i])
		}
		same(t, source, f.destinations[i])
	}
	if again := f.read.Load() - before; again < size/8 || again > size {
		t.Errorf("%d bytes were read again for who fell behind, of %d", again, size)
	}
}

// The connections of one receiver break. The others do not notice, and it goes on from its own journal.
func TestFanOutWithLostReceiver(t *testing.T) {
	source := t.TempDir()
	const size = 24 << 20
	file(t, source, "a", noise(1, size), 0o600)
	f := newFanOut(t, source, send.FanOptions{}, 3)
	g := &gate{}
	lost := startReceiver(t, f.destinations[1], func(o *receive.Options) {
		o.Destination = after(o.Destination, 8, g.cut)
	})
	lost.dialer.Address = splice(t, g, lost.dialer.Address)
	for i := range f.pairs {
		p := lost
		if i != 1 {
			p = startReceiver(t, f.destinations[i])
		}
		f.start(t.Context(), i, source, p)
	}
	f.wait(source, 1)
	lost.wait(t)
	again := newFanOut(t, source, send.FanOptions{}, 1)
	again.destinations[0] = f.destinations[1]
	again.start(t.Context(), 0, source, startAttempt(t, 2, f.destinations[1]), func(o *send.Options) { o.Attempt = 2 })
	again.wait(source)
	if p := again.sent[0].Progress; p.ResumedBytes < 1<<20 || p.Bytes != size {
		t.Errorf("progress of the second attempt is %v", p)
	}
}

// after is a destination that calls a function before it writes the chunk of a number.
func after(d receive.Destination, chunks int64, call func()) receive.Destination {
	return &counting{Destination: d, at: chunks, call: call}
}

type counting struct {
	receive.Destination
	chunks atomic.Int64
	at     int64
	call   func()
}

func (d *counting) Stage(number uint64, e *tree.Entry) (receive.StagedFile, error) {
	f, err := d.Destination.Stage(number, e)
	return countedFile{f, d}, err
}

type countedFile struct {
	receive.StagedFile
	destination *counting
}

func (f countedFile) WriteAt(p []byte, offset int64) (int, error) {
	if d := f.destination; d.chunks.Add(1) == d.at {
		d.call()
	}
	return f.StagedFile.WriteAt(p, offset)
}

// The sender dies when the receivers are at different positions. Another one goes on with each from where it was, and a
// receiver that reads less now is sent what it reads.
func TestFanOutOfLostSender(t *testing.T) {
	source := t.TempDir()
	const size = 24 << 20
	file(t, source, "a", noise(1, size), 0o600)
	f := newFanOut(t, source, send.FanOptions{}, 3)
	ctx, die := context.WithCancel(t.Context())
	defer die()
	// The first writes a few chunks and waits, the second is at the beginning, and the third writes until all is over.
	d := &stuck{arrived: make(chan struct{}, size>>20+1), release: make(chan struct{}, size>>20)}
	for i := range f.pairs {
		f.start(ctx, i, source, startReceiver(t, f.destinations[i], func(o *receive.Options) {
			switch i {
			case 0:
				d.Destination, o.Destination = after(o.Destination, 4, die), d
			case 2:
				o.Destination = after(o.Destination, 12, func() {
					for range 6 {
						d.release <- struct{}{}
					}
				})
			}
		}))
	}
	f.running.Wait()
	close(d.release)
	var resumed [3]uint64
	next := newFanOut(t, source, send.FanOptions{}, 3)
	next.destinations = f.destinations
	for i, p := range f.pairs {
		if f.errs[i] == nil {
			t.Logf("attempt %d was done before", i)
		}
		_ = p.wait(t)
		next.start(t.Context(), i, source, startAttempt(t, 2, next.destinations[i], func(o *receive.Options) {
			if i == 1 {
				o.Engines = codec.NewRegistry(identity.New())
			}
		}), func(o *send.Options) { o.Attempt = 2 })
	}
	next.wait(source)
	for i, sent := range next.sent {
		resumed[i] = sent.Progress.ResumedBytes + sent.Progress.UnchangedBytes
	}
	if resumed[0] == resumed[2] || resumed[2] < 4<<20 {
		t.Errorf("they went on from %v", resumed)
	}
}

// Files that change while they are read arrive everywhere as they are then.
func TestFanOutOfChangingFiles(t *testing.T) {
	source, other := t.TempDir(), t.TempDir()
	for i := range 20 {
		file(t, source, fmt.Sprintf("%02d", i), noise(uint64(i), 1<<20+100), 0o600)
	}
	f := newFanOut(t, source, send.FanOptions{}, 3)
	var once sync.Once
	for i := range f.pairs {
		p := startReceiver(t, f.destinations[i], touch(func(e *tree.Entry, times int) {
			if e.Path == "07" && times == 0 {
				once.Do(func() {
					file(t, other, "07", noise(99, 2<<20+5), 0o600)
					if err := os.Rename(filepath.Join(other, "07"), filepath.Join(source, "07")); err != nil {
						t.Error(err)
					}
				})
			}
		}))
		f.start(t.Context(), i, source, p, atOnce)
	}
	f.running.Wait()
	want := listing(t, source)
	delete(want, ".") // its time is that of another walk
	for i, p := range f.pairs {
		f.ended(i, p)
		got := listing(t, f.destinations[i])
		delete(got, ".")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("source (-) and destination %d (+) differ:\n%s", i, diff)
		}
	}
}

// Forms in which files rest, holes and receivers that need different files.
func TestFanOutOfDifferentNeeds(t *testing.T) {
	source := t.TempDir()
	files := mixedTree(t, source)
	f := newFanOut(t, source, send.FanOptions{}, 2)
	// The second has half of it, by an attempt of its own.
	p := startReceiver(t, f.destinations[1])
	if _, err := p.send(t.Context(), t, source); err != nil {
		t.Fatal(err)
	}
	if err := p.wait(t); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(f.destinations[1], "src/3")); err != nil {
		t.Fatal(err)
	}
	sparse, err := os.Create(filepath.Join(source, "holes"))
	if err != nil {
		t.Fatal(err)
	}
	defer sparse.Close()
	if _, err := sparse.WriteAt(text(1, 100_000), 5<<20); err != nil {
		t.Fatal(err)
	}
	if err := sparse.Truncate(9 << 20); err != nil {
		t.Fatal(err)
	}
	for i := range f.pairs {
		f.start(t.Context(), i, source, startReceiver(t, f.destinations[i]))
	}
	f.wait(source)
	if p := f.sent[1].Progress; p.UnchangedFiles < uint64(files)/2 || p.HoleBytes < 4<<20 {
		t.Errorf("progress is %v", p)
	}
}

// In mode Auto each attempt chooses for the blocks that it makes, and the others take them.
func TestFanOutAdaptive(t *testing.T) {
	source := t.TempDir()
	const size = 24 << 20
	file(t, source, "a", text(1, size), 0o600)
	f := newFanOut(t, source, send.FanOptions{}, 3)
	for i := range f.pairs {
		f.start(t.Context(), i, source, startReceiver(t, f.destinations[i]), func(o *send.Options) {
			o.Policy = policy.Settings{Mode: policy.Auto, Level: codec.High, Objective: policy.Bytes}
			o.Engines = codec.NewRegistry(gozstd.New(), goflate.New(), identity.New())
			o.Codecs = []codec.ID{codec.Zstd, codec.Deflate}
			o.WayEngines = map[policy.Option]codec.Engine{
				{Codec: codec.Deflate, Class: codec.Software, Level: codec.Fast}: goflate.New(),
				{Codec: codec.Zstd, Class: codec.Software, Level: codec.High}:    gozstd.New(),
			}
			for w := range o.WayEngines {
				o.Ways = append(o.Ways, policy.Way{Option: w})
			}
		})
	}
	f.wait(source)
	if read := f.read.Load(); read != size {
		t.Errorf("%d bytes were read of %d", read, size)
	}
	for i, sent := range f.sent {
		if c := sent.Compression; c.Codec != "zstd" || c.Software.Operations < size>>20-6 {
			t.Errorf("receiver %d: compression is %v", i, c)
		}
	}
}

// Each receiver gets a receipt of the same content.
func TestFanOutReceipts(t *testing.T) {
	source := t.TempDir()
	mixedTree(t, source)
	if err := os.Link(filepath.Join(source, "large"), filepath.Join(source, "another-name")); err != nil {
		t.Fatal(err)
	}
	want := manifestOf(t, source)
	f := newFanOut(t, source, send.FanOptions{}, 3)
	for i := range f.pairs {
		f.start(t.Context(), i, source, startReceiver(t, f.destinations[i]), withContents, func(o *send.Options) {
			o.Source = o.Source.(counted).Source
		})
	}
	f.running.Wait()
	for i, p := range f.pairs {
		f.ended(i, p)
		for side, c := range map[string]*wirev1.ContentDigest{
			"sender": f.sent[i].GetContents(), "receiver": p.report.Report().GetContents(),
		} {
			if !bytes.Equal(c.GetSha256(), want.Sum()) || c.GetEntries() != want.Files+want.Links {
				t.Errorf("receiver %d, %s: %v", i, side, c)
			}
		}
	}
}

// Who is not ready in time is not waited for, and is sent everything.
func TestFanOutWithLateReceiver(t *testing.T) {
	source := t.TempDir()
	file(t, source, "a", noise(1, 3<<20), 0o600)
	f := newFanOut(t, source, send.FanOptions{Gathering: time.Millisecond}, 2)
	f.start(t.Context(), 0, source, startReceiver(t, f.destinations[0]))
	f.running.Wait()
	f.start(t.Context(), 1, source, startReceiver(t, f.destinations[1]))
	f.wait(source)
}

func TestFanOutPlaces(t *testing.T) {
	if _, err := send.NewFan(send.FanOptions{}, "a", "b", "a"); err == nil || !strings.Contains(err.Error(), `"a"`) {
		t.Errorf("a destination twice: %v", err)
	}
	var names []string
	for i := range send.MaxReceivers {
		names = append(names, fmt.Sprint(i))
	}
	places, err := send.NewFan(send.FanOptions{}, names...)
	if err != nil {
		t.Fatal(err)
	}
	places[3].Leave()
	places[3].Leave()
	if _, err := send.NewFan(send.FanOptions{}, append(names, "one more")...); err == nil {
		t.Error("there is a place for one too many")
	}
}
