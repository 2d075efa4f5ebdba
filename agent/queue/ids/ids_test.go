// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package ids

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"
)

// clock is a time that tests set.
type clock struct{ now time.Time }

func (c *clock) read() time.Time { return c.now }

func newClock() *clock { return &clock{time.Unix(1_800_000_000, 0)} }

// open returns a log that the test closes or leaves, as a killed process does.
func open(t *testing.T, o Options, c *clock) *Log {
	t.Helper()
	o.Now = c.read
	if o.Window == 0 {
		o.Window = time.Minute
	}
	if o.Last == 0 {
		o.Last = 1000
	}
	l, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() }) // again, perhaps
	return l
}

func given(t *testing.T, l *Log, id string, sequence uint64, stored time.Time) {
	t.Helper()
	if err := l.Given([]Message{{[]byte(id), sequence, stored}}); err != nil {
		t.Fatal(err)
	}
}

func expect(t *testing.T, l *Log, id string, want uint64) {
	t.Helper()
	got, ok := l.Sequence([]byte(id))
	if got != want || ok != (want != 0) {
		t.Errorf("id %q is known of message %d, %v; want %d", id, got, ok, want)
	}
}

// files makes them as old as the clock of the test says.
func files(t *testing.T, directory string, at time.Time) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(directory, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	return paths
}

// TestRestart: what was given is known after a start, for the rest of the window, and again after the next start.
func TestRestart(t *testing.T) {
	c, o := newClock(), Options{Directory: filepath.Join(t.TempDir(), "ids")}
	l := open(t, o, c)
	given(t, l, "a", 1, c.now.Add(-10*time.Second))
	given(t, l, "b", 2, c.now)
	given(t, l, "old", 3, c.now.Add(-2*time.Minute))
	given(t, l, "", 4, c.now)
	given(t, l, "b", 5, c.now.Add(time.Second)) // put again after the window of another length
	if l.Any() {
		t.Error("it knows something before it was started again: the server does so")
	}
	files(t, o.Directory, c.now)
	c.now = c.now.Add(20 * time.Second)
	for range 2 {
		l = open(t, o, c)
		for id, want := range map[string]uint64{"a": 1, "b": 5, "old": 0, "": 0, "c": 0} {
			expect(t, l, id, want)
		}
	}
	c.now = c.now.Add(32 * time.Second)
	expect(t, l, "a", 0)
	expect(t, l, "b", 5)
	l.SetWindow(30 * time.Second)
	expect(t, l, "b", 0)
	if l.Any() || len(l.places) > 0 {
		t.Error("what is too old is still kept")
	}
	expect(t, l, "b", 0)
}

// TestTorn: what was written in full is known though what follows was not.
func TestTorn(t *testing.T) {
	for name, damage := range map[string]func([]byte) []byte{
		"short":   func(b []byte) []byte { return b[:len(b)-1] },
		"changed": func(b []byte) []byte { b[len(b)-recordLen]++; return b },
		"zeros":   func(b []byte) []byte { clear(b[len(b)-recordLen:]); return b },
	} {
		t.Run(name, func(t *testing.T) {
			c, o := newClock(), Options{Directory: t.TempDir()}
			l := open(t, o, c)
			given(t, l, "a", 1, c.now)
			given(t, l, "b", 2, c.now)
			path := files(t, o.Directory, c.now)[0]
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, damage(b), 0o600); err != nil {
				t.Fatal(err)
			}
			files(t, o.Directory, c.now)
			l = open(t, o, c)
			expect(t, l, "a", 1)
			expect(t, l, "b", 0)
		})
	}
}

// TestLost: ids of messages that the stream lost are forgotten, also when others have their sequences.
func TestLost(t *testing.T) {
	c, o := newClock(), Options{Directory: t.TempDir(), Last: 2}
	l := open(t, o, c)
	for i, id := range []string{"a", "b", "c"} {
		given(t, l, id, uint64(i+1), c.now)
	}
	for range 2 {
		files(t, o.Directory, c.now)
		l = open(t, o, c)
		expect(t, l, "a", 1)
		expect(t, l, "b", 2)
		expect(t, l, "c", 0)
		o.Last = 10
	}
}

// TestFilesGo: files that are too old are removed, of a log that is written to and of one that starts.
func TestFilesGo(t *testing.T) {
	c, o := newClock(), Options{Directory: t.TempDir()}
	l := open(t, o, c)
	most := 0
	for i := range 600 { // ten windows
		c.now = c.now.Add(time.Second)
		given(t, l, fmt.Sprint(i), uint64(i+1), c.now)
		most = max(most, len(files(t, o.Directory, c.now)))
	}
	if most > parts+3 {
		t.Errorf("%d files at a time", most)
	}
	l = open(t, o, c)
	for i := range 600 {
		want := uint64(0)
		if i >= 600-60 {
			want = uint64(i + 1)
		}
		if i != 600-61 { // it may be known for a second more
			expect(t, l, fmt.Sprint(i), want)
		}
	}
	c.now = c.now.Add(2 * time.Minute)
	if l = open(t, o, c); l.Any() {
		t.Error("it knows what is too old")
	}
	if n := len(files(t, o.Directory, c.now)); n != 1 {
		t.Errorf("%d files are left", n)
	}
}

// TestBound: beyond the limit the oldest are forgotten.
func TestBound(t *testing.T) {
	const limit = 100 * recordLen
	c, o := newClock(), Options{Directory: t.TempDir(), MaxBytes: limit}
	l := open(t, o, c)
	for i := range 1000 {
		given(t, l, fmt.Sprint(i), uint64(i+1), c.now)
	}
	var size int64
	for _, path := range files(t, o.Directory, c.now) {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		size += info.Size()
	}
	if size > limit || size < limit/2 {
		t.Errorf("%d bytes of %d", size, limit)
	}
	l = open(t, o, c)
	expect(t, l, "999", 1000)
	expect(t, l, "0", 0)
}

// TestBursts: ids that come in bursts are known for the window when they are within the limit, in however many files.
func TestBursts(t *testing.T) {
	const burst, bursts = 21, 3 // one more than a file has
	c, o := newClock(), Options{Directory: t.TempDir(), MaxBytes: 100 * recordLen}
	l := open(t, o, c)
	for i := range burst * bursts {
		if i%burst == 0 {
			c.now = c.now.Add(15 * time.Second) // for another file
		}
		given(t, l, fmt.Sprint(i), uint64(i+1), c.now)
	}
	l = open(t, o, c)
	for i := range burst * bursts {
		expect(t, l, fmt.Sprint(i), uint64(i+1))
	}
}

// TestBoundLowered: of what was written when more was allowed, the last is kept that is within the limit.
func TestBoundLowered(t *testing.T) {
	c, o := newClock(), Options{Directory: t.TempDir()}
	l := open(t, o, c)
	for i := range 1000 {
		given(t, l, fmt.Sprint(i), uint64(i+1), c.now)
		if i == 899 {
			c.now = c.now.Add(20 * time.Second) // for another file
		}
	}
	for _, most := range []int{150, 50} { // of two files, and of one
		o.MaxBytes = int64(most) * recordLen
		l = open(t, o, c)
		want := most / parts * (parts - 1)
		if n := len(l.places); n != want {
			t.Errorf("%d are known, want %d", n, want)
		}
		expect(t, l, "999", 1000)
		expect(t, l, fmt.Sprint(1000-want), uint64(1000-want+1))
		expect(t, l, fmt.Sprint(1000-want-1), 0)
	}
	for _, bytes := range []int64{0, 1 << 40} {
		o.MaxBytes = bytes
		if l = open(t, o, c); l.options.MaxBytes != 32<<20 {
			t.Errorf("with a limit of %d it is %d", bytes, l.options.MaxBytes)
		}
	}
}

// TestFormer: what an earlier release wrote, in more and longer files of the same form, is known.
func TestFormer(t *testing.T) {
	c, o := newClock(), Options{Directory: t.TempDir()}
	want := make(map[string]uint64)
	for file := range uint64(8) {
		var b []byte
		for i := range uint64(100) {
			id := fmt.Sprintf("%d-%d", file, i)
			want[id] = 100*file + i + 1
			b = appendRecord(b, digestOf([]byte(id)), place{want[id], c.now.Unix()})
		}
		path := filepath.Join(o.Directory, fmt.Sprintf("%d%s", c.now.UnixNano()+int64(file), suffix))
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		l := open(t, o, c)
		for id, sequence := range want {
			expect(t, l, id, sequence)
		}
	}
}

// TestStartWritesNothing: a start leaves files as they are, which a full volume needs, and starts again and again leave
// no more of them.
func TestStartWritesNothing(t *testing.T) {
	c, o := newClock(), Options{Directory: t.TempDir()}
	l := open(t, o, c)
	given(t, l, "a", 1, c.now)
	former := files(t, o.Directory, c.now)[0]
	for range 3 {
		c.now = c.now.Add(time.Second)
		l = open(t, o, c)
		expect(t, l, "a", 1)
		after := files(t, o.Directory, c.now)
		if len(after) != 2 || after[0] != former || total(l.parts) != recordLen || l.written != 0 {
			t.Fatalf("%q became %q, with %d bytes in a new one", former, after, l.written)
		}
	}
}

// TestRewriteFails: whenever it is that ids cannot be written to new files, no new one is left and the former stay.
func TestRewriteFails(t *testing.T) {
	c := newClock()
	o := Options{Directory: t.TempDir(), SyncAlways: true, Now: c.read, Window: time.Minute, Last: 1}
	l := open(t, o, c)
	given(t, l, "a", 1, c.now)
	given(t, l, "lost", 2, c.now)
	former := files(t, o.Directory, c.now)
	for syncs := range 2 { // of the directory, and of the file
		l = &Log{options: o, fsync: func(*os.File) error {
			if syncs--; syncs < 0 {
				return os.ErrDeadlineExceeded
			}
			return nil
		}}
		if err := l.open(); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("opened: %v", err)
		}
		if after := files(t, o.Directory, c.now); !slices.Equal(after, former) {
			t.Errorf("%q became %q", former, after)
		}
	}
	l = open(t, o, c)
	expect(t, l, "a", 1)
	expect(t, l, "lost", 0)
}

// TestSharedBound: of what members give within the window no more than the limit is held, and that is the last.
func TestSharedBound(t *testing.T) {
	var s index
	s.init(time.Hour, 100, time.Now)
	now := time.Now().Unix()
	for i := range uint64(1000) {
		s.learn(appendRecord(nil, digestOf(fmt.Append(nil, i)), place{i + 1, now}), math.MaxUint64)
		if held, noted := len(s.places), len(s.order); held > 100 || noted > 2*100+2 {
			t.Fatalf("after %d it holds %d, and %d in order", i+1, held, noted)
		}
	}
	for i, want := range map[string]uint64{"999": 1000, "900": 901, "899": 0} {
		if got, ok := s.Sequence([]byte(i)); got != want || ok != (want > 0) {
			t.Errorf("%s is %d, %v", i, got, ok)
		}
	}
}

// TestUnwritten: what cannot be written is said, and what was written before stays.
func TestUnwritten(t *testing.T) {
	c, o := newClock(), Options{Directory: t.TempDir()}
	l := open(t, o, c)
	given(t, l, "a", 1, c.now)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := l.Given([]Message{{[]byte("b"), 2, c.now}}); err == nil {
		t.Error("a closed log took an id")
	}
	files(t, o.Directory, c.now)
	l = open(t, o, c)
	expect(t, l, "a", 1)
	expect(t, l, "b", 0)
	if _, err := Open(
		Options{Directory: filepath.Join(files(t, o.Directory, c.now)[0], "below"), Window: time.Minute},
	); err == nil {
		t.Error("a file was taken for a directory")
	}
}

// TestSync: what is given is synced before, or later, or not at all, as the options say.
func TestSync(t *testing.T) {
	c := newClock()
	two := func(o Options) (l *Log, synced chan string) {
		o.Directory = t.TempDir()
		l = open(t, o, c)
		synced = make(chan string, 100)
		l.fsync = func(f *os.File) error {
			synced <- filepath.Ext(f.Name()) // empty: the directory
			return f.Sync()
		}
		given(t, l, "a", 1, c.now)
		given(t, l, "b", 2, c.now)
		return l, synced
	}
	if _, synced := two(Options{SyncAlways: true}); len(synced) != 2 {
		t.Errorf("always: %d syncs", len(synced))
	}
	if l, synced := two(Options{}); l.Close() != nil || len(synced) != 0 {
		t.Errorf("never: %d syncs", len(synced))
	}
	l, synced := two(Options{SyncInterval: time.Hour})
	if len(synced) != 0 || l.later == nil {
		t.Errorf("in an hour: %d syncs, timer %v", len(synced), l.later)
	}
	if err := l.Close(); err != nil || len(synced) != 1 {
		t.Errorf("%d syncs at the end, %v", len(synced), err)
	}
	_, synced = two(Options{SyncInterval: time.Millisecond})
	select {
	case <-synced:
	case <-time.After(time.Minute):
		t.Fatal("it is not synced within a minute")
	}
	// A file that is not written to any more is synced before, and the name of the next is.
	l, synced = two(Options{SyncInterval: time.Hour})
	c.now = c.now.Add(59 * time.Second)
	given(t, l, "c", 3, c.now)
	if len(synced) != 2 || <-synced != suffix || <-synced != "" {
		t.Error("another file was begun, and the one before or the directory was not synced")
	}
}

// TestSyncOfClosed: a file that is not written to any more is synced before it is closed, also when it is being synced
// already, which that may have undone.
func TestSyncOfClosed(t *testing.T) {
	c := newClock()
	l := open(t, Options{Directory: t.TempDir(), SyncInterval: time.Millisecond}, c)
	begun, end := make(chan struct{}), make(chan struct{})
	var mu sync.Mutex
	var synced []string
	l.fsync = func(f *os.File) error {
		mu.Lock()
		synced = append(synced, f.Name())
		first := len(synced) == 1
		mu.Unlock()
		if first {
			close(begun)
			<-end
		}
		return f.Sync()
	}
	given(t, l, "a", 1, c.now)
	<-begun
	c.now = c.now.Add(59 * time.Second)
	given(t, l, "b", 2, c.now)
	mu.Lock()
	if len(synced) < 2 || synced[1] != synced[0] {
		t.Errorf("when another file was begun %q were synced", synced)
	}
	mu.Unlock()
	close(end)
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// FuzzScan: no file makes it fail or read more than there is, and what is read is what was written.
func FuzzScan(f *testing.F) {
	f.Add([]byte(nil))
	f.Add(
		appendRecord(
			appendRecord(nil, digestOf([]byte("a")), place{7, 1_800_000_000}), digestOf([]byte("b")), place{8, 1_800_000_001},
		),
	)
	f.Fuzz(func(t *testing.T, b []byte) {
		var again []byte
		scan(b, func(id digest, at place) { again = appendRecord(again, id, at) })
		if !bytes.HasPrefix(b, again) {
			t.Errorf("read %x of %x", again, b)
		}
	})
}

func BenchmarkGiven(b *testing.B) {
	l, err := Open(Options{Directory: b.TempDir(), Window: time.Minute})
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	now := time.Now()
	var messages []Message
	for i := range 32 {
		messages = append(messages, Message{fmt.Appendf(nil, "some-client-%012d", i), uint64(i), now})
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := l.Given(messages); err != nil {
			b.Fatal(err)
		}
	}
}
