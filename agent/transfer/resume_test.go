// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/lighterage/lighterage/agent/transfer/protocol"
	"github.com/lighterage/lighterage/agent/transfer/receive"
	"github.com/lighterage/lighterage/agent/transfer/send"
	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// try makes one attempt, with the smallest interval, and returns what both sides say.
func try(
	t testing.TB, attempt uint32, source, destination string, prepare func(*receive.Options, *pair),
	options ...sendOption,
) (sent, received *wirev1.Report, failed error) {
	t.Helper()
	var p *pair
	p = startAttempt(t, attempt, destination, func(o *receive.Options) {
		if prepare != nil {
			prepare(o, p)
		}
	})
	options = append([]sendOption{func(o *send.Options) {
		o.Attempt, o.CheckpointInterval = attempt, 1<<20
	}}, options...)
	sent, failed = p.send(t.Context(), t, source, options...)
	if err := p.wait(t); failed == nil {
		failed = err
	}
	return sent, p.report.Report(), failed
}

// resumable makes a tree with files of many chunks and small ones, and returns its bytes.
func resumable(t testing.TB) (source string, bytes int64) {
	t.Helper()
	source = t.TempDir()
	for i, size := range []int{12<<20 + 5, 2 << 20, 100, 70_000, 0, 1 << 20, 4<<20 + 1} {
		file(t, source, fmt.Sprintf("d%d/file-%d", i%3, i), noise(uint64(i), size), 0o640)
		bytes += int64(size)
	}
	for i := range 60 {
		file(t, source, fmt.Sprintf("e/%d", i), text(i, 9000), 0o600)
		bytes += 9000
	}
	return source, bytes
}

// The power of the receiver goes after any number of operations. The next attempt makes the destination equal, and what
// is written twice is at most one interval for each stream.
func TestPowerLossAnywhere(t *testing.T) {
	t.Parallel()
	const streams = 3
	source, size := resumable(t)
	for _, verify := range []bool{true, false} {
		settings := func(o *send.Options) { o.Verify, o.Streams = verify, streams }
		for operations := 1; ; operations += 37 * sparsely {
			destination := t.TempDir()
			var m *machine
			_, _, err := try(t, 1, source, destination, func(o *receive.Options, _ *pair) {
				m = newMachine(o.Destination, destination, operations)
				o.Destination = m
			}, settings)
			if err == nil {
				if operations < 100 {
					t.Errorf("there were only %d operations", operations)
				}
				break
			}
			first := m.written
			sent, received, err := try(t, 2, source, destination, func(o *receive.Options, _ *pair) {
				m = newMachine(o.Destination, destination, -1)
				o.Destination = m
			}, settings)
			if err != nil {
				t.Fatalf("after %d operations: %v", operations, err)
			}
			same(t, source, destination)
			if again := first + m.written - size; again > streams<<20 {
				t.Errorf("after %d operations %d bytes were written, then %d: %d too many", operations, first, m.written, again)
			}
			p := sent.Progress
			if p.Files != p.FilesTotal || p.Bytes != uint64(size) {
				t.Errorf("after %d operations progress is %v", operations, p)
			}
			if got := received.Progress; got.ResumedBytes != p.ResumedBytes || got.ResentBytes != p.ResentBytes {
				t.Errorf("the sides count %v and %v", p, got)
			}
			if sum := p.UnchangedBytes + p.ResumedBytes + uint64(m.written); sum != uint64(size) {
				t.Errorf("after %d operations %d bytes are accounted for of %d: %v", operations, sum, size, p)
			}
			// It is counted in the blocks of the file system.
			if p.ResentBytes > streams<<20+64<<10 {
				t.Errorf("after %d operations progress is %v", operations, p)
			}
		}
	}
}

// The connections break again and again. What was written is never sent again.
func TestConnectionBreaks(t *testing.T) {
	source, destination := t.TempDir(), t.TempDir()
	const size = 40<<20 + 12345
	file(t, source, "large", noise(1, size), 0o600)
	var written int64
	for attempt := uint32(1); ; attempt++ {
		g := &gate{}
		var m *machine
		p := startAttempt(t, attempt, destination, func(o *receive.Options) {
			m = newMachine(o.Destination, destination, -1)
			o.Destination = m
		})
		gone := p.overhear(t)
		m.wrote = func(written int64) {
			if written > 9<<20 {
				g.cut()
				<-gone
			}
		}
		p.dialer.Address = splice(t, g, p.dialer.Address)
		sent, err := p.send(t.Context(), t, source, func(o *send.Options) { o.Attempt = attempt })
		if received := p.wait(t); err == nil {
			err = received
		}
		before := written
		written += m.written
		if progress := p.report.Report().Progress; progress.Bytes == 0 && progress.PartialBytes != uint64(written) {
			t.Errorf("attempt %d: %d bytes of the file are there, progress is %v", attempt, written, progress)
		}
		// A file that got its name before the break is unchanged.
		if resumed := sent.Progress.ResumedBytes + sent.Progress.UnchangedBytes; resumed != uint64(before) {
			t.Errorf("attempt %d resumes %d bytes; %d were written before", attempt, resumed, before)
		}
		if err == nil {
			if attempt < 3 {
				t.Errorf("attempt %d went through", attempt)
			}
			break
		}
		if attempt > 30 {
			t.Fatal("it does not come to an end: ", err)
		}
	}
	if written != size {
		t.Errorf("%d bytes were written of %d", written, size)
	}
	same(t, source, destination)
}

// broken makes a first attempt that ends in the middle of its only file, of which at least 4 MiB are safe.
func broken(t *testing.T, source, destination string) {
	t.Helper()
	var m *machine
	_, _, err := try(t, 1, source, destination, func(o *receive.Options, _ *pair) {
		m = newMachine(o.Destination, destination, 60)
		o.Destination = m
	})
	if err == nil || m.written < 5<<20 {
		t.Fatalf("after %d bytes it ends with %v", m.written, err)
	}
}

func TestResumeOnlyWhatIsProven(t *testing.T) {
	staging := func(t *testing.T, destination, name string) string {
		t.Helper()
		found, err := filepath.Glob(filepath.Join(destination, tree.StagingName, "*", name))
		if err != nil || len(found) != 1 {
			t.Fatalf("there are %v, %v", found, err)
		}
		return found[0]
	}
	change := func(t *testing.T, name string, offset int64, b []byte) {
		t.Helper()
		f, err := os.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteAt(b, offset); err != nil {
			t.Fatal(err)
		}
	}
	tests := map[string]struct {
		between func(t *testing.T, source, destination string)
		resumes bool
	}{
		"Same": {func(*testing.T, string, string) {}, true},
		"ChangedWithItsTimePutBack": {func(t *testing.T, source, _ string) {
			file(t, source, "large", noise(2, 16<<20), 0o600)
		}, false},
		"Touched": {func(t *testing.T, source, _ string) { age(t, filepath.Join(source, "large"), 5) }, false},
		"JournalIsGone": {func(t *testing.T, _, destination string) {
			if err := os.Remove(staging(t, destination, "journal")); err != nil {
				t.Fatal(err)
			}
		}, false},
		"JournalIsDamaged": {func(t *testing.T, _, destination string) {
			change(t, staging(t, destination, "journal"), 100, []byte("damage"))
		}, false},
		"JournalIsNewer": {func(t *testing.T, _, destination string) {
			change(t, staging(t, destination, "journal"), 8, []byte{0, 2})
		}, false},
		"JournalIsEmpty": {func(t *testing.T, _, destination string) {
			if err := os.Truncate(staging(t, destination, "journal"), 0); err != nil {
				t.Fatal(err)
			}
		}, false},
		"JournalIsALink": {func(t *testing.T, _, destination string) {
			name := staging(t, destination, "journal")
			if err := os.Rename(name, filepath.Join(destination, "elsewhere")); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink("../../elsewhere", name); err != nil {
				t.Fatal(err)
			}
		}, false},
		"StagedFileIsGone": {func(t *testing.T, _, destination string) {
			if err := os.Remove(staging(t, destination, "[0-9]*")); err != nil {
				t.Fatal(err)
			}
		}, false},
		"StagedFileIsDamaged": {func(t *testing.T, _, destination string) {
			// In every chunk: which of them are safe depends on the streams, and what is not safe is not read back.
			for offset := int64(77); offset < 16<<20; offset += protocol.ChunkSize {
				change(t, staging(t, destination, "[0-9]*"), offset, []byte("damage"))
			}
		}, false},
		"StagedFileIsShort": {func(t *testing.T, _, destination string) {
			if err := os.Truncate(staging(t, destination, "[0-9]*"), 1); err != nil {
				t.Fatal(err)
			}
		}, false},
		"StagedFileIsAFIFO": {func(t *testing.T, _, destination string) {
			name := staging(t, destination, "[0-9]*")
			if err := os.Remove(name); err != nil {
				t.Fatal(err)
			}
			if err := unix.Mkfifo(name, 0o600); err != nil {
				t.Fatal(err)
			}
		}, false},
		"AnotherRun": {func(t *testing.T, _, destination string) {
			name := filepath.Dir(staging(t, destination, "journal"))
			if err := os.Rename(name, filepath.Join(filepath.Dir(name), "other.1.abc")); err != nil {
				t.Fatal(err)
			}
		}, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source, destination := t.TempDir(), t.TempDir()
			file(t, source, "large", noise(1, 16<<20), 0o600)
			broken(t, source, destination)
			test.between(t, source, destination)
			os.Remove(filepath.Join(destination, "elsewhere"))
			sent, _, err := try(t, 2, source, destination, nil)
			if err != nil {
				t.Fatal(err)
			}
			same(t, source, destination)
			if p := sent.Progress; (p.ResumedBytes > 0) != test.resumes || p.ResumedBytes%(1<<20) != 0 {
				t.Errorf("progress is %v", p)
			}
			if got := sent.Compression.UncompressedBytes + sent.Progress.ResumedBytes; got != 16<<20 {
				t.Errorf("%d bytes were sent or resumed", got)
			}
		})
	}
}

// Without verification, too, a staged file that lost its end is not built upon.
func TestShortStagedFileWithoutVerification(t *testing.T) {
	source, destination := t.TempDir(), t.TempDir()
	file(t, source, "large", noise(1, 16<<20), 0o600)
	broken(t, source, destination)
	found, err := filepath.Glob(filepath.Join(destination, tree.StagingName, "*", "[0-9]*"))
	if err != nil || len(found) != 1 {
		t.Fatalf("there are %v, %v", found, err)
	}
	if err := os.Truncate(found[0], 1<<20); err != nil {
		t.Fatal(err)
	}
	sent, _, err := try(t, 2, source, destination, nil, func(o *send.Options) { o.Verify = false })
	if err != nil {
		t.Fatal(err)
	}
	same(t, source, destination)
	if sent.Progress.ResumedBytes != 0 {
		t.Errorf("progress is %v", sent.Progress)
	}
}

// A new run after one that was given up sends the rest, unless the place was another Transfer's.
func TestNewRunResumes(t *testing.T) {
	t.Parallel()
	for sender, resumes := range map[string]bool{"bank/ledger": true, "bank/another": false} {
		source, destination := t.TempDir(), t.TempDir()
		file(t, source, "large", noise(1, 20<<20), 0o600)
		file(t, source, "small", noise(2, 100), 0o600)
		_, _, err := try(t, 1, source, destination, func(o *receive.Options, _ *pair) {
			o.Destination = nameless{o.Destination}
		})
		if err == nil {
			t.Fatal("it went through")
		}
		p := startAttempt(t, 2, destination, func(o *receive.Options) {
			if err := o.Destination.Close(); err != nil {
				t.Fatal(err)
			}
			d, err := tree.OpenDestination(destination, ".", "next", 2)
			if err != nil {
				t.Fatal(err)
			}
			o.RunID, o.Sender, o.Destination = "next", sender, receive.Tree{Destination: d}
		})
		sent, err := p.send(t.Context(), t, source, func(o *send.Options) { o.RunID, o.Attempt = "next", 2 })
		if err != nil {
			t.Fatal(err)
		}
		if err := p.wait(t); err != nil {
			t.Fatal(err)
		}
		same(t, source, destination)
		if sent.Progress.ResumedBytes > 0 != resumes ||
			sent.Compression.UncompressedBytes+sent.Progress.ResumedBytes != 20<<20+100 {
			t.Errorf(
				"after a run of bank/ledger one of %s resumed %d bytes and sent %d", sender, sent.Progress.ResumedBytes,
				sent.Compression.UncompressedBytes,
			)
		}
	}
}

// Everything of a file was safe, but it did not get its name.
func TestWholeFileIsSafe(t *testing.T) {
	source, destination := t.TempDir(), t.TempDir()
	file(t, source, "large", noise(1, 3<<20), 0o600)
	_, received, err := try(t, 1, source, destination, func(o *receive.Options, _ *pair) {
		o.Destination = nameless{o.Destination}
	})
	if err == nil {
		t.Fatal("it went through")
	}
	if p := received.Progress; p.PartialBytes != 3<<20 || p.Bytes != 0 {
		t.Errorf("before the file has its name progress is %v", p)
	}
	sent, _, err := try(t, 2, source, destination, nil)
	if err != nil {
		t.Fatal(err)
	}
	same(t, source, destination)
	if p := sent.Progress; p.ResumedBytes != 3<<20 || p.Files != 1 || p.Bytes != 3<<20 || p.PartialBytes != 0 ||
		sent.Compression.UncompressedBytes != 0 {
		t.Errorf("progress is %v, %d bytes were sent", p, sent.Compression.UncompressedBytes)
	}
}

// nameless is a destination whose files get no names.
type nameless struct{ receive.Destination }

func (n nameless) Stage(number uint64, e *tree.Entry) (receive.StagedFile, error) {
	f, err := n.Destination.Stage(number, e)
	return namelessFile{f}, err
}

type namelessFile struct{ receive.StagedFile }

func (namelessFile) Commit(*tree.Entry) error { return errPower }

// A receiver hangs, another one takes over, and the first one comes back to life: it changes nothing any more.
func TestFormerReceiverComesBack(t *testing.T) {
	source, destination := t.TempDir(), t.TempDir()
	file(t, source, "large", noise(1, 20<<20), 0o600)
	h := &hanging{resume: make(chan struct{}), hangs: make(chan struct{})}
	former := startAttempt(t, 1, destination, func(o *receive.Options) {
		h.Destination, o.Destination = o.Destination, h
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := former.send(ctx, t, source, func(o *send.Options) { o.CheckpointInterval = 1 << 20 })
		ended <- err
	}()
	<-h.hangs
	second := startAttempt(t, 2, destination)
	close(h.resume)
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "a newer attempt has taken over") {
		t.Errorf("the former sender ends with %v", err)
	}
	cancel()
	if err := former.wait(t); err == nil {
		t.Error("the former receiver succeeds")
	}
	sent, err := second.send(t.Context(), t, source, func(o *send.Options) { o.Attempt = 2 })
	if err != nil {
		t.Fatal(err)
	}
	if err := second.wait(t); err != nil {
		t.Fatal(err)
	}
	same(t, source, destination)
	if sent.Progress.ResumedBytes == 0 {
		t.Errorf("progress is %v", sent.Progress)
	}
	if _, err := tree.OpenDestination(destination, ".", "run", 1); err != nil {
		t.Errorf("after the end: %v", err)
	}
}

// hanging is a destination that hangs after 8 writes.
type hanging struct {
	receive.Destination
	mu            sync.Mutex
	writes        int
	hangs, resume chan struct{}
}

func (h *hanging) Stage(number uint64, e *tree.Entry) (receive.StagedFile, error) {
	h.mu.Lock()
	if h.writes++; h.writes == 8 {
		close(h.hangs)
	}
	hangs := h.writes >= 8
	h.mu.Unlock()
	if hangs {
		<-h.resume
	}
	return h.Destination.Stage(number, e)
}
