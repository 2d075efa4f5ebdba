// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lighterage/lighterage/agent/queue/jetstreamerror"
)

func TestLimit(t *testing.T) {
	const mib, gib = int64(1) << 20, int64(1) << 30
	for what, test := range map[string]struct {
		size, capacity int64
		members        int
		least, most    int64
	}{
		"a volume":                          {10 * gib, 10 * gib * 19 / 20, 1, 9 * gib, 10 * gib * 19 / 20},
		"one of which a file system has 8%": {92 * gib / 10, 10 * gib * 19 / 20, 1, 88 * gib / 10, 91 * gib / 10},
		"a directory of a large disk":       {1000 * gib, gib, 1, gib, gib},
		"the least there may be":            {64 * mib, 64 * mib * 19 / 20, 1, 16 * mib, 32 * mib},
		"of three members":                  {gib, gib, 3, 800 * mib, 930 * mib},
		"the least of three members":        {118 * mib, 128 * mib * 19 / 20, 3, 32 * mib, 64 * mib},
		"too small":                         {10 * mib, gib, 1, leastLimit, leastLimit},
	} {
		r := newSpace("orders", "orders-0", test.capacity, test.members)
		if got := r.limit(Volume{Size: test.size}); got < test.least || got > test.most {
			t.Errorf("%s: space for %d bytes, want %d to %d", what, got, test.least, test.most)
		}
	}
}

// TestShort: a volume that is short of space stays so until there is clearly more.
func TestShort(t *testing.T) {
	r := newSpace("orders", "orders-0", 1<<30, 1)
	look := Volume{Size: 1 << 30}
	least := r.leastFree(look)
	for _, test := range []struct {
		free  int64
		short bool
	}{{2 * least, false}, {least, false}, {least - 1, true}, {2*least - 1, true}, {2 * least, false}, {least, false}} {
		look.Free = test.free
		if got := r.shortOf(look); got != test.short || r.closed() != test.short {
			t.Errorf("with %d bytes free: short %v", test.free, got)
		}
	}
}

// TestHear: what members tell counts until they tell something else or are silent for long.
func TestHear(t *testing.T) {
	r := newSpace("orders", "orders-0", 1<<30, 3)
	now := time.Now()
	r.now = func() time.Time { return now }
	for _, text := range []string{"", "{}", "much", `{"short":true}`} {
		if err := r.hear([]byte(text)); err == nil {
			t.Errorf("%q is taken for what a member tells", text)
		}
	}
	for _, test := range []struct {
		text   string
		after  time.Duration
		closed bool
	}{
		{`{"member":"orders-0","offered":1,"short":true}`, 0, false}, // its own
		{`{"member":"orders-1","offered":1}`, 0, false},
		{`{"member":"orders-2","offered":1,"short":true}`, 0, true},
		{`{"member":"orders-1","offered":1}`, silence, true},
		{`{"member":"orders-1","offered":1}`, time.Second, false},
		{`{"member":"orders-2","offered":1,"short":true}`, 0, true},
		{`{"member":"orders-2","offered":1}`, 0, false},
	} {
		now = now.Add(test.after)
		if err := r.hear([]byte(test.text)); err != nil || r.closed() != test.closed {
			t.Errorf("after %s: closed %v, %v", test.text, r.closed(), err)
		}
	}
	for i := range 2 * mostHeard {
		_ = r.hear(fmt.Appendf(nil, `{"member":"stranger-%d","short":true}`, i))
	}
	if len(r.heard) != mostHeard {
		t.Errorf("%d members are remembered", len(r.heard))
	}
}

// TestWithin: space takes away no message that is there, and settings do as they always did.
func TestWithin(t *testing.T) {
	const mib = int64(1) << 20
	drop, reject := func(n int64) bounds {
		return bounds{n * mib, true}
	}, func(n int64) bounds { return bounds{n * mib, false} }
	for what, test := range map[string]struct {
		spec, have    bounds
		limit, stored int64
		want          bounds
	}{
		"space for all":                     {spec: drop(100), have: drop(100), limit: 200, stored: 100, want: drop(100)},
		"space for less, and less is there": {spec: drop(100), have: drop(100), limit: 50, stored: 40, want: drop(50)},
		"space for less than is there":      {spec: drop(100), have: drop(100), limit: 50, stored: 80, want: drop(84)},
		"what is there changes by a message": {
			spec: drop(100), have: bounds{80*mib + 1000, true}, limit: 50, stored: 80, want: bounds{80*mib + 1000, true},
		},
		"what is there has left":          {spec: drop(100), have: drop(80), limit: 50, stored: 60, want: drop(64)},
		"messages are rejected":           {spec: reject(100), have: reject(100), limit: 50, stored: 80, want: reject(50)},
		"opened, with space for less":     {spec: drop(100), have: shut, limit: 50, stored: 80, want: drop(84)},
		"opened, with space for all":      {spec: drop(100), have: shut, limit: 200, stored: 80, want: drop(100)},
		"settings say less than is there": {spec: drop(30), have: drop(100), limit: 200, stored: 80, want: drop(30)},
		"a new stream":                    {spec: drop(100), have: drop(0), limit: 200, want: drop(100)},
	} {
		if got := within(test.spec, test.have, test.limit*mib, test.stored*mib); got != test.want {
			t.Errorf("%s: %+v, want %+v", what, got, test.want)
		}
	}
}

// FuzzReport: whatever is told, what counts is bounded.
func FuzzReport(f *testing.F) {
	f.Add([]byte(`{"member":"orders-1","offered":65536,"short":true}`))
	f.Add([]byte(`{"member":"","offered":1e30}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := parseReport(text)
		if err == nil && (r.Member == "" || len(r.Member) > longestName || len(text) > longestReport) {
			t.Errorf("%q became %+v", text, r)
		}
	})
}

// spacious is a store with a stream of orders whose volume is what look says.
type spacious struct {
	*testing.T
	*Store
	conn *nats.Conn
	js   jetstream.JetStream
	look Volume
}

func newSpacious(t *testing.T, capacity int64) *spacious {
	t.Helper()
	const patience = time.Minute
	s, err := Start(t.Context(), Options{Queue: "orders", Directory: t.TempDir(), Capacity: capacity})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Shutdown)
	q := &spacious{T: t, Store: s, look: Volume{Size: 2 * capacity, Free: capacity}}
	s.space.look = func() (Volume, error) { return q.look, nil }
	if q.conn, err = s.Connect("test"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(q.conn.Close)
	if q.js, err = jetstream.New(q.conn, jetstream.WithDefaultTimeout(patience)); err != nil {
		t.Fatal(err)
	}
	return q
}

func (q *spacious) ensured(settings Settings) *jetstream.StreamInfo {
	q.Helper()
	if err := q.Ensure(q.Context(), q.conn, settings); err != nil {
		q.Fatal(err)
	}
	return q.info()
}

// moved looks at the stream as it is done each second.
func (q *spacious) moved() *jetstream.StreamInfo {
	q.Helper()
	if err := q.moveLimit(q.Context(), q.conn); err != nil {
		q.Fatal(err)
	}
	return q.info()
}

func (q *spacious) info() *jetstream.StreamInfo {
	q.Helper()
	stream, err := q.js.Stream(q.Context(), "orders")
	if err != nil {
		q.Fatal(err)
	}
	return stream.CachedInfo()
}

func (q *spacious) put(bytes int) error {
	_, err := q.js.PublishMsg(q.Context(), &nats.Msg{Subject: "orders", Data: make([]byte, bytes)})
	return err
}

func (q *spacious) refused(what string, err error) {
	q.Helper()
	if !jetstreamerror.Is(err, jetstreamerror.StoreFailed) {
		q.Errorf("%s: %v", what, err)
	}
}

// TestClosed: a stream takes no messages while the volume is short of space, whatever settings come meanwhile. What it
// has stays, also what it has beside its limit.
func TestClosed(t *testing.T) {
	const capacity = 1 << 30
	q := newSpacious(t, capacity)
	settings := Settings{MaxBytes: capacity, MaxMessages: 7}
	q.look.Size = 700 << 20
	if got := q.ensured(settings).Config; got.MaxBytes > 700<<20 || got.MaxBytes < 500<<20 || got.MaxMsgs != 7 {
		t.Errorf("limited to %d bytes, %d messages", got.MaxBytes, got.MaxMsgs)
	}
	if err := SetMetadata(t.Context(), q.conn, "orders", "lighterage.dev/other", "kept"); err != nil {
		t.Fatal(err)
	}
	open := q.moved().Config.MaxBytes
	q.look.Free = q.space.leastFree(q.look) - 1
	if got := q.ensured(settings).Config; boundsOf(got) != shut || got.Metadata["lighterage.dev/other"] != "kept" ||
		got.MaxMsgs != 7 {
		t.Errorf("%+v with %v", boundsOf(got), got.Metadata)
	}
	q.refused("a put on a volume that is short of space", q.put(600<<10))
	next := Settings{MaxBytes: 400 << 20, DropOldest: true}
	if got := q.ensured(next).Config; boundsOf(got) != shut || got.MaxMsgs != -1 {
		t.Errorf("other settings make it %+v, %d messages", boundsOf(got), got.MaxMsgs)
	}
	// Another member that does not lead opens nothing.
	q.look.Free = capacity
	follower := &Streams{queue: "orders", capacity: capacity, space: newSpace("orders", "orders-1", capacity, 3)}
	follower.space.look, follower.space.leads = q.space.look, func() bool { return false }
	if err := follower.Ensure(t.Context(), q.conn, next); err != nil || boundsOf(q.info().Config) != shut {
		t.Errorf("by who does not lead: %+v, %v", boundsOf(q.info().Config), err)
	}
	if got := boundsOf(q.moved().Config); got != (bounds{400 << 20, true}) {
		t.Errorf("opened as %+v", got)
	}
	if err := q.put(600 << 10); err != nil {
		t.Error(err)
	}
	if got := q.ensured(settings).Config; got.MaxBytes != open {
		t.Errorf("limited to %d bytes, and to %d before", got.MaxBytes, open)
	}
}

// TestSpaceTakesNothing: a stream that drops its oldest messages keeps all that it has when the volume has space for
// less, and drops one for one that is put; when that is short of space, none at all.
func TestSpaceTakesNothing(t *testing.T) {
	const capacity, messages, length = 256 << 20, 20, 1 << 19
	q := newSpacious(t, capacity)
	q.ensured(Settings{MaxBytes: capacity, DropOldest: true})
	for range messages {
		if err := q.put(length); err != nil {
			t.Fatal(err)
		}
	}
	held := func(what string, count, first uint64) {
		t.Helper()
		if got := q.info().State; got.Msgs != count || got.FirstSeq != first {
			t.Errorf("%s: %d messages from %d on", what, got.Msgs, got.FirstSeq)
		}
	}
	q.look.Size = 1 << 20
	if got := q.moved(); got.Config.MaxBytes < int64(got.State.Bytes) ||
		got.Config.MaxBytes > int64(got.State.Bytes)+slack {
		t.Errorf("limited to %d bytes, and %d are there", got.Config.MaxBytes, got.State.Bytes)
	}
	held("without space", messages, 1)
	for range 10 {
		if err := q.put(length); err != nil {
			t.Error(err)
		}
	}
	// A message takes a little more than its length, so that one less has space beside those that were there.
	const kept = messages + slack/length - 1
	held("after ten puts", kept, 4)
	if before, got := q.info().Config.MaxBytes, q.moved().Config.MaxBytes; got != before {
		t.Errorf("it may grow from %d to %d bytes", before, got)
	}

	q.look.Free = q.space.leastFree(q.look) - 1
	q.moved()
	held("short of space", kept, 4)
	q.refused("a put on a volume that is short of space", q.put(1))
	q.look.Free = capacity
	q.moved()
	held("with bytes free again", kept, 4)
	if err := q.put(length); err != nil {
		t.Error(err)
	}
	held("after another put", kept+1, 4)
	q.look.Size = 2 * capacity
	if got := q.moved().Config; got.MaxBytes != capacity || got.Discard != jetstream.DiscardOld {
		t.Errorf("with space again: %d bytes, %v", got.MaxBytes, got.Discard)
	}
	// Settings do what they say.
	if got := q.ensured(Settings{MaxBytes: 4 * length, DropOldest: true}).State; got.Msgs > 4 {
		t.Errorf("settings for less leave %d messages", got.Msgs)
	}
}

// TestOldSettings: a member that leads and has former settings, or was given some that were refused, goes by those that
// were applied last, whoever did so.
func TestOldSettings(t *testing.T) {
	const capacity, messages, length = 256 << 20, 20, 1 << 19
	q := newSpacious(t, capacity)
	q.ensured(Settings{MaxBytes: 4 * length, DropOldest: true})
	another := func() *Streams {
		s := &Streams{queue: "orders", capacity: capacity, space: newSpace("orders", "orders-1", capacity, 3)}
		s.space.look, s.space.leads = q.space.look, func() bool { return true }
		return s
	}
	apply := func(settings Settings) {
		t.Helper()
		if err := another().Ensure(t.Context(), q.conn, settings); err != nil {
			t.Fatal(err)
		}
	}
	apply(Settings{MaxBytes: capacity / 2, DropOldest: true})
	for range messages {
		if err := q.put(length); err != nil {
			t.Fatal(err)
		}
	}
	if got := q.moved(); got.State.Msgs != messages || boundsOf(got.Config) != (bounds{capacity / 2, true}) {
		t.Errorf("%d messages, %+v", got.State.Msgs, boundsOf(got.Config))
	}
	apply(Settings{MaxBytes: capacity / 4})
	for _, s := range []*Streams{q.Streams, another()} { // one that had settings, and one that has none yet
		if err := s.Ensure(t.Context(), q.conn, Settings{MaxBytes: 2 * capacity, DropOldest: true}); err == nil {
			t.Error("it takes more than the capacity")
		}
		for free, want := range map[int64]bounds{1: shut, capacity: {bytes: capacity / 4}} {
			q.look.Free = free
			if err := s.moveLimit(t.Context(), q.conn); err != nil || boundsOf(q.info().Config) != want {
				t.Errorf("with %d bytes free: %+v, %v", free, boundsOf(q.info().Config), err)
			}
		}
	}
	q.look.Free = capacity
	apply(Settings{})
	if got := boundsOf(q.moved().Config); got.bytes > 0 {
		t.Errorf("settings without a limit of bytes became %+v", got)
	}
}

// TestCrowded: it is told of a volume that is short of space, and of one that is too small for a message.
func TestCrowded(t *testing.T) {
	const capacity = 1 << 30
	q := newSpacious(t, capacity)
	q.look.Size = capacity
	for _, test := range []struct {
		free    int64
		longest int64
		want    bool
	}{
		{capacity, 1 << 20, false}, {1 << 20, 1 << 20, true}, {capacity, 1 << 20, false}, {capacity, capacity, true},
	} {
		q.look.Free = test.free
		if err := q.Crowded(test.longest); errors.Is(err, syscall.ENOSPC) != test.want {
			t.Errorf("%+v: %v", test, err)
		}
	}
}

// TestTurn: a member tells what changes at once and the rest each second, closes the stream when its volume or
// another's is short, and says what keeps it from that.
func TestTurn(t *testing.T) {
	const capacity = 1 << 30
	q := newSpacious(t, capacity)
	q.space.members = 3
	q.ensured(Settings{MaxBytes: capacity})
	inbox, err := q.conn.SubscribeSync(spaceSubject("orders"))
	if err != nil {
		t.Fatal(err)
	}
	k := keeper{Store: q.Store, conn: q.conn}
	begun := time.Now()
	told := 0
	turn := func(what string, after time.Duration, tells bool, want int64) {
		t.Helper()
		if err := k.turn(t.Context(), begun.Add(after)); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		// What the server said before it answers this has come.
		if err := q.conn.Flush(); err != nil {
			t.Fatal(err)
		}
		if tells {
			told++
		}
		if n, _, err := inbox.Pending(); err != nil || n != told {
			t.Errorf("%s: it has told %d times, want %d: %v", what, n, told, err)
		}
		if got := q.info().Config.MaxBytes; got != want {
			t.Errorf("%s: limited to %d bytes, want %d", what, got, want)
		}
	}
	turn("first", 0, true, capacity)
	turn("unchanged", spaceInterval, false, capacity)
	q.look.Free = 1
	turn("short of space", 2*spaceInterval, true, leastLimit)
	// Somebody undoes it.
	config := q.info().Config
	config.MaxBytes, config.Metadata = capacity, ownMetadata(config.Metadata)
	if _, err := q.js.UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	turn("soon after it was undone", 3*spaceInterval, false, capacity)
	turn("a second after", 2*spaceInterval+spaceAgain, true, leastLimit)
	q.look.Free = capacity
	turn("with space", 3*spaceInterval+spaceAgain, true, capacity)
	if err := q.space.hear([]byte(`{"member":"orders-2","short":true}`)); err != nil {
		t.Fatal(err)
	}
	turn("another is short", 4*spaceInterval+spaceAgain, false, leastLimit)
	q.conn.Close()
	if err := k.turn(t.Context(), begun.Add(time.Hour)); !errors.Is(err, nats.ErrConnectionClosed) {
		t.Errorf("without a connection: %v", err)
	}
}

// TestVolume: what is looked at is the volume.
func TestVolume(t *testing.T) {
	directory := t.TempDir()
	s, err := Start(t.Context(), Options{Queue: "orders", Directory: directory, Capacity: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Shutdown)
	var fs syscall.Statfs_t
	if err := syscall.Statfs(directory, &fs); err != nil {
		t.Fatal(err)
	}
	v, err := s.Volume()
	if err != nil || v.Size > int64(fs.Blocks*uint64(fs.Bsize)) || v.Free <= 0 || v.Free > v.Size {
		t.Errorf("%+v, %v", v, err)
	}
}
