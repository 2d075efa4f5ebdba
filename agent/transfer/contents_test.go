// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/transfer/receive"
	"github.com/lighterage/lighterage/agent/transfer/send"
	"github.com/lighterage/lighterage/agent/tree"
	"github.com/lighterage/lighterage/agent/wire/contents"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

func withContents(o *send.Options) { o.Contents = true }

// manifestOf computes the digest of a directory by itself.
func manifestOf(t *testing.T, root string) *contents.Digest {
	t.Helper()
	d, err := contents.NewDigest(nil)
	if err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		path, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		e := contents.Entry{Path: path}
		switch {
		case entry.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(name)
			if err != nil {
				return err
			}
			e = contents.LinkTo(path, target)
		case entry.Type().IsRegular():
			text, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			e.Size, e.SHA256 = uint64(len(text)), sha256.Sum256(text)
		default:
			return nil
		}
		return d.Add(&e)
	})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// The digest is that of the destination's bytes whether they were sent, were there before, or have several names, and
// omissions are not counted twice.
func TestContents(t *testing.T) {
	t.Parallel()
	source, destination := t.TempDir(), t.TempDir()
	mixedTree(t, source)
	if err := os.Link(filepath.Join(source, "large"), filepath.Join(source, "another-name")); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		sent, received := move(t, source, destination, withContents)
		same(t, source, destination)
		want := manifestOf(t, destination)
		for side, c := range map[string]*wirev1.ContentDigest{"sender": sent.GetContents(),
			"receiver": received.GetContents()} {
			if !bytes.Equal(c.GetSha256(), want.Sum()) || c.GetEntries() != want.Files+want.Links ||
				c.GetBytes() != want.Bytes || c.GetCpuNanos() == 0 {
				t.Errorf("%s: %v, expected %d files and %d links of %d bytes", side, c, want.Files, want.Links, want.Bytes)
			}
		}
		plain, _ := move(t, source, destination)
		if plain.GetContents() != nil {
			t.Error("a digest that was not asked for")
		}
		if len(sent.Omissions) != len(plain.Omissions) {
			t.Errorf("omissions are %v, without contents %v", sent.Omissions, plain.Omissions)
		}
		for i := range plain.Omissions {
			if sent.Omissions[i].Count != plain.Omissions[i].Count {
				t.Errorf("omissions are %v, without contents %v", sent.Omissions, plain.Omissions)
			}
		}
	}
}

func TestContentsOfNothing(t *testing.T) {
	t.Parallel()
	sent, received := move(t, t.TempDir(), t.TempDir(), withContents)
	want := manifestOf(t, t.TempDir()).Sum()
	if !bytes.Equal(sent.GetContents().GetSha256(), want) || !bytes.Equal(received.GetContents().GetSha256(), want) {
		t.Errorf("digests are %v and %v", sent.GetContents(), received.GetContents())
	}
}

// rotten is a destination whose files change behind the receiver's back, so that sizes and times stay.
type rotten struct {
	receive.Destination
	path string
}

func (d rotten) ReadLink(path string) (string, bool, error) {
	target, ok, err := d.Destination.ReadLink(path)
	return target + "x", ok, err
}

func TestContentsThatDiffer(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(t *testing.T, source, destination string) receiveOption{
		"an unchanged file": func(t *testing.T, source, destination string) receiveOption {
			name := filepath.Join(destination, "large")
			info, err := os.Stat(name)
			if err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			text[len(text)/2] ^= 1
			if err := os.WriteFile(name, text, 0o644); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(name, info.ModTime(), info.ModTime()); err != nil {
				t.Fatal(err)
			}
			return func(*receive.Options) {}
		},
		"a link": func(_ *testing.T, _, destination string) receiveOption {
			return func(o *receive.Options) { o.Destination = rotten{o.Destination, destination} }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source, destination := t.TempDir(), t.TempDir()
			mixedTree(t, source)
			move(t, source, destination)
			p := startReceiver(t, destination, damage(t, source, destination))
			sent, err := p.send(t.Context(), t, source, withContents)
			received := p.wait(t)
			for side, err := range map[string]error{"sender": err, "receiver": received} {
				if !failure.Is(err, wirev1.FailureReason_FAILURE_REASON_VERIFICATION_FAILED) {
					t.Errorf("%s: %v", side, err)
				}
			}
			if sent.GetContents() != nil || p.report.Report().GetContents() != nil {
				t.Error("a digest of what differs")
			}
		})
	}
}

// former is a receiver of a release without receipts, which ignores what it does not know.
type former struct {
	*receive.Receiver
}

func (f former) Session(stream wirev1.Receiver_SessionServer) error {
	return f.Receiver.Session(formerStream{stream})
}

type formerStream struct{ wirev1.Receiver_SessionServer }

func (s formerStream) Send(m *wirev1.SessionResponse) error {
	if a := m.GetAccepted(); a != nil {
		m = proto.CloneOf(m)
		m.GetAccepted().Contents = false
	}
	return s.Receiver_SessionServer.Send(m)
}

func TestContentsOfFormerReceiver(t *testing.T) {
	t.Parallel()
	source, destination := t.TempDir(), t.TempDir()
	mixedTree(t, source)
	p := startReceiver(t, destination)
	p.dialer = serve(t, former{p.receiver}, &p.report.Wire)
	_, err := p.send(t.Context(), t, source, withContents)
	if !failure.Is(err, wirev1.FailureReason_FAILURE_REASON_RECEIPT_UNSUPPORTED) {
		t.Errorf("the sender ends with %v", err)
	}
	if err := p.wait(t); err == nil {
		t.Error("the receiver succeeds")
	}
	if left := names(t, destination); len(left) > 1 { // the root
		t.Errorf("the destination has %v", left)
	}
}

// A sender that says what is not so gets no digest signed.
func TestHostileContents(t *testing.T) {
	t.Parallel()
	empty := sha256.Sum256(nil)
	good, err := contents.NewDigest(nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := good.Add(&contents.Entry{Path: "here", SHA256: empty}); err != nil {
		t.Fatal(err)
	}
	entry := func(path string, digest []byte) []*wirev1.Content {
		return []*wirev1.Content{{Path: []byte(path), Sha256: digest}}
	}
	for name, test := range map[string]struct {
		contents []*wirev1.Content
		sum      []byte
		early    bool
		reason   wirev1.FailureReason
	}{
		"none":        {reason: wirev1.FailureReason_FAILURE_REASON_INVALID_DATA},
		"another sum": {entry("here", empty[:]), make([]byte, 32), false, wirev1.FailureReason_FAILURE_REASON_INVALID_DATA},
		"not there":   {entry("there", empty[:]), nil, false, wirev1.FailureReason_FAILURE_REASON_VERIFICATION_FAILED},
		"another":     {entry("here", make([]byte, 32)), nil, false, wirev1.FailureReason_FAILURE_REASON_VERIFICATION_FAILED},
		"short":       {entry("here", empty[:31]), nil, false, wirev1.FailureReason_FAILURE_REASON_INVALID_DATA},
		"long":        {entry("here", append(empty[:], 0)), nil, false, wirev1.FailureReason_FAILURE_REASON_INVALID_DATA},
		"outside":     {entry("../here", empty[:]), nil, false, wirev1.FailureReason_FAILURE_REASON_INVALID_DATA},
		"twice":       {append(entry("here", empty[:]), entry("here", empty[:])...), nil, false, wirev1.FailureReason_FAILURE_REASON_INVALID_DATA},
		"early":       {entry("here", empty[:]), nil, true, wirev1.FailureReason_FAILURE_REASON_INVALID_DATA},
		"honest":      {entry("here", empty[:]), good.Sum(), false, wirev1.FailureReason_FAILURE_REASON_UNSPECIFIED},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := startReceiver(t, t.TempDir())
			h := newPeer(t, p)
			begin := goodBegin()
			begin.Contents = true
			h.begin(begin)
			tell := func() {
				h.say(&wirev1.SessionRequest{
					Message: &wirev1.SessionRequest_Contents{Contents: &wirev1.Contents{Entries: test.contents}},
				})
			}
			if test.early {
				tell()
			} else {
				h.say(&wirev1.SessionRequest{Message: &wirev1.SessionRequest_Manifest{Manifest: &wirev1.Manifest{
					Entries: []*wirev1.Entry{
						{Path: []byte("."), Type: wirev1.EntryType_ENTRY_TYPE_DIRECTORY, Mode: 0o755},
						{Path: []byte("here"), Type: wirev1.EntryType_ENTRY_TYPE_FILE, Mode: 0o644},
					},
				}}})
				h.say(&wirev1.SessionRequest{Message: &wirev1.SessionRequest_ManifestEnd{
					ManifestEnd: &wirev1.ManifestEnd{Entries: 2, Files: 1},
				}})
				if test.contents != nil {
					tell()
				}
				h.say(&wirev1.SessionRequest{Message: &wirev1.SessionRequest_Finish{
					Finish: &wirev1.Finish{ContentsSha256: test.sum},
				}})
			}
			err := p.wait(t)
			if test.reason == wirev1.FailureReason_FAILURE_REASON_UNSPECIFIED {
				if err != nil || !bytes.Equal(p.report.Report().GetContents().GetSha256(), good.Sum()) {
					t.Errorf("%v, %v", err, p.report.Report().GetContents())
				}
				return
			}
			if !failure.Is(err, test.reason) || p.report.Report().GetContents() != nil {
				t.Errorf("%v, %v", err, p.report.Report().GetContents())
			}
		})
	}
}

// A file that appears between the walk and the digest is at no destination.
func TestContentsOfSourceThatChanges(t *testing.T) {
	t.Parallel()
	source, destination := t.TempDir(), t.TempDir()
	mixedTree(t, source)
	p := startReceiver(t, destination, func(o *receive.Options) {
		o.Destination = late{o.Destination, func() { file(t, source, "zz-late", []byte("late"), 0o644) }}
	})
	_, err := p.send(context.Background(), t, source, withContents)
	_ = p.wait(t)
	if !failure.Is(err, wirev1.FailureReason_FAILURE_REASON_SOURCE_CHANGED) &&
		!failure.Is(err, wirev1.FailureReason_FAILURE_REASON_VERIFICATION_FAILED) {
		t.Errorf("the sender ends with %v", err)
	}
}

// late does something when the first file is looked at.
type late struct {
	receive.Destination
	do func()
}

func (d late) Look(e *tree.Entry) (bool, error) {
	if e.Type == tree.File {
		d.do()
	}
	return d.Destination.Look(e)
}
