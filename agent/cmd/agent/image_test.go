// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	"github.com/lighterage/lighterage/agent/objectstore/objectstoretest"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

const imageSize = 24<<20 + 3*512

// imageContent has data at its beginning and at its end, and zeros in between.
func imageContent() []byte {
	b := make([]byte, imageSize)
	r := rand.NewChaCha8([32]byte{7})
	r.Read(b[:3<<20+100])
	r.Read(b[imageSize-512:])
	return b
}

// deviceFile is a file that stands for a device.
func deviceFile(t *testing.T, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "device")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// putsImage has a device put into a store.
func (r *localRun) putsImage(t *testing.T, server *objectstoretest.Server, device string, form wirev1.Form) {
	t.Helper()
	send := proto.CloneOf(r.config.GetSend())
	send.Volume, send.Path, send.Block, send.Form = device, ".", true, form
	r.config = &wirev1.LocalConfig{
		Send: send, Receive: &wirev1.ReceiveConfig{
			RunId: "abcde", Attempt: 1, SenderNamespace: "bank", SenderName: "ledger",
		},
		DestinationStore: storeEnd(t, server), Transfer: "bank/ledger (1)", Image: &wirev1.Image{Version: "copy"},
	}
}

// restoresImage has a device written with what a store has.
func (r *localRun) restoresImage(t *testing.T, server *objectstoretest.Server, device string) {
	t.Helper()
	send := proto.CloneOf(r.config.GetSend())
	send.Volume, send.Path, send.Block, send.Form = "", "", false, wirev1.Form_FORM_UNSPECIFIED
	r.config = &wirev1.LocalConfig{
		Send: send, SourceStore: storeEnd(t, server), Image: &wirev1.Image{},
		Receive: &wirev1.ReceiveConfig{
			RunId: "abcde", Attempt: 1, SenderNamespace: "bank", SenderName: "ledger", Volume: device, Path: ".", Block: true,
		},
	}
}

func (r *localRun) succeeds(t *testing.T) *wirev1.Report {
	t.Helper()
	code, report, log := r.run(t.Context(), t)
	if code != exitOK {
		t.Fatalf("the agent exits with %d:\n%s", code, log)
	}
	return report
}

func holds(t *testing.T, device string, want []byte) {
	t.Helper()
	if got, err := os.ReadFile(device); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%v, or the device does not hold what it should", err)
	}
}

// A device goes into a store and from there into another one, of which only what differs is written.
func TestImageThroughAStore(t *testing.T) {
	content := imageContent()
	for _, form := range []wirev1.Form{wirev1.Form_FORM_UNSPECIFIED, wirev1.Form_FORM_GZIP, wirev1.Form_FORM_ZSTD} {
		t.Run(form.String(), func(t *testing.T) {
			server := objectstoretest.New(t, "me")
			r := newLocalRun(t, wirev1.CompressionMode_COMPRESSION_MODE_AUTO)
			r.config.Send.Receipt = true
			r.putsImage(t, server, deviceFile(t, content), form)
			report := r.succeeds(t)
			if c := report.GetContents(); c.GetEntries() != 1 || c.GetBytes() != imageSize {
				t.Errorf("the receipt is of %v", c)
			}
			if n := report.GetWireBytes(); form != wirev1.Form_FORM_UNSPECIFIED && n > 12<<20 { // The receipt reads all again.
				t.Errorf("%d bytes on the wire for a device of mostly zeros", n)
			}

			// What it holds must not shine through, and what is beyond the image stays.
			before := bytes.Repeat([]byte{0xaa}, imageSize+1<<20)
			want := append(bytes.Clone(content), before[imageSize:]...)
			to := deviceFile(t, before)
			r.restoresImage(t, server, to)
			report = r.succeeds(t)
			holds(t, to, want)
			if p := report.GetProgress(); p.GetHoleBytes() < 20<<20 {
				t.Errorf("%d bytes were holes", p.GetHoleBytes())
			}
			if c := report.GetContents(); c.GetEntries() != 1 || c.GetBytes() != imageSize {
				t.Errorf("the receipt is of %v", c)
			}

			// As after an attempt that was killed.
			f, err := os.OpenFile(to, os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, at := range []int64{1 << 20, 10 << 20} {
				if _, err := f.WriteAt(bytes.Repeat([]byte{1}, 64<<10), at); err != nil {
					t.Fatal(err)
				}
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			report = r.succeeds(t)
			holds(t, to, want)
			if sent := report.GetCompression().GetUncompressedBytes(); sent > 128<<10 {
				t.Errorf("%d bytes were written where 64 KiB differed", sent)
			}

			// In a claim with files it is a file with holes.
			r.config.Receive.Block, r.config.Receive.Volume, r.config.Image = false, t.TempDir(), nil
			r.succeeds(t)
			path := filepath.Join(r.config.Receive.Volume, "volume.img")
			holds(t, path, content)
			var st unix.Stat_t
			if err := unix.Stat(path, &st); err != nil || st.Blocks*512 > imageSize/2 {
				t.Errorf("the file has %d blocks, %v", st.Blocks, err)
			}
		})
	}
}

// What cannot be is rejected before anything is written.
func TestImagesThatDoNotFit(t *testing.T) {
	before := bytes.Repeat([]byte{3}, imageSize-512)
	for name, c := range map[string]struct {
		prepare func(*localRun, *objectstoretest.Server)
		reason  wirev1.FailureReason
	}{
		"larger than the device": {func(r *localRun, server *objectstoretest.Server) {
			r.putsImage(t, server, deviceFile(t, imageContent()), wirev1.Form_FORM_GZIP)
		}, wirev1.FailureReason_FAILURE_REASON_DESTINATION_FULL},
		"a tree": {func(r *localRun, server *objectstoretest.Server) {
			r.config = &wirev1.LocalConfig{
				Send: r.config.Send, Receive: r.config.Receive, DestinationStore: storeEnd(t, server),
				Transfer: "bank/ledger (1)",
			}
		}, wirev1.FailureReason_FAILURE_REASON_VOLUME_MODE_MISMATCH},
	} {
		t.Run(name, func(t *testing.T) {
			server := objectstoretest.New(t, "me")
			r := newLocalRun(t, wirev1.CompressionMode_COMPRESSION_MODE_AUTO)
			c.prepare(r, server)
			r.succeeds(t)
			to := deviceFile(t, before)
			r.restoresImage(t, server, to)
			code, report, log := r.run(t.Context(), t)
			if code == exitOK || report.GetFailure().GetReason() != c.reason {
				t.Errorf("the agent exits with %d, %v:\n%s", code, report.GetFailure(), log)
			}
			holds(t, to, before)
		})
	}
}

// A configuration that is none of an image, or that asks of one what only files have, is rejected.
func TestImageConfigurations(t *testing.T) {
	for name, change := range map[string]func(*wirev1.LocalConfig){
		"no image":        func(c *wirev1.LocalConfig) { c.Image = nil },
		"no block volume": func(c *wirev1.LocalConfig) { c.Send.Block = false },
		"archives":        func(c *wirev1.LocalConfig) { c.Send.Form = wirev1.Form_FORM_ARCHIVE },
		"mirror":          func(c *wirev1.LocalConfig) { c.Send.Mirror = true },
		"patterns":        func(c *wirev1.LocalConfig) { c.Send.Exclude = []string{"a"} },
		"stores at both":  func(c *wirev1.LocalConfig) { c.SourceStore = c.DestinationStore },
		"a form in claims": func(c *wirev1.LocalConfig) {
			c.SourceStore, c.DestinationStore, c.Receive.Block = c.DestinationStore, nil, true
		},
	} {
		server := objectstoretest.New(t, "me")
		r := newLocalRun(t, wirev1.CompressionMode_COMPRESSION_MODE_AUTO)
		r.putsImage(t, server, deviceFile(t, make([]byte, 4096)), wirev1.Form_FORM_GZIP)
		r.config.Receive.Volume, r.config.Receive.Path = t.TempDir(), "."
		change(r.config)
		if code, _, log := r.run(t.Context(), t); code != exitConfig {
			t.Errorf("%s: the agent exits with %d:\n%s", name, code, log)
		}
		if k := server.Keys(); len(k) > 0 {
			t.Errorf("%s: the store has %q", name, k)
		}
	}
}
