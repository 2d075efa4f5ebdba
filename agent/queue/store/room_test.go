// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func TestRoomOf(t *testing.T) {
	const mib, gib = int64(1) << 20, int64(1) << 30
	for what, test := range map[string]struct {
		volume      Volume
		capacity    int64
		members     bool
		least, most int64
	}{
		"a new volume":                       {Volume{Size: 10 * gib, Free: 10 * gib}, 10 * gib * 19 / 20, false, 9 * gib, 10 * gib * 19 / 20},
		"one of which a file system has 8 %": {Volume{Size: 10 * gib, Free: 92 * gib / 10}, 10 * gib * 19 / 20, false, 88 * gib / 10, 91 * gib / 10},
		"a directory of a large disk":        {Volume{Size: 1000 * gib, Free: 500 * gib}, gib, false, gib, gib},
		"a disk that others have filled":     {Volume{Size: 1000 * gib, Free: 10 * mib}, gib, false, leastRoom, leastRoom},
		"a full queue":                       {Volume{Size: gib, Used: 900 * mib, Free: 124 * mib}, gib, false, 900 * mib, 950 * mib},
		"blocks that are half empty":         {Volume{Size: gib, Used: 450 * mib, Free: 124 * mib}, gib, false, 450 * mib, 500 * mib},
		"the least there may be":             {Volume{Size: 64 * mib, Free: 64 * mib}, 64 * mib * 19 / 20, false, 16 * mib, 32 * mib},
		"of three members":                   {Volume{Size: gib, Free: gib}, gib, true, 800 * mib, 930 * mib},
		"without a capacity":                 {Volume{Size: gib, Free: gib}, 0, false, 900 * mib, gib},
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
		if got := crowded(test.volume, gib, false); got != test.want {
			t.Errorf("%s: %v", what, got)
		}
	}
	if crowded(Volume{Room: leastRoom, Used: leastRoom}, 32<<20, true) {
		t.Error("a volume that is too small in itself is not crowded by others")
	}
}

// TestStep: small changes of the room do not move limits, and no room that is gone is offered.
func TestStep(t *testing.T) {
	const capacity = int64(1) << 30
	width := capacity / 2 / stepPart
	offered := step(0, capacity/2, capacity)
	if offered >= capacity/2 || offered < capacity/2-2*width {
		t.Errorf("%d offered of %d", offered, capacity/2)
	}
	for room, moves := range map[int64]bool{
		capacity/2 - width/2: false, capacity/2 + width: false, offered: false, offered - largestBlock: false, offered - largestBlock - 1: true, capacity: true,
		capacity/2 + 4*width: true, 0: true,
	} {
		next := step(offered, room, capacity)
		if (next != offered) != moves {
			t.Errorf("of a room of %d after %d, %d is offered", room, offered, next)
		}
		if next > max(room, leastRoom) && next > room+largestBlock {
			t.Errorf("%d is offered of a room of %d", next, room)
		}
	}
	if got := step(4<<20, 1<<20, capacity); got > 1<<20 {
		t.Errorf("%d is offered of a room that is smaller than a block", got)
	}
	if got := step(capacity-1, capacity*2, capacity); got != capacity {
		t.Errorf("%d is offered of more than enough", got)
	}
}

// TestLeastRoom: the stream has the limit for which the member with the least room has room, and not that of a member which is not known.
func TestLeastRoom(t *testing.T) {
	look := Volume{Free: 1 << 30, Room: 100 << 20}
	var err error
	r := &room{key: roomKey + "orders-0", capacity: 1 << 30, look: func() (Volume, error) { return look, err }}
	want := func(metadata map[string]string) int64 {
		c := jetstream.StreamConfig{MaxBytes: 1 << 30}
		r.within(&c, metadata)
		return c.MaxBytes
	}
	own := want(map[string]string{})
	if own > 100<<20 || own < 90<<20 {
		t.Errorf("limited to %d by a room of %d", own, look.Room)
	}
	for text, limit := range map[string]int64{"50000000": 50_000_000, "2000000000": own, "-1": own, "0": own, "": own, "much": own} {
		metadata := map[string]string{roomKey + "orders-1": text, "lighterage.dev/archive": "1"}
		if got := want(metadata); got != limit {
			t.Errorf("with another member's %q: %d, want %d", text, got, limit)
		}
		if metadata[roomKey+"orders-1"] != text || metadata[roomKey+"orders-0"] == "" {
			t.Errorf("noted %v", metadata)
		}
	}
	// What cannot be seen, or could not be noted, moves nothing.
	look.Room, err = 10<<20, errors.New("no volume")
	if got := want(map[string]string{}); got != own {
		t.Errorf("unseen, the volume makes it %d", got)
	}
	look.Free, err = 1000, nil
	if got := want(map[string]string{}); got != own {
		t.Errorf("too full to note it, the volume makes it %d", got)
	}
	unlimited := jetstream.StreamConfig{MaxBytes: -1}
	if r.within(&unlimited, map[string]string{}); unlimited.MaxBytes != -1 {
		t.Errorf("a stream without a limit gets %d", unlimited.MaxBytes)
	}
}

// TestRoomMoves: the limit of the stream follows the room, and what else the stream has stays.
func TestRoomMoves(t *testing.T) {
	const capacity, patience = 1 << 30, time.Minute
	s, err := Start(t.Context(), Options{Queue: "orders", Directory: t.TempDir(), Capacity: capacity})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Shutdown)
	look := Volume{Free: capacity, Room: 200 << 20}
	s.room.look = func() (Volume, error) { return look, nil }
	conn, err := s.Connect("test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn, jetstream.WithDefaultTimeout(patience))
	if err != nil {
		t.Fatal(err)
	}
	settings := Settings{MaxBytes: capacity, MaxMessages: 7}
	ensured := func() jetstream.StreamConfig {
		t.Helper()
		if err := s.Ensure(t.Context(), conn, settings); err != nil {
			t.Fatal(err)
		}
		if s.RoomChanged() {
			t.Error("the room is another one at once")
		}
		stream, err := js.Stream(t.Context(), "orders")
		if err != nil {
			t.Fatal(err)
		}
		return stream.CachedInfo().Config
	}
	if got := ensured(); got.MaxBytes > 200<<20 || got.MaxBytes < 190<<20 || got.MaxMsgs != 7 {
		t.Errorf("limited to %d bytes, %d messages", got.MaxBytes, got.MaxMsgs)
	}
	if err := SetMetadata(t.Context(), conn, "orders", "lighterage.dev/other", "kept"); err != nil {
		t.Fatal(err)
	}
	if look.Room = 1 << 20; !s.RoomChanged() {
		t.Error("it is not noticed that the room is gone")
	}
	if got := ensured(); got.MaxBytes > 1<<20 || got.Metadata["lighterage.dev/other"] != "kept" || got.MaxMsgs != 7 {
		t.Errorf("limited to %d bytes with %v", got.MaxBytes, got.Metadata)
	}
	put := func() error {
		_, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: "orders", Data: make([]byte, 600<<10)})
		return err
	}
	var refused *jetstream.APIError
	if err := put(); !errors.As(err, &refused) || refused.ErrorCode != 10077 {
		t.Errorf("a put beyond the room: %v", err)
	}
	look.Room = 2 * capacity
	if got := ensured(); got.MaxBytes != capacity {
		t.Errorf("limited to %d bytes with room for more than enough", got.MaxBytes)
	}
	if err := put(); err != nil {
		t.Error(err)
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
	if err != nil || v.Size != int64(fs.Blocks*uint64(fs.Bsize)) || v.Free <= 0 || v.Free > v.Size || v.Used < 1000 || v.Used > 2000 || v.Room <= 0 || v.Room > 1<<20 {
		t.Errorf("%+v, %v", v, err)
	}
}
