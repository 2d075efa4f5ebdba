// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/zeebo/xxh3"
	"golang.org/x/sys/unix"

	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/transfer/protocol"
	"github.com/lighterage/lighterage/agent/transfer/receive"
	"github.com/lighterage/lighterage/agent/transfer/send"
	"github.com/lighterage/lighterage/agent/transport"
	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

const part = protocol.ChunkSize / 16

// Only the parts of a large file that changed are sent.
func TestOnlyChangedPartsAreSent(t *testing.T) {
	t.Parallel()
	const size = 3<<20 + 12345
	old := noise(1, size)
	changed := func(offsets ...int) []byte {
		b := slices.Clone(old)
		for _, offset := range offsets {
			b[offset]++
		}
		return b
	}
	tests := map[string]struct {
		content []byte
		sent    uint64
	}{
		"OneByte":      {changed(5), part},
		"TwoInAPart":   {changed(3*part, 4*part-1), part},
		"Neighbours":   {changed(4*part-1, 4*part), 2 * part},
		"Last":         {changed(size - 1), size % part},
		"Everywhere":   {changed(0, 1<<20+7, 2<<20-1, 2<<20, size-1), 4*part + size%part},
		"Appended":     {append(slices.Clone(old), noise(2, 1<<20)...), size%part + 1<<20},
		"Cut":          {old[:2<<20+1], 1},
		"CutInAPart":   {old[:2<<20], 0},
		"AllDifferent": {noise(3, size), size},
	}
	source, destination := t.TempDir(), t.TempDir()
	for name, test := range tests {
		for _, verify := range []bool{true, false} {
			file(t, source, "large", test.content, 0o600)
			file(t, source, "small", noise(9, 1000), 0o600)
			age(t, filepath.Join(source, "large"), int64(len(name)))
			file(t, destination, "large", old, 0o600)
			sent, received := move(t, source, destination, func(o *send.Options) { o.Verify = verify })
			same(t, source, destination)
			if err := os.Remove(filepath.Join(destination, "small")); err != nil {
				t.Fatal(err)
			}
			if c := sent.Compression; c.UncompressedBytes != test.sent+1000 {
				t.Errorf("%s: %d bytes were sent instead of %d", name, c.UncompressedBytes, test.sent+1000)
			}
			for side, p := range map[string]*wirev1.Progress{"sender": sent.Progress, "receiver": received.Progress} {
				if want := uint64(len(test.content)) - test.sent; p.ReusedBytes != want || p.Bytes != p.BytesTotal ||
					p.HoleBytes != 0 {
					t.Errorf("%s: the %s counts %v, %d were reused", name, side, p, want)
				}
			}
		}
	}
}

// The digests of a file that is larger than one answer come in several, and those of many files while others are sent.
func TestManyOldVersions(t *testing.T) {
	t.Parallel()
	source, destination := t.TempDir(), t.TempDir()
	large := text(1, 66<<20)
	file(t, destination, "large", large, 0o600)
	large[33<<20]++
	large[65<<20]++
	file(t, source, "large", append(large, 1), 0o600)
	sent := uint64(2*part + 1)
	for i := range 100 {
		path, content := fmt.Sprintf("d/%d", i), noise(uint64(i), 256<<10+i)
		if i%3 > 0 {
			file(t, destination, path, content, 0o600)
			content[i*1000]++
			sent += part
		} else {
			sent += uint64(len(content))
		}
		file(t, source, path, content, 0o600)
		age(t, filepath.Join(source, path), -1)
	}
	report, _ := move(t, source, destination)
	same(t, source, destination)
	if c, p := report.Compression, report.Progress; c.UncompressedBytes != sent || p.ReusedBytes != p.BytesTotal-sent {
		t.Errorf("%d bytes were sent instead of %d: %v", c.UncompressedBytes, sent, p)
	}
}

// sparseFile makes a file with data in some places. The places and the size must be multiples of 64 KiB.
func sparseFile(t testing.TB, root, path string, size int64, data map[int64]int) {
	t.Helper()
	name := filepath.Join(root, path)
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for offset, n := range data {
		if _, err := f.WriteAt(noise(uint64(offset), n), offset); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Truncate(size); err != nil {
		t.Fatal(err)
	}
	age(t, name, size)
	var st unix.Stat_t
	if err := unix.Stat(name, &st); err != nil {
		t.Fatal(err)
	}
	if st.Blocks*512 > size/2 {
		t.Skip("the file system has no holes")
	}
}

func TestHolesAreNotSent(t *testing.T) {
	t.Parallel()
	source, destination := t.TempDir(), t.TempDir()
	sparseFile(
		t, source, "large", 64<<20,
		map[int64]int{0: part, 1<<20 + 3*part: 2 * part, 32<<20 - part: 2 * part, 63 << 20: 1 << 20},
	)
	sparseFile(t, source, "nothing", 16<<20+1000, nil)
	sparseFile(t, source, "small", 300<<10, map[int64]int{2 * part: part})
	const data = 1<<20 + 5*part + part
	for _, verify := range []bool{true, false} {
		sent, received := move(t, source, destination, func(o *send.Options) { o.Verify = verify })
		same(t, source, destination)
		for side, p := range map[string]*wirev1.Progress{"sender": sent.Progress, "receiver": received.Progress} {
			if p.HoleBytes != p.BytesTotal-data || p.Bytes != p.BytesTotal || p.ReusedBytes != 0 {
				t.Errorf("the %s counts %v", side, p)
			}
		}
		if c := sent.Compression; c.UncompressedBytes != data {
			t.Errorf("%d bytes were sent instead of %d", c.UncompressedBytes, data)
		}
		if sent.WireBytes > data+1<<20 {
			t.Errorf("%d bytes were on the wire", sent.WireBytes)
		}
		for _, path := range []string{"large", "nothing", "small"} {
			var st unix.Stat_t
			if err := unix.Stat(filepath.Join(destination, path), &st); err != nil || st.Blocks*512 > data+64<<10 {
				t.Errorf("%s takes %d bytes, %v", path, st.Blocks*512, err)
			}
			if err := os.Remove(filepath.Join(destination, path)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// The time for a file that is nearly nothing but holes does not follow from its size, nor does the memory.
func TestFileFarLargerThanMemory(t *testing.T) {
	t.Parallel()
	source, destination := t.TempDir(), t.TempDir()
	const size = 16 << 30
	sparseFile(t, source, "disk", size, map[int64]int{0: part, 10 << 30: 1 << 20, size - part: part})
	sent, _ := move(t, source, destination)
	if p := sent.Progress; p.HoleBytes != size-1<<20-2*part || sent.Compression.UncompressedBytes != 1<<20+2*part ||
		sent.WireBytes > 4<<20 {
		t.Errorf(
			"%d bytes were on the wire, %d of them data, progress is %v", sent.WireBytes, sent.Compression.UncompressedBytes, p,
		)
	}
	from, to := extents(t, filepath.Join(source, "disk")), extents(t, filepath.Join(destination, "disk"))
	if !slices.Equal(from, to) {
		t.Errorf("there are data at %v instead of %v", to, from)
	}
}

// extents are where a file's data begin and end, with the sum of each.
func extents(t *testing.T, name string) (all []string) {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for offset := int64(0); ; {
		start, err := unix.Seek(int(f.Fd()), offset, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		if offset, err = unix.Seek(int(f.Fd()), start, unix.SEEK_HOLE); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, offset-start)
		if _, err := f.ReadAt(b, start); err != nil {
			t.Fatal(err)
		}
		all = append(all, fmt.Sprintf("%d-%d %x", start, offset, xxh3.Hash(b)))
	}
}

// What was a hole becomes data and the other way round, beside what stays.
func TestHolesOfChangedFile(t *testing.T) {
	t.Parallel()
	source, destination := t.TempDir(), t.TempDir()
	sparseFile(t, source, "file", 64<<20, map[int64]int{1 << 20: 3 << 20, 20 << 20: 5 << 20})
	move(t, source, destination)
	sparseFile(t, source, "file", 80<<20, map[int64]int{1 << 20: 1 << 20, 20 << 20: 5 << 20, 40<<20 + part: part})
	sent, _ := move(t, source, destination)
	same(t, source, destination)
	// The first 1 MiB begins as the former 3 MiB did.
	if p := sent.Progress; p.ReusedBytes != 6<<20 || p.HoleBytes != 74<<20-part ||
		sent.Compression.UncompressedBytes != part {
		t.Errorf("progress is %v, %d bytes were sent", p, sent.Compression.UncompressedBytes)
	}
}

// Parts that are reused and holes are taken over by the next attempt like what was sent.
func TestResumeOfChangedFile(t *testing.T) {
	t.Parallel()
	const size = 12 << 20
	source, start := t.TempDir(), noise(1, size)
	content := slices.Clone(start)
	for offset := 0; offset < size; offset += 1<<20 + 1000 {
		content[offset]++
	}
	file(t, source, "large", content, 0o600)
	age(t, filepath.Join(source, "large"), 1)
	sparseFile(t, source, "sparse", 12<<20, map[int64]int{2 << 20: 1 << 20, 6 << 20: 1 << 20})
	for operations := 20; ; operations += 17 * sparsely {
		destination := t.TempDir()
		file(t, destination, "large", start, 0o600)
		_, _, err := try(t, 1, source, destination, func(o *receive.Options, _ *pair) {
			o.Destination = newMachine(o.Destination, destination, operations)
		})
		if err == nil {
			if operations < 80 {
				t.Errorf("there were only %d operations", operations)
			}
			return
		}
		sent, received, err := try(t, 2, source, destination, func(o *receive.Options, _ *pair) {
			o.Destination = newMachine(o.Destination, destination, -1)
		})
		if err != nil {
			t.Fatalf("after %d operations: %v", operations, err)
		}
		same(t, source, destination)
		p := sent.Progress
		if sum := sent.Compression.UncompressedBytes + p.ReusedBytes + p.HoleBytes + p.ResumedBytes +
			p.UnchangedBytes; sum != p.BytesTotal {
			t.Errorf("after %d operations %d bytes are accounted for: %v", operations, sum, p)
		}
		if got := received.Progress; got.ReusedBytes != p.ReusedBytes || got.HoleBytes != p.HoleBytes {
			t.Errorf("the sides count %v and %v", p, got)
		}
	}
}

// meddling changes a file at the destination when its parts have been compared.
type meddling struct {
	receive.Destination
	opened int
	change func()
}

func (d *meddling) OpenOld(path string) (*tree.OldFile, error) {
	// Once to see whether it is there and once to compare it.
	if d.opened++; d.opened == 3 {
		d.change()
	}
	return d.Destination.OpenOld(path)
}

// Whoever writes to the destination meanwhile cannot make a file wrong that is then taken for right.
func TestOldVersionChanges(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(path string) error{
		"Written":   func(path string) error { return os.WriteFile(path, noise(7, 4<<20), 0o600) },
		"Removed":   os.Remove,
		"Truncated": func(path string) error { return os.Truncate(path, 1<<20) },
		"Link":      func(path string) error { return errors.Join(os.Remove(path), os.Symlink("/etc/passwd", path)) },
	} {
		t.Run(name, func(t *testing.T) {
			source, destination := t.TempDir(), t.TempDir()
			content := noise(1, 4<<20)
			file(t, destination, "file", content, 0o600)
			file(t, source, "file", append(slices.Clone(content), 1), 0o600)
			p := startReceiver(t, destination, func(o *receive.Options) {
				o.Destination = &meddling{Destination: o.Destination, change: func() {
					if err := change(filepath.Join(destination, "file")); err != nil {
						t.Error(err)
					}
				}}
			})
			_, err := p.send(t.Context(), t, source, func(o *send.Options) { o.Verify, o.Streams = false, 1 })
			wantReason(t, p, err, wirev1.FailureReason_FAILURE_REASON_DESTINATION_CHANGED)
			move(t, source, destination)
			same(t, source, destination)
		})
	}
}

// A file at the destination that cannot be read any more when it is asked for is sent whole.
func TestOldVersionGoes(t *testing.T) {
	source, destination := t.TempDir(), t.TempDir()
	file(t, destination, "file", noise(1, 4<<20), 0o600)
	file(t, source, "file", noise(1, 4<<20+1), 0o600)
	p := startReceiver(t, destination, func(o *receive.Options) {
		o.Destination = &meddling{Destination: o.Destination, opened: 1, change: func() {
			if err := os.Remove(filepath.Join(destination, "file")); err != nil {
				t.Error(err)
			}
		}}
	})
	sent, err := p.send(t.Context(), t, source)
	if err != nil || p.wait(t) != nil || sent.Progress.ReusedBytes != 0 {
		t.Errorf("the sender ended with %v, %v", err, sent.Progress)
	}
	same(t, source, destination)
}

// oldPeer is a session with the entries 1, of which there is another version, and 2, of which there is none; both have
// 5 chunks and a byte.
func oldPeer(t *testing.T) (*pair, *peer) {
	t.Helper()
	destination := t.TempDir()
	file(t, destination, "a", noise(1, 320<<10), 0o600)
	p := startReceiver(t, destination)
	h := newPeer(t, p)
	h.accepted()
	sparse := fileEntry("c", 320<<10+1)
	sparse.Sparse = true
	h.announce(root(), fileEntry("a", 320<<10+1), fileEntry("b", 320<<10+1), sparse)
	if need := h.needs(); !bytes.Equal(need.GetOld(), []byte{0b10}) || !bytes.Equal(need.GetBitmap(), []byte{0b1110}) {
		t.Fatalf("the answer is %v", need)
	}
	return p, h
}

func TestHostileAsks(t *testing.T) {
	ask := func(index, first uint64, count uint32) *wirev1.AskOld {
		return &wirev1.AskOld{Index: index, First: first, Count: count}
	}
	endless := make([]*wirev1.AskOld, 100_000)
	for i := range endless {
		endless[i] = ask(1, uint64(i), 1)
	}
	for name, asks := range map[string][]*wirev1.AskOld{
		"Unknown":      {ask(9, 0, 1)},
		"Directory":    {ask(0, 0, 1)},
		"NoOld":        {ask(2, 0, 1)},
		"None":         {ask(1, 0, 0)},
		"Many":         {ask(1, 0, 1025)},
		"BeyondTheEnd": {ask(1, 80, 2)},
		"FarAway":      {ask(1, math.MaxUint64, 1)},
		"Overflow":     {ask(1, 1, math.MaxUint32)},
		"Twice":        {ask(1, 0, 3), ask(1, 2, 1)},
		"Backwards":    {ask(1, 5, 1), ask(1, 4, 1)},
		"Endless":      endless,
	} {
		t.Run(name, func(t *testing.T) {
			p, h := oldPeer(t)
			for _, a := range asks {
				if h.session.Send(&wirev1.SessionRequest{Message: &wirev1.SessionRequest_AskOld{AskOld: a}}) != nil {
					break
				}
			}
			if f := h.verdict(); f.Reason != wirev1.FailureReason_FAILURE_REASON_INVALID_DATA {
				t.Errorf("the verdict is %v", f)
			}
			if err := p.wait(t); err == nil {
				t.Error("the receiver succeeded")
			}
		})
	}
}

// The digests of one session are of no use in another.
func TestDigestsAreSalted(t *testing.T) {
	seen := make(map[string]bool)
	for range 3 {
		_, h := oldPeer(t)
		h.say(&wirev1.SessionRequest{Message: &wirev1.SessionRequest_AskOld{AskOld: &wirev1.AskOld{Index: 1, Count: 81}}})
		for {
			m, err := h.session.Recv()
			if err != nil {
				t.Fatal(err)
			}
			if old := m.GetOld(); old != nil {
				if len(old.Digests) != 80*16 || seen[string(old.Digests[:16])] {
					t.Errorf("%d bytes of digests, seen before: %v", len(old.Digests), seen[string(old.Digests[:16])])
				}
				seen[string(old.Digests[:16])] = true
				break
			}
		}
	}
}

func TestHostileParts(t *testing.T) {
	const chunk = 64 << 10
	content := noise(1, 320<<10)
	digest := func(b []byte) []byte {
		d := xxh3.Hash128(b).Bytes()
		return d[:]
	}
	for name, test := range map[string]struct {
		segment *wirev1.Segment
		bytes   int
		reason  wirev1.FailureReason
	}{
		"NoOld": {&wirev1.Segment{Index: 2, Length: chunk, Reused: 0xffff, Digest: digest(content[:chunk])}, 0, 0},
		"NotSparse": {
			&wirev1.Segment{Index: 2, Length: chunk, Holes: 0xffff, Digest: digest(make([]byte, chunk))}, 0, 0,
		},
		"Both": {
			&wirev1.Segment{Index: 3, Length: chunk, Holes: 0xffff, Reused: 1, Digest: digest(make([]byte, chunk))}, 0, 0,
		},
		"BeyondThePiece": {
			&wirev1.Segment{Index: 1, Offset: 5 * chunk, Length: 1, Reused: 0b11, Digest: digest([]byte{1})}, 0, 0,
		},
		"BeyondAChunk": {
			&wirev1.Segment{Index: 1, Length: chunk, Reused: 1 << 16, Digest: digest(content[:chunk])}, chunk, 0,
		},
		"TooManyBytes": {&wirev1.Segment{Index: 1, Length: chunk, Reused: 1, Digest: digest(content[:chunk])}, chunk, 0},
		"TooFewBytes": {
			&wirev1.Segment{Index: 1, Length: chunk, Reused: 1, Digest: digest(content[:chunk])}, chunk - chunk/16 - 1, 0,
		},
		"NoHole": {&wirev1.Segment{Index: 3, Length: chunk, Holes: 0xffff, Digest: digest(content[:chunk])}, 0, 0},
		"OtherDigest": {
			&wirev1.Segment{Index: 1, Length: chunk, Reused: 0xffff, Digest: digest(content[1:chunk])}, 0,
			wirev1.FailureReason_FAILURE_REASON_DESTINATION_CHANGED,
		},
		"BeyondTheOld": {
			&wirev1.Segment{Index: 1, Offset: 5 * chunk, Length: 1, Reused: 1, Digest: digest([]byte{1})}, 0,
			wirev1.FailureReason_FAILURE_REASON_DESTINATION_CHANGED,
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, h := oldPeer(t)
			encoded, _, err := h.encoder.AppendAt(nil, 0, make([]byte, test.bytes), false)
			if err != nil {
				t.Fatal(err)
			}
			m := &wirev1.DataRequest{Session: h.token, Segments: []*wirev1.Segment{test.segment}, Block: encoded}
			if err := h.blocks().refused(m); err != nil {
				t.Error(err)
			}
			want := test.reason
			if want == 0 {
				want = wirev1.FailureReason_FAILURE_REASON_INVALID_DATA
			}
			if f := h.verdict(); f.Reason != want {
				t.Errorf("the verdict is %v", f)
			}
			if err := p.wait(t); err == nil {
				t.Error("the receiver succeeded")
			}
		})
	}
}

// asked answers a sender's asks as a test wants it to, after what mute says.
type asked struct {
	mute
	answer func(*wirev1.AskOld) []*wirev1.Old
}

func (a asked) Session(stream wirev1.Receiver_SessionServer) error {
	for _, m := range a.says {
		if err := stream.Send(m); err != nil {
			return err
		}
	}
	for {
		m, err := stream.Recv()
		if err != nil {
			return err
		}
		if ask := m.GetAskOld(); ask != nil {
			for _, old := range a.answer(ask) {
				if err := stream.Send(&wirev1.SessionResponse{Message: &wirev1.SessionResponse_Old{Old: old}}); err != nil {
					return err
				}
			}
		}
	}
}

// A receiver that answers what was not asked is refused.
func TestHostileOld(t *testing.T) {
	source := t.TempDir()
	file(t, source, "a", noise(1, 3<<20+5), 0o600)
	file(t, source, "b", noise(1, 3<<20+5), 0o600)
	accepted := &wirev1.SessionResponse{
		Message: &wirev1.SessionResponse_Accepted{
			Accepted: &wirev1.Accepted{Codec: 1, Session: []byte("session"), Salt: []byte("salt")},
		},
	}
	need := func(n *wirev1.Need) *wirev1.SessionResponse {
		return &wirev1.SessionResponse{Message: &wirev1.SessionResponse_Need{Need: n}}
	}
	good := need(&wirev1.Need{Bitmap: []byte{0b10}, Old: []byte{0b10}})
	one := func(change func(*wirev1.Old)) func(*wirev1.AskOld) []*wirev1.Old {
		return func(a *wirev1.AskOld) []*wirev1.Old {
			old := &wirev1.Old{Index: a.Index, First: a.First, Digests: make([]byte, 16)}
			change(old)
			return []*wirev1.Old{old}
		}
	}
	for name, test := range map[string]struct {
		need   *wirev1.SessionResponse
		answer func(*wirev1.AskOld) []*wirev1.Old
	}{
		"NotNeeded":   {need(&wirev1.Need{Bitmap: []byte{0b10}, Old: []byte{0b110}}), nil},
		"Directory":   {need(&wirev1.Need{Bitmap: []byte{0b10}, Old: []byte{0b11}}), nil},
		"Longer":      {need(&wirev1.Need{Bitmap: []byte{0b10}, Old: []byte{0b10, 0}}), nil},
		"OtherIndex":  {good, one(func(o *wirev1.Old) { o.Index++ })},
		"OtherPart":   {good, one(func(o *wirev1.Old) { o.First++ })},
		"HalfADigest": {good, one(func(o *wirev1.Old) { o.Digests = o.Digests[:8] })},
		"TooMany":     {good, one(func(o *wirev1.Old) { o.Digests = make([]byte, 50*16) })},
		"AnsweredTwice": {good, func(a *wirev1.AskOld) []*wirev1.Old {
			o := &wirev1.Old{Index: a.Index, First: a.First}
			return []*wirev1.Old{o, o}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &pair{
				dialer: serve(
					t, asked{mute{says: []*wirev1.SessionResponse{accepted, test.need}}, test.answer}, &transport.Counter{},
				),
			}
			_, err := p.send(context.Background(), t, source, func(o *send.Options) { o.Silence = patience })
			if !failure.Is(err, wirev1.FailureReason_FAILURE_REASON_INVALID_DATA) {
				t.Errorf("the sender ended with %v", err)
			}
		})
	}
}
