// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/zeebo/xxh3"

	"github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/transfer/receive"
	"github.com/lighterage/lighterage/agent/transfer/send"
	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

func fromForm(f cargo.Form) sendOption {
	return func(o *send.Options) {
		o.Source.(*tree.Source).SetForm(f, engines.Default())
		o.SourceForm = f
	}
}

// carriedAll fails the test unless every block travelled as it rested.
func carriedAll(t testing.TB, sent *wirev1.Report) {
	t.Helper()
	skipped := sent.GetCompression().GetSkipped()
	if n := skipped[string(policy.AlreadyCompressed)]; n == 0 || len(skipped) != 1 ||
		len(sent.GetCompression().GetReasons()) > 0 {
		t.Errorf("compression is %v", sent.GetCompression())
	}
}

// What rests in a form arrives as the plain files, in the same form with the same bytes, or in another one.
func TestCargoAsSource(t *testing.T) {
	t.Parallel()
	source := t.TempDir()
	mixedTree(t, source)
	if err := os.Link(filepath.Join(source, "large"), filepath.Join(source, "linked")); err != nil {
		t.Fatal(err)
	}
	age(t, source, 5)
	for i, form := range forms {
		t.Run(form.String(), func(t *testing.T) {
			t.Parallel()
			rest := t.TempDir()
			move(t, source, rest, inForm(form))
			for _, verify := range []bool{true, false} {
				plain, again, other := t.TempDir(), t.TempDir(), t.TempDir()
				settings := func(o *send.Options) { o.Verify, o.Policy.Mode = verify, policy.Never }
				sent, _ := move(t, rest, plain, fromForm(form), settings)
				same(t, source, plain)
				carriedAll(t, sent)
				sent, _ = move(t, rest, plain, fromForm(form), filtered(t, true, nil, nil))
				if p := sent.GetProgress(); p.UnchangedBytes != p.BytesTotal || p.Removed > 0 {
					t.Errorf("progress of the second run is %v", p)
				}
				sent, received := move(t, rest, again, fromForm(form), inForm(form), settings)
				if diff := cmp.Diff(listing(t, rest), listing(t, again)); diff != "" {
					t.Errorf("what rests differs:\n%s", diff)
				}
				carriedAll(t, sent)
				noneInflated(t, received)
				move(t, rest, other, fromForm(form), inForm(forms[1-i]))
				rests(t, source, other, forms[1-i])
			}
		})
	}
}

// Several receivers get what rests, with a policy that names no codec.
func TestCargoAsSourceFansOut(t *testing.T) {
	t.Parallel()
	source, rest := t.TempDir(), t.TempDir()
	mixedTree(t, source)
	move(t, source, rest, inForm(forms[0]))
	f := newFanOut(t, rest, send.FanOptions{}, 2)
	f.walked.SetForm(forms[0], engines.Default())
	for i := range f.pairs {
		f.start(t.Context(), i, rest, startReceiver(t, f.destinations[i]), func(o *send.Options) {
			o.Source.(counted).SetForm(forms[0], engines.Default())
			o.SourceForm, o.Codecs = forms[0], nil
			o.Policy = policy.Settings{Mode: policy.Always, Level: codec.Fast}
		})
	}
	f.running.Wait()
	for i, p := range f.pairs {
		f.ended(i, p)
		same(t, source, f.destinations[i])
		carriedAll(t, f.sent[i])
	}
}

type digesting struct{ *receive.Receiver }

func (d digesting) Session(stream wirev1.Receiver_SessionServer) error {
	return d.Receiver.Session(needsDigests{stream})
}

type needsDigests struct{ wirev1.Receiver_SessionServer }

func (s needsDigests) Send(m *wirev1.SessionResponse) error {
	if a := m.GetAccepted(); a != nil {
		a.Undigested = false
	}
	return s.Receiver_SessionServer.Send(m)
}

// Receivers of earlier releases get the plain files in blocks that they read, and receipts state them.
func TestCargoAsSourceOfEarlierReceivers(t *testing.T) {
	source := t.TempDir()
	mixedTree(t, source)
	for _, form := range forms {
		rest, destination := t.TempDir(), t.TempDir()
		move(t, source, rest, inForm(form))
		p := startReceiver(t, destination)
		p.dialer = serve(t, digesting{p.receiver}, &p.report.Wire)
		sent, err := p.send(t.Context(), t, rest, fromForm(form), withContents)
		if err != nil {
			t.Fatal("send:", err)
		}
		if err := p.wait(t); err != nil {
			t.Fatal("receive:", err)
		}
		same(t, source, destination)
		if n := sent.GetCompression().GetSkipped()[string(policy.AlreadyCompressed)]; n > 0 {
			t.Errorf("%d blocks went as they rest", n)
		}
	}
}

// What is damaged, or has an index that is wrong, is not sent under the plain name. What has none is a file.
func TestCargoAsSourceThatIsWrong(t *testing.T) {
	for _, form := range forms {
		unreadable := wirev1.FailureReason_FAILURE_REASON_SOURCE_NOT_READABLE
		lying := unreadable // the end of a gzip member gives it away
		if form == cargo.Zstd {
			lying = wirev1.FailureReason_FAILURE_REASON_INVALID_DATA
		}
		for name, test := range map[string]struct {
			reason wirev1.FailureReason
			change func(data, index []byte) (newData, newIndex []byte)
		}{
			"damaged": {unreadable, func(d, i []byte) ([]byte, []byte) { d[len(d)/2]++; return d, i }},
			"stale":   {unreadable, func(d, i []byte) ([]byte, []byte) { return append(d, 0), i }},
			"none":    {unreadable, func(d, i []byte) ([]byte, []byte) { return d, []byte("no index") }},
			"lying": {lying, func(d, i []byte) ([]byte, []byte) {
				i[32+15]++ // the checksum of the first plain block
				binary.BigEndian.PutUint64(i[len(i)-8:], xxh3.Hash(i[:len(i)-8]))
				return d, i
			}},
			"absent": {0, func(d, i []byte) ([]byte, []byte) { return d, nil }},
		} {
			t.Run(fmt.Sprint(form, name), func(t *testing.T) {
				source, rest, destination := t.TempDir(), t.TempDir(), t.TempDir()
				file(t, source, "a.csv", text(1, 3<<20), 0o600)
				move(t, source, rest, inForm(form))
				at, indexAt := filepath.Join(rest, form.Name("a.csv")), filepath.Join(rest, form.IndexName("a.csv"))
				data, err := os.ReadFile(at)
				if err != nil {
					t.Fatal(err)
				}
				index, err := os.ReadFile(indexAt)
				if err != nil {
					t.Fatal(err)
				}
				data, index = test.change(data, index)
				if err = os.Remove(indexAt); err == nil && index != nil {
					err = os.WriteFile(indexAt, index, 0o600)
				}
				if err == nil {
					err = os.WriteFile(at, data, 0o600)
				}
				if err != nil {
					t.Fatal(err)
				}
				p := startReceiver(t, destination)
				_, err = p.send(t.Context(), t, rest, fromForm(form))
				if test.reason != 0 {
					if !failure.Is(err, test.reason) || p.wait(t) == nil {
						t.Errorf("the sender ended with %v instead of %v", err, test.reason)
					}
					if _, err := os.Lstat(filepath.Join(destination, "a.csv")); err == nil {
						t.Error("the file is at the destination")
					}
					return
				}
				if err != nil || p.wait(t) != nil {
					t.Fatal(err)
				}
				same(t, rest, destination)
			})
		}
	}
}

// Files that other programs have compressed go as they are, in stored blocks, since a sample says that they do not
// shrink. One that does, which was made of very much of the same, is compressed on its way, and arrives as it was.
func TestFilesOfOtherPrograms(t *testing.T) {
	digits := []byte(hex.EncodeToString(noise(7, 4<<20)))
	for name, test := range map[string]struct {
		program []string
		plain   []byte
		shrinks bool
	}{
		"a.gz":    {[]string{"gzip", "-9", "-c"}, digits, false},
		"a.zst":   {[]string{"zstd", "-q", "-c"}, digits, false},
		"same.gz": {[]string{"gzip", "-9", "-c"}, make([]byte, 256<<20), true},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := exec.LookPath(test.program[0]); err != nil {
				t.Skip("this machine has no", test.program[0])
			}
			command := exec.CommandContext(t.Context(), test.program[0], test.program[1:]...)
			command.Stdin = bytes.NewReader(test.plain)
			content, err := command.Output()
			if err != nil {
				t.Fatal(err)
			}
			source, destination := t.TempDir(), t.TempDir()
			file(t, source, name, content, 0o600)
			sent, received := move(t, source, destination)
			same(t, source, destination)
			c, d := sent.GetCompression(), received.GetDecompression()
			worked := c.GetSoftware().GetOperations() + d.GetSoftware().GetOperations()
			if test.shrinks && (worked == 0 || c.GetCompressedBytes() > c.GetUncompressedBytes()/2) ||
				!test.shrinks && (worked > 0 || c.GetReason() != string(policy.Incompressible)) {
				t.Errorf("%d bytes: compression %v, decompression %v", len(content), c, d)
			}
		})
	}
}

// The receiver is killed in the middle, and what it has is not sent again.
func TestCargoAsSourceResumes(t *testing.T) {
	source := t.TempDir()
	file(t, source, "large", text(1, 20<<20), 0o600)
	for _, form := range forms {
		rest := t.TempDir()
		move(t, source, rest, inForm(form))
		for _, to := range []cargo.Form{0, form} {
			destination := t.TempDir()
			_, _, err := try(t, 1, rest, destination, func(o *receive.Options, _ *pair) {
				m := newMachine(o.Destination, destination, 60)
				m.killed = true
				o.Destination = m
			}, fromForm(form), inForm(to))
			if err == nil {
				t.Fatal("the first attempt did not break")
			}
			sent, _, err := try(t, 2, rest, destination, nil, fromForm(form), inForm(to))
			if err != nil {
				t.Fatal(err)
			}
			if sent.GetProgress().GetResumedBytes() == 0 {
				t.Errorf("form %v to %v: nothing was resumed", form, to)
			}
			if to == 0 {
				same(t, source, destination)
			} else {
				rests(t, source, destination, form)
			}
		}
	}
}

// BenchmarkCargoAsSource is the CPU time that a sender takes to read and encode what rests and, in mode Never, the plain
// files.
func BenchmarkCargoAsSource(b *testing.B) {
	source, rest := b.TempDir(), b.TempDir()
	// One half does not shrink, and rests in stored blocks.
	file(b, source, "large", append(text(1, 32<<20), noise(1, 32<<20)...), 0o600)
	move(b, source, rest, inForm(cargo.Gzip), func(o *send.Options) {
		o.Policy = policy.Settings{Mode: policy.Always, Level: codec.Fast}
	})
	never := func(o *send.Options) { o.Policy.Mode = policy.Never }
	for _, from := range []struct {
		name, source string
		options      []sendOption
	}{
		{"Never", source, []sendOption{never}},
		{"AsItRests", rest, []sendOption{fromForm(cargo.Gzip), never}},
	} {
		b.Run(from.name, func(b *testing.B) {
			var nanos uint64
			for b.Loop() {
				sent, _ := move(b, from.source, b.TempDir(), from.options...)
				cpu := sent.GetCpu()
				nanos += cpu.GetReadNanos() + cpu.GetCompressNanos()
			}
			b.ReportMetric(float64(nanos)/1e6/float64(b.N), "read+compress-ms/op")
		})
	}
}
