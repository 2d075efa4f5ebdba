// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer_test

import (
	"slices"
	"testing"

	"github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/transfer/send"
	"github.com/lighterage/lighterage/agent/transport"
)

// Forms in which files rest are those of one receiver.
func TestFanOutOfForms(t *testing.T) {
	source := t.TempDir()
	mixedTree(t, source)
	for _, form := range forms {
		f := newFanOut(t, source, send.FanOptions{}, 2)
		for i := range f.pairs {
			f.start(t.Context(), i, source, startReceiver(t, f.destinations[i]), inForm(form))
		}
		f.running.Wait()
		var total int64
		for i, p := range f.pairs {
			f.ended(i, p)
			rests(t, source, f.destinations[i], form)
			total = int64(f.sent[i].Progress.BytesTotal)
		}
		if read := f.read.Load(); read != total {
			t.Errorf("form %v: %d bytes were read of %d", form, read, total)
		}
	}
}

// Receivers with other forms, and with none, share what is cut alike, in the codec of the form.
func TestFanOutOfDifferentForms(t *testing.T) {
	source := t.TempDir()
	const size = 6 << 20
	file(t, source, "a", text(1, size), 0o600)
	mixed := t.TempDir()
	mixedTree(t, mixed)
	for name, test := range map[string]struct {
		forms   []cargo.Form
		earlier int // is of an earlier release; -1: none is
		codecs  []string
		reads   int64 // of source
	}{
		"gzip and plain": {[]cargo.Form{cargo.Gzip, 0, cargo.Gzip}, -1, []string{"deflate", "deflate", "deflate"}, 1},
		"zstd and plain": {[]cargo.Form{0, cargo.Zstd}, -1, []string{"zstd", "zstd"}, 1},
		"both":           {[]cargo.Form{cargo.Gzip, cargo.Zstd}, -1, []string{"deflate", "zstd"}, 2},
		// Its blocks are of no use to the form, nor the other way round.
		"gzip and an earlier release": {[]cargo.Form{cargo.Gzip, 0}, 1, []string{"deflate", "deflate"}, 2},
	} {
		for _, from := range []string{source, mixed} {
			f := newFanOut(t, from, send.FanOptions{}, len(test.forms))
			for i, form := range test.forms {
				p := startReceiver(t, f.destinations[i])
				if i == test.earlier {
					p.dialer = serve(t, earlier{p.receiver}, &transport.Counter{})
				}
				options := []sendOption{always(codec.Deflate, codec.Zstd)}
				if form == 0 && slices.Contains(test.forms, cargo.Zstd) {
					options[0] = always(codec.Zstd, codec.Deflate)
				}
				if form != 0 {
					options = append(options, inForm(form))
				}
				f.start(t.Context(), i, from, p, options...)
			}
			f.running.Wait()
			for i, form := range test.forms {
				f.ended(i, f.pairs[i])
				if form == 0 {
					same(t, from, f.destinations[i])
				} else {
					rests(t, from, f.destinations[i], form)
				}
				if got := f.sent[i].Compression.Codec; got != test.codecs[i] {
					t.Errorf("%s: receiver %d was sent %s, want %s", name, i, got, test.codecs[i])
				}
			}
			if read := f.read.Load(); from == source && read != test.reads*size {
				t.Errorf("%s: %d bytes were read, want %d times %d", name, read, test.reads, size)
			}
		}
	}
}
