// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lighterage/lighterage/agent/queue/jetstreamerror"
)

func TestRoomOf(t *testing.T) {
	const mib, gib = int64(1) << 20, int64(1) << 30
	for what, test := range map[string]struct {
		volume      Volume
		capacity    int64
		members     bool
		least, most int64
	}{
		"a new volume": {
			Volume{Size: 10 * gib, Free: 10 * gib}, 10 * gib * 19 / 20, false, 9 * gib, 10 * gib * 19 / 20,
		},
		"one of which a file system has 8 %": {
			Volume{Size: 10 * gib, Free: 92 * gib / 10}, 10 * gib * 19 / 20, false, 88 * gib / 10, 91 * gib / 10,
		},
		"a directory of a large disk":    {Volume{Size: 1000 * gib, Free: 500 * gib}, gib, false, gib, gib},
		"a disk that others have filled": {Volume{Size: 1000 * gib, Free: 10 * mib}, gib, false, leastRoom, leastRoom},
		"a full queue": {
			Volume{Size: gib, Used: 900 * mib, Free: 124 * mib}, gib, false, 900 * mib, 950 * mib,
		},
		"blocks that are half empty": {Volume{Size: gib, Used: 450 * mib, Free: 124 * mib}, gib, false, 450 * mib, 500 * mib},
		"the least there may be":     {Volume{Size: 64 * mib, Free: 64 * mib}, 64 * mib * 19 / 20, false, 16 * mib, 32 * mib},
		"of three members":           {Volume{Size: gib, Free: gib}, gib, true, 800 * mib, 930 * mib},
		"the least of three members": {
			Volume{Size: 128 * mib, Free: 118 * mib}, 128 * mib * 19 / 20, true, 32 * mib, 64 * mib,
		},
		"without a capacity": {Volume{Size: gib, Free: gib}, 0, false, 900 * mib, gib},
	} {
		if got := roomOf(test.volume, test.capacity, test.members); got < test.least || got > test.most {
			t.Errorf("%s: room for %d bytes, want %d to %d", what, got, test.least, test.most)
		}
	}
}

func TestCrowded(t *testing.T) {
	const gib = int64(1) << 30
	for what, test := range map[string]struct {
		volume Volume
		want   bool
	}{
		"empty":                         {Volume{Room: gib}, false},
		"full as the limits say":        {Volume{Room: gib, Used: gib}, false},
		"full because of others":        {Volume{Room: gib / 2, Used: gib / 2}, true},
		"others have room, and it, too": {Volume{Room: gib / 2, Used: gib / 4}, false},
		"no room at all":                {Volume{Room: leastRoom, Used: gib / 4}, true},
	} {
		if got := crowded(test.volume, gib, false, 1<<20); got != test.want {
			t.Errorf("%s: %v", what, got)
		}
	}
	if !crowded(Volume{Room: 3 << 20}, gib, false, 4<<20) {
		t.Error("a room is not told that is too small for the longest message")
	}
	if crowded(Volume{Room: 1 << 10}, 1<<10, false, 1<<20) {
		t.Error("a queue that is to have less than the longest message is not crowded by others")
	}
}

// TestStep: small changes of the space do not move limits, and no space that is gone is offered.
func TestStep(t *testing.T) {
	const capacity = int64(1) << 30
	width := capacity / 2 / stepPart
	offered := step(0, capacity/2, capacity)
	if offered >= capacity/2 || offered < capacity/2-2*width {
		t.Errorf("%d offered of %d", offered, capacity/2)
	}
	for space, moves := range map[int64]bool{
		capacity/2 - width/2: false, capacity/2 + width: false, offered: false, offered - largestBlock: false,
		offered - largestBlock - 1: true, capacity: true,
		capacity/2 + 4*width: true, 0: true,
	} {
		next := step(offered, space, capacity)
		if (next != offered) != moves {
			t.Errorf("of a room of %d after %d, %d is offered", space, offered, next)
		}
		if next > max(space, leastRoom) && next > space+largestBlock {
			t.Errorf("%d is offered of a room of %d", next, space)
		}
	}
	if got := step(4<<20, 1<<20, capacity); got > 1<<20 {
		t.Errorf("%d is offered of a room that is smaller than a block", got)
	}
	if got := step(capacity-1, capacity*2, capacity); got != capacity {
		t.Errorf("%d is offered of more than enough", got)
	}
}

// limitTo returns a space of one of three members whose volume has what look says, at a time that may be set.
func limitTo(look *Volume, at *time.Time) *space {
	r := newRoom("orders", "orders-0", 1<<30, true)
	r.look, r.leads, r.now = func() (Volume, error) {
		return *look, nil
	}, func() bool { return true }, func() time.Time { return *at }
	r.began = *at
	return r
}

// TestLeast: the member with the least space counts, and one that is not heard any more does so for a while.
func TestLeast(t *testing.T) {
	now := time.Now()
	look := Volume{Free: 1 << 30, Room: 100 << 20}
	r := limitTo(&look, &now)
	expect := func(what string, bytes int64, of string, short, whole bool) {
		t.Helper()
		l, known := r.least(2)
		if !known || l.bytes != bytes || l.of != of || l.short != short || l.whole != whole {
			t.Errorf("%s: %+v, known %v", what, l, known)
		}
	}
	own, _, _ := r.offer()
	if own > 100<<20 || own < 90<<20 {
		t.Errorf("%d offered of a room of %d", own, look.Room)
	}
	expect("nobody was heard", own, "orders-0", false, false)
	for _, text := range []string{
		"", "{}", "much", `{"member":"orders-1"}`, `{"member":"orders-1","offered":-1}`, `{"offered":1}`,
	} {
		if err := r.hear([]byte(text)); err == nil {
			t.Errorf("%q is taken for what a member tells", text)
		}
	}
	hear := func(text string) {
		t.Helper()
		if err := r.hear([]byte(text)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	hear(`{"member":"orders-0","offered":1}`) // its own
	hear(`{"member":"orders-1","offered":2000000000}`)
	expect("one of two was heard", own, "orders-0", false, false)
	hear(`{"member":"orders-2","offered":65536,"short":true}`)
	expect("a full volume", 65536, "orders-2", true, true)
	now = now.Add(absence - time.Second)
	hear(`{"member":"orders-1","offered":2000000000}`)
	expect("it has gone", 65536, "orders-2", false, true)
	if l, _ := r.least(2); l.silence != absence-time.Second {
		t.Errorf("it is not heard for %v", l.silence)
	}
	now = now.Add(2 * time.Second)
	expect("it has gone for long", own, "orders-0", false, true)
	hear(`{"member":"orders-2","offered":50000000}`)
	expect("it is back", 50_000_000, "orders-2", false, true)

	for i := range 2 * mostHeard {
		_ = r.hear(fmt.Appendf(nil, `{"member":"stranger-%d","offered":1}`, i))
	}
	if len(r.heard) != mostHeard {
		t.Errorf("%d members are remembered", len(r.heard))
	}
}

// TestOffer: what cannot be seen, or could not be noted, moves nothing, and a volume that is short stays so until there
// is clearly more.
func TestOffer(t *testing.T) {
	now := time.Now()
	look := Volume{Free: 1 << 30, Room: 100 << 20}
	var err error
	r := limitTo(&look, &now)
	r.look = func() (Volume, error) { return look, err }
	own, _, _ := r.offer()
	look.Room, err = 10<<20, errors.New("no volume")
	if got, _, known := r.offer(); got != own || !known {
		t.Errorf("unseen, the volume makes it %d", got)
	}
	look.Free, err = 1000, nil
	if got, short, _ := r.offer(); got != own || !short {
		t.Errorf("too full to note it, the volume makes it %d, short %v", got, short)
	}
	leastFree := r.leastFree(look)
	for _, test := range []struct {
		free  int64
		short bool
	}{{leastFree + 1, true}, {2 * leastFree, false}, {leastFree, false}, {leastFree - 1, true}} {
		look.Free = test.free
		if _, short, _ := r.offer(); short != test.short {
			t.Errorf("with %d bytes free: short %v", test.free, short)
		}
	}
}

// TestWithin: space takes away no message that is there, and settings do as they always did.
func TestWithin(t *testing.T) {
	const mib = int64(1) << 20
	drop, reject := func(n int64) bounds {
		return bounds{n * mib, true}
	}, func(n int64) bounds { return bounds{n * mib, false} }
	for what, test := range map[string]struct {
		spec, have bounds
		space      int64
		short      bool
		unheard    bool
		stored     int64
		want       bounds
	}{
		"room for all":                     {spec: drop(100), have: drop(100), space: 200, stored: 100, want: drop(100)},
		"room for less, and less is there": {spec: drop(100), have: drop(100), space: 50, stored: 40, want: drop(50)},
		"room for less than is there":      {spec: drop(100), have: drop(100), space: 50, stored: 80, want: drop(84)},
		"what is there changes by a message": {
			spec: drop(100), have: bounds{80*mib + 1000, true}, space: 50, stored: 80, want: bounds{80*mib + 1000, true},
		},
		"what is there has left": {spec: drop(100), have: drop(80), space: 50, stored: 60, want: drop(64)},
		"no room, messages are refused": {
			spec: reject(100), have: reject(100), space: 50, stored: 80, want: reject(50),
		},
		"short of room": {
			spec: drop(100), have: drop(100), space: 1, short: true, stored: 80, want: reject(1),
		},
		"short no more, with room for less": {spec: drop(100), have: reject(1), space: 50, stored: 80, want: drop(84)},
		"short no more, with room for all":  {spec: drop(100), have: reject(1), space: 200, stored: 80, want: drop(100)},
		"settings say less than is there":   {spec: drop(30), have: drop(100), space: 200, stored: 80, want: drop(30)},
		"settings say less, short of room": {
			spec: drop(30), have: drop(100), space: 50, short: true, stored: 80, want: reject(30),
		},
		"others were not heard yet": {
			spec: drop(100), have: drop(60), space: 200, unheard: true, stored: 10, want: drop(60),
		},
		"others were not heard, and less room": {
			spec: drop(100), have: drop(60), space: 50, unheard: true, stored: 10, want: drop(50),
		},
		"others were not heard after a refusal": {
			spec: drop(100), have: reject(1), space: 200, unheard: true, stored: 80, want: drop(84),
		},
		"a new stream": {spec: drop(100), have: drop(0), space: 200, unheard: true, want: drop(100)},
	} {
		if got := within(
			test.spec, test.have, least{bytes: test.space * mib, short: test.short, whole: !test.unheard}, test.stored*mib,
		); got != test.want {
			t.Errorf("%s: %+v, want %+v", what, got, test.want)
		}
	}
	for what, test := range map[string]struct{ spec, have, want bounds }{
		"raised by settings":       {drop(100), drop(50), drop(50)},
		"lowered by settings":      {drop(20), drop(50), drop(20)},
		"refuses by settings":      {reject(50), drop(50), reject(50)},
		"refuses for want of room": {drop(50), reject(1), reject(1)},
		"a new stream":             {drop(50), boundsOf(jetstream.StreamConfig{}), drop(50)},
	} {
		if got := left(test.spec, test.have); got != test.want {
			t.Errorf("%s: %+v, want %+v", what, got, test.want)
		}
	}
}

// FuzzHeard: whatever is told, what counts is bounded.
func FuzzHeard(f *testing.F) {
	f.Add([]byte(`{"member":"orders-1","offered":65536,"short":true}`))
	f.Add([]byte(`{"member":"","offered":1e30}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		h, err := parseHeard(text)
		if err == nil && (h.Offered <= 0 || h.Member == "" || len(h.Member) > longestName || len(text) > longestHeard) {
			t.Errorf("%q became %+v", text, h)
		}
	})
}

// roomy is a store with a stream of orders whose space is what look says.
type roomy struct {
	*testing.T
	*Store
	conn *nats.Conn
	js   jetstream.JetStream
	look Volume
}

func newRoomy(t *testing.T, capacity int64) *roomy {
	t.Helper()
	const patience = time.Minute
	s, err := Start(t.Context(), Options{Queue: "orders", Directory: t.TempDir(), Capacity: capacity})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Shutdown)
	q := &roomy{T: t, Store: s, look: Volume{Free: capacity, Room: 2 * capacity}}
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

func (q *roomy) ensured(settings Settings) *jetstream.StreamInfo {
	q.Helper()
	if err := q.Ensure(q.Context(), q.conn, settings); err != nil {
		q.Fatal(err)
	}
	return q.info()
}

// moved looks at the space as it is done five times a second.
func (q *roomy) moved() *jetstream.StreamInfo {
	q.Helper()
	if err := q.moveLimit(q.Context(), q.conn); err != nil {
		q.Fatal(err)
	}
	return q.info()
}

func (q *roomy) info() *jetstream.StreamInfo {
	q.Helper()
	stream, err := q.js.Stream(q.Context(), "orders")
	if err != nil {
		q.Fatal(err)
	}
	return stream.CachedInfo()
}

func (q *roomy) put(bytes int) error {
	_, err := q.js.PublishMsg(q.Context(), &nats.Msg{Subject: "orders", Data: make([]byte, bytes)})
	return err
}

func (q *roomy) refused(what string, err error) {
	q.Helper()
	if !jetstreamerror.Is(err, jetstreamerror.StoreFailed) {
		q.Errorf("%s: %v", what, err)
	}
}

// TestRoomMoves: the limit of the stream follows the space, and what else the stream has stays.
func TestRoomMoves(t *testing.T) {
	const capacity = 1 << 30
	q := newRoomy(t, capacity)
	q.look.Room = 200 << 20
	settings := Settings{MaxBytes: capacity, MaxMessages: 7}
	if got := q.ensured(settings).Config; got.MaxBytes > 200<<20 || got.MaxBytes < 190<<20 || got.MaxMsgs != 7 {
		t.Errorf("limited to %d bytes, %d messages", got.MaxBytes, got.MaxMsgs)
	}
	if err := SetMetadata(t.Context(), q.conn, "orders", "lighterage.dev/other", "kept"); err != nil {
		t.Fatal(err)
	}
	q.look.Room = 1 << 20
	if got := q.moved().Config; got.MaxBytes > 1<<20 || got.Metadata["lighterage.dev/other"] != "kept" ||
		got.MaxMsgs != 7 {
		t.Errorf("limited to %d bytes with %v", got.MaxBytes, got.Metadata)
	}
	if got := q.ensured(settings).Config; got.MaxBytes > 1<<20 {
		t.Errorf("the same settings again limit it to %d bytes", got.MaxBytes)
	}
	q.refused("a put beyond the room", q.put(600<<10))
	q.look.Room = 2 * capacity
	if got := q.moved().Config; got.MaxBytes != capacity {
		t.Errorf("limited to %d bytes with room for more than enough", got.MaxBytes)
	}
	if err := q.put(600 << 10); err != nil {
		t.Error(err)
	}
}

// TestRoomTakesNothing: a stream that drops its oldest messages keeps all that it has when the space goes, and drops
// one for one that is put; when the volume is short of space, none at all.
func TestRoomTakesNothing(t *testing.T) {
	const capacity, messages, length = 256 << 20, 20, 1 << 19
	q := newRoomy(t, capacity)
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
	q.look.Room = leastRoom
	if got := q.moved(); got.Config.MaxBytes < int64(got.State.Bytes) ||
		got.Config.MaxBytes > int64(got.State.Bytes)+slack {
		t.Errorf("limited to %d bytes, and %d are there", got.Config.MaxBytes, got.State.Bytes)
	}
	held("without room", messages, 1)
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
	held("short of room", kept, 4)
	q.refused("a put on a volume that is short of room", q.put(1))
	q.look.Free = capacity
	q.moved()
	held("with bytes free again", kept, 4)
	if err := q.put(length); err != nil {
		t.Error(err)
	}
	held("after another put", kept+1, 4)
	q.look.Room = 2 * capacity
	if got := q.moved().Config; got.MaxBytes != capacity || got.Discard != jetstream.DiscardOld {
		t.Errorf("with room again: %d bytes, %v", got.MaxBytes, got.Discard)
	}
	// Settings do what they say.
	if got := q.ensured(Settings{MaxBytes: 4 * length, DropOldest: true}).State; got.Msgs > 4 {
		t.Errorf("settings for less leave %d messages", got.Msgs)
	}
}

// TestOnlyRoom: the member that leads, with settings of before, moves the limit within what others have changed the
// settings to, and nothing else.
func TestOnlyRoom(t *testing.T) {
	const capacity, minute = 1 << 30, time.Minute
	q := newRoomy(t, capacity)
	q.look.Room = 100 << 20
	q.ensured(Settings{MaxBytes: 50 << 20, MaxMessages: 7})
	// Another member has the new settings first. It does not lead, so it raises no limit.
	follower := &Streams{queue: "orders", capacity: capacity, space: newRoom("orders", "orders-1", capacity, true)}
	follower.space.look, follower.space.leads = func() (Volume, error) {
		return Volume{Free: capacity, Room: capacity}, nil
	}, func() bool { return false }
	next := Settings{MaxBytes: 400 << 20, MaxMessages: 9, MaxAge: time.Hour, DropOldest: true, DuplicateWindow: minute}
	if err := follower.Ensure(t.Context(), q.conn, next); err != nil {
		t.Fatal(err)
	}
	if got := q.info().Config; got.MaxBytes != 50<<20 || got.MaxMsgs != 9 || got.Discard != jetstream.DiscardNew {
		t.Errorf("by who does not lead: %+v", got)
	}
	for space, most := range map[int64]int64{20 << 20: 20 << 20, 300 << 20: 300 << 20, capacity: 400 << 20} {
		q.look.Room = space
		if got := q.moved().Config; got.MaxBytes > most || got.MaxBytes < most/10*9 || got.MaxMsgs != 9 ||
			got.MaxAge != time.Hour || got.Discard != jetstream.DiscardOld ||
			got.Duplicates != minute {
			t.Errorf("with room for %d: %+v", space, got)
		}
	}
	if err := follower.Ensure(t.Context(), q.conn, Settings{MaxBytes: 10 << 20}); err != nil {
		t.Fatal(err)
	}
	if got := q.moved().Config; got.MaxBytes != 10<<20 || got.MaxMsgs != -1 || got.Discard != jetstream.DiscardNew {
		t.Errorf("after less was asked for: %+v", got)
	}
}

// TestRoomOfOthers: what another member tells limits the stream for as long as it counts, and who says so names it.
func TestRoomOfOthers(t *testing.T) {
	const capacity = 1 << 30
	q := newRoomy(t, capacity)
	now := time.Now()
	q.space.mu.Lock()
	q.space.members, q.space.now = true, func() time.Time { return now }
	q.space.mu.Unlock()
	q.ensured(Settings{MaxBytes: capacity})
	other := newRoom("orders", "orders-2", capacity, true)
	other.look = func() (Volume, error) { return Volume{Free: 1 << 20, Room: leastRoom}, nil }
	inbox, err := q.conn.SubscribeSync(roomSubject("orders"))
	if err != nil {
		t.Fatal(err)
	}
	told, err := other.tell(q.conn, heard{}, false)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := other.tell(q.conn, told, false); err != nil || again != told {
		t.Errorf("it tells again what has not changed: %+v, %v", again, err)
	}
	m, err := inbox.NextMsg(time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if err := q.space.hear(m.Data); err != nil {
		t.Fatal(err)
	}
	if got := q.moved().Config; got.MaxBytes != leastRoom {
		t.Errorf("limited to %d bytes", got.MaxBytes)
	}
	if text := q.Narrowed(); text != "" {
		t.Errorf("of one that was just heard: %s", text)
	}
	now = now.Add(2 * silence)
	if text := q.Narrowed(); !strings.Contains(text, "orders-2") || !strings.Contains(text, "65536") {
		t.Errorf("of one that is not heard: %q", text)
	}
	now = now.Add(absence)
	if got := q.moved().Config; got.MaxBytes != capacity || q.Narrowed() != "" {
		t.Errorf("limited to %d bytes by who has gone: %s", got.MaxBytes, q.Narrowed())
	}
}

// TestTurn: a member tells what changes at once and the rest each second, moves the limit, and says what keeps it from
// that.
func TestTurn(t *testing.T) {
	const capacity = 1 << 30
	q := newRoomy(t, capacity)
	q.space.members = true
	q.ensured(Settings{MaxBytes: capacity})
	inbox, err := q.conn.SubscribeSync(roomSubject("orders"))
	if err != nil {
		t.Fatal(err)
	}
	k := keeper{Store: q.Store, conn: q.conn}
	begun := time.Now()
	told := 0
	turn := func(what string, after time.Duration, tells bool, most int64) {
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
		if got := q.info().Config.MaxBytes; got > most || got < most/10*9 {
			t.Errorf("%s: limited to %d bytes, want up to %d", what, got, most)
		}
	}
	turn("first", 0, true, capacity)
	turn("unchanged", roomInterval, false, capacity)
	q.look.Room = 100 << 20
	turn("less room", 2*roomInterval, true, 100<<20)
	// Somebody undoes it.
	config := q.info().Config
	config.MaxBytes, config.Metadata = capacity, ownMetadata(config.Metadata)
	if _, err := q.js.UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	turn("soon after it was undone", 3*roomInterval, false, capacity)
	turn("a second after", 2*roomInterval+roomAgain, true, 100<<20)
	q.conn.Close()
	if err := k.turn(t.Context(), begun.Add(time.Hour)); !errors.Is(err, nats.ErrConnectionClosed) {
		t.Errorf("without a connection: %v", err)
	}
}

// TestVolume: what is looked at is the volume and what messages take on it.
func TestVolume(t *testing.T) {
	directory := t.TempDir()
	s, err := Start(t.Context(), Options{Queue: "orders", Directory: directory, Capacity: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Shutdown)
	conn, err := s.Connect("test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	if err := s.Ensure(t.Context(), conn, Settings{MaxBytes: 1 << 20}); err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(conn, jetstream.WithDefaultTimeout(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(t.Context(), "orders", make([]byte, 1000)); err != nil {
		t.Fatal(err)
	}
	var fs syscall.Statfs_t
	if err := syscall.Statfs(directory, &fs); err != nil {
		t.Fatal(err)
	}
	v, err := s.Volume()
	if err != nil || v.Size != int64(fs.Blocks*uint64(fs.Bsize)) || v.Free <= 0 || v.Free > v.Size || v.Used < 1000 ||
		v.Used > 2000 || v.Room <= 0 || v.Room > 1<<20 {
		t.Errorf("%+v, %v", v, err)
	}
}
