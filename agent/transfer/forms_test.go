// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

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

var forms = []cargo.Form{cargo.Gzip, cargo.Zstd}

func inForm(f cargo.Form) sendOption { return func(o *send.Options) { o.Form = f } }

// expand returns the plain bytes of a file that rests, by a library that is none of ours.
func expand(form cargo.Form, rests []byte) ([]byte, error) {
	if form == cargo.Zstd {
		r, err := zstd.NewReader(bytes.NewReader(rests))
		if err != nil {
			return nil, err
		}
		defer r.Close()
		return io.ReadAll(r)
	}
	in := bytes.NewReader(rests)
	r, err := gzip.NewReader(in)
	if err != nil {
		return nil, err
	}
	r.Multistream(false) // A file is one member.
	plain, err := io.ReadAll(r)
	if err == nil && in.Len() > 0 {
		err = fmt.Errorf("%d bytes behind the member", in.Len())
	}
	return plain, err
}

// regular reports whether an entry of a listing is a file.
func regular(what string) bool {
	mode, _, _ := strings.Cut(what, " ")
	return len(mode) == len("100644") && strings.HasPrefix(mode, "10")
}

// atRest is listing for a destination whose files rest in a form: as if they were plain. It checks that every file has
// its index, and that this is right.
func atRest(t testing.TB, root string, form cargo.Form) map[string]string {
	t.Helper()
	all, indexes := make(map[string]string), 0
	for path, what := range listing(t, root) {
		if strings.HasPrefix(path, "kept") {
			continue // by a filter
		}
		if !regular(what) {
			all[path] = what
			continue
		}
		directory, name := filepath.Split(path)
		plain, ok := form.PlainName(name)
		switch {
		case !ok:
			t.Errorf("%q is no name of form %v", path, form)
			continue
		case name == form.IndexName(plain):
			indexes++
			continue
		}
		rests, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		content, err := expand(form, rests)
		if err != nil {
			t.Errorf("%q: %v", path, err)
		}
		var st unix.Stat_t
		if err := unix.Lstat(filepath.Join(root, path), &st); err != nil {
			t.Fatal(err)
		}
		all[directory+plain] = fmt.Sprintf("%o %d %d %x", st.Mode, st.Mtim.Nano(), len(content), sha256.Sum256(content))
		checkIndex(t, form, filepath.Join(root, directory, form.IndexName(plain)), rests, &st)
		indexes--
	}
	if indexes != 0 {
		t.Errorf("there are %d indexes too many", indexes)
	}
	return all
}

func checkIndex(t testing.TB, form cargo.Form, name string, rests []byte, of *unix.Stat_t) {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Error(err)
		return
	}
	index, err := cargo.ParseIndex(b)
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	r, err := cargo.NewReader(bytes.NewReader(rests), int64(len(rests)), index, engines.Default())
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	defer r.Close()
	if err := r.Scrub(t.Context(), true); err != nil || index.Form() != form {
		t.Errorf("%s of form %v: %v", name, index.Form(), err)
	}
	var st unix.Stat_t
	if err := unix.Lstat(name, &st); err != nil {
		t.Fatal(err)
	}
	if st.Mode&0o7777 != of.Mode&0o666 || st.Mtim != of.Mtim {
		t.Errorf("%s has mode %o and time %v, its file %o and %v", name, st.Mode, st.Mtim, of.Mode, of.Mtim)
	}
}

func rests(t testing.TB, source, destination string, form cargo.Form) {
	t.Helper()
	if diff := cmp.Diff(listing(t, source), atRest(t, destination, form)); diff != "" {
		t.Errorf("source (-) and what rests at the destination (+) differ:\n%s", diff)
	}
}

// noneInflated fails the test if a receiver inflated something.
func noneInflated(t testing.TB, received *wirev1.Report) {
	t.Helper()
	d := received.GetDecompression()
	if n := d.GetHardware().GetOperations() + d.GetSoftware().GetOperations(); n > 0 ||
		received.GetCpu().GetDecompressNanos() > 0 {
		t.Errorf("the receiver inflated %d blocks: %v", n, d)
	}
}

// A tree rests in a form, and other programs read it. The receiver inflates nothing. What has not changed is not sent
// again, and what has is.
func TestForms(t *testing.T) {
	t.Parallel()
	source := t.TempDir()
	mixedTree(t, source)
	for _, pair := range [][2]string{{"large", "linked"}, {"large", "src/3/linked"}, {"empty", "sorted/empty"}} {
		if err := os.Link(filepath.Join(source, pair[0]), filepath.Join(source, pair[1])); err != nil {
			t.Fatal(err)
		}
	}
	sparse := filepath.Join(source, "sparse")
	file(t, source, "sparse", nil, 0o600)
	if err := os.Truncate(sparse, 5<<20); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"sorted", "src/3", "."} {
		age(t, filepath.Join(source, dir), 5)
	}
	for _, form := range forms {
		for _, mode := range []policy.Mode{policy.Auto, policy.Always, policy.Never} {
			t.Run(fmt.Sprint(form, mode), func(t *testing.T) {
				t.Parallel()
				destination := t.TempDir()
				settings := func(o *send.Options) { o.Form, o.Policy.Mode = form, mode }
				sent, received := move(t, source, destination, settings)
				rests(t, source, destination, form)
				noneInflated(t, received)
				if p := sent.GetProgress(); p.Files != p.FilesTotal || p.Bytes != p.BytesTotal || p.HoleBytes+p.ReusedBytes > 0 {
					t.Errorf("progress is %v", p)
				}
				c := sent.GetCompression()
				if stored := c.GetCompressedBytes() > c.GetUncompressedBytes()/2; stored != (mode == policy.Never) {
					t.Errorf("compression is %v", c)
				}
				before := listing(t, destination)
				sent, _ = move(t, source, destination, settings)
				if p := sent.GetProgress(); p.UnchangedFiles != p.FilesTotal || p.UnchangedBytes != p.BytesTotal {
					t.Errorf("progress of the second run is %v", p)
				}
				if diff := cmp.Diff(before, listing(t, destination)); diff != "" {
					t.Errorf("the second run changed what rests:\n%s", diff)
				}
			})
		}
	}
}

// Programs of others read files that rest.
func TestFormsReadBack(t *testing.T) {
	source, plain := t.TempDir(), text(3, 3<<20+17)
	file(t, source, "a.csv", plain, 0o600)
	file(t, source, "none", nil, 0o600)
	const python = "import gzip,shutil,sys; shutil.copyfileobj(gzip.open(sys.argv[1]), sys.stdout.buffer)"
	for form, tools := range map[cargo.Form][][]string{
		cargo.Gzip: {{"zcat"}, {"python3", "-c", python}}, cargo.Zstd: {{"zstd", "-dcq"}, {"zstdcat"}},
	} {
		destination := t.TempDir()
		move(t, source, destination, inForm(form))
		for _, tool := range tools {
			t.Run(tool[0], func(t *testing.T) {
				program, err := exec.LookPath(tool[0])
				if err != nil {
					t.Skip(err)
				}
				for name, want := range map[string][]byte{"a.csv": plain, "none": nil} {
					arguments := append(slices.Clone(tool[1:]), filepath.Join(destination, form.Name(name)))
					got, err := exec.CommandContext(t.Context(), program, arguments...).Output()
					if err != nil || !bytes.Equal(got, want) {
						t.Errorf("%s: %d bytes of %d, %v", name, len(got), len(want), err)
					}
				}
			})
		}
	}
}

// Only what changed comes again; attributes alone are corrected in place. What lost its index, or has that of another
// file, comes again.
func TestFormsOfChangedFiles(t *testing.T) {
	t.Parallel()
	for _, form := range forms {
		t.Run(form.String(), func(t *testing.T) {
			t.Parallel()
			source, destination := t.TempDir(), t.TempDir()
			for i, name := range []string{"changed", "mode", "lost", "swapped", "torn", "stale", "same"} {
				file(t, source, name, text(i, 2<<20+i), 0o640)
			}
			move(t, source, destination, inForm(form))
			at := func(name string) string { return filepath.Join(destination, name) }
			file(t, source, "changed", text(99, 3<<20), 0o640)
			var errs []error
			errs = append(errs, os.Chmod(filepath.Join(source, "mode"), 0o600))
			errs = append(errs, os.Remove(at(form.IndexName("lost"))))
			other, err := os.ReadFile(at(form.IndexName("same")))
			errs = append(errs, err, os.WriteFile(at(form.IndexName("swapped")), other, 0o640))
			errs = append(errs, os.Truncate(at(form.Name("torn")), 1000))
			age(t, at(form.Name("torn")), 2<<20+4)
			errs = append(errs, os.WriteFile(at(form.IndexName("stale")), []byte("no index"), 0o640))
			if err := errors.Join(errs...); err != nil {
				t.Fatal(err)
			}
			sent, received := move(t, source, destination, inForm(form))
			rests(t, source, destination, form)
			noneInflated(t, received)
			if p := sent.GetProgress(); p.UnchangedFiles != 2 {
				t.Errorf("progress is %v", p)
			}
		})
	}
}

// Files that change while they are read rest as they are then.
func TestFormsOfFilesThatChangeWhileTheyAreRead(t *testing.T) {
	for _, form := range forms {
		source, destination := t.TempDir(), t.TempDir()
		for i, path := range []string{"a", "empties", "goes", "grows", "zz"} {
			file(t, source, path, text(i, 6<<20+i), 0o600)
		}
		in := func(path string) string { return filepath.Join(source, path) }
		changes := map[string]func() error{
			"grows":   func() error { return os.WriteFile(in("grows"), text(9, 9<<20), 0o600) },
			"empties": func() error { return os.Truncate(in("empties"), 0) },
			"goes":    func() error { return os.Remove(in("goes")) },
		}
		p := startReceiver(t, destination, touch(func(e *tree.Entry, times int) {
			if change := changes[e.Path]; change != nil && times == 0 {
				if err := change(); err != nil {
					t.Error(err)
				}
			}
		}))
		if _, err := p.send(t.Context(), t, source, atOnce, inForm(form), filtered(t, true, nil, nil)); err != nil {
			t.Fatal("send:", err)
		}
		if err := p.wait(t); err != nil {
			t.Fatal("receive:", err)
		}
		age(t, source, 1)
		age(t, destination, 1)
		rests(t, source, destination, form)
	}
}

// whole fails the test if something half has a name: each file that rests expands to a file of the source.
func whole(t *testing.T, source, destination string, form cargo.Form, when string) {
	t.Helper()
	for path, what := range listing(t, destination) {
		directory, name := filepath.Split(path)
		plain, ok := form.PlainName(name)
		if !regular(what) || strings.HasPrefix(path, tree.StagingName) ||
			ok && name == form.IndexName(plain) {
			continue
		}
		got, err := os.ReadFile(filepath.Join(destination, path))
		if err != nil {
			t.Fatal(err)
		}
		if got, err = expand(form, got); err != nil {
			t.Errorf("%s: %q: %v", when, path, err)
		}
		if want, err := os.ReadFile(filepath.Join(source, directory, plain)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %q has %d bytes instead of %d, %v", when, path, len(got), len(want), err)
		}
	}
}

// The receiver is killed, or loses its power, after any number of operations. Nothing half has a name when it was
// killed, the next attempt makes what rests equal, and what is sent twice is at most one interval for each stream.
func TestFormsSurviveAnyEnd(t *testing.T) {
	t.Parallel()
	const streams = 3
	source, size := resumable(t)
	for i, killed := range []bool{true, false} {
		form := forms[i]
		for _, verify := range []bool{true, false} {
			t.Run(fmt.Sprintf("%v/killed=%v/verify=%v", form, killed, verify), func(t *testing.T) {
				t.Parallel()
				settings := func(o *send.Options) { o.Verify, o.Streams, o.Form = verify, streams, form }
				resumed := uint64(0)
				for operations := 1; ; operations += 41 * sparsely {
					destination := t.TempDir()
					when := fmt.Sprintf("after %d operations", operations)
					_, first, err := try(t, 1, source, destination, func(o *receive.Options, _ *pair) {
						m := newMachine(o.Destination, destination, operations)
						m.killed = killed
						o.Destination = m
					}, settings)
					if err == nil {
						if operations < 100 {
							t.Errorf("there were only %d operations", operations)
						}
						break
					}
					if killed {
						whole(t, source, destination, form, when)
					}
					sent, received, err := try(t, 2, source, destination, nil, settings)
					if err != nil {
						t.Fatalf("%s: %v", when, err)
					}
					rests(t, source, destination, form)
					noneInflated(t, received)
					p, came := sent.GetProgress(), first.GetProgress()
					if p.Files != p.FilesTotal || p.Bytes != uint64(size) {
						t.Errorf("%s progress is %v", when, p)
					}
					kept := p.ResumedBytes + p.UnchangedBytes
					if again := int64(came.Bytes+came.PartialBytes) - int64(kept); again > streams<<20 {
						t.Errorf("%s %d bytes had come and %d of them were kept", when, came.Bytes+came.PartialBytes, kept)
					}
					resumed += p.ResumedBytes
				}
				if resumed == 0 && sparsely == 1 { // Few places may all be between large files.
					t.Error("nothing was ever resumed")
				}
			})
		}
	}
}

// A disk that does not keep what it was given is found without inflating.
func TestFormsVerify(t *testing.T) {
	source := t.TempDir()
	file(t, source, "a", noise(1, 3<<20), 0o600)
	for _, form := range forms {
		p := startReceiver(t, t.TempDir(), func(o *receive.Options) {
			o.Destination = corrupting{o.Destination, 2<<20 + 1000}
		})
		_, err := p.send(t.Context(), t, source, inForm(form))
		wantReason(t, p, err, wirev1.FailureReason_FAILURE_REASON_VERIFICATION_FAILED)
	}
}

// What was staged in one form, or in none, is not resumed in another.
func TestFormsDoNotMix(t *testing.T) {
	source := t.TempDir()
	file(t, source, "large", text(1, 20<<20), 0o600)
	for _, order := range [][2]cargo.Form{{0, cargo.Gzip}, {cargo.Gzip, cargo.Zstd}, {cargo.Zstd, 0}} {
		destination := t.TempDir()
		_, _, err := try(t, 1, source, destination, func(o *receive.Options, _ *pair) {
			m := newMachine(o.Destination, destination, 60)
			m.killed = true
			o.Destination = m
		}, inForm(order[0]))
		if err == nil {
			t.Fatal("the first attempt did not break")
		}
		sent, _, err := try(t, 2, source, destination, nil, inForm(order[1]))
		if err != nil {
			t.Fatal(err)
		}
		if n := sent.GetProgress().GetResumedBytes(); n != 0 {
			t.Errorf("%d bytes of form %v were resumed in form %v", n, order[0], order[1])
		}
		if order[1] == 0 {
			same(t, source, destination)
		} else {
			rests(t, source, destination, order[1])
		}
	}
}

// Whatever changes at the source and at the destination, a mirror in a form has what the source has, and what the
// filters exclude.
func TestFormsOfMirrors(t *testing.T) {
	t.Parallel()
	const trees uint64 = max(6/sparsely, 2)
	for seed := range trees {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			form := forms[seed%2]
			g := &gardener{t: t, rand: rand.New(rand.NewPCG(seed, 7))}
			source, destination := t.TempDir(), t.TempDir()
			allowEmpty := func(o *send.Options) { o.Mirror.AllowEmptySource = true }
			g.change(source, 30, seed%3 == 0)
			for round := range 5 {
				move(t, source, destination, filtered(t, true, nil, []string{"kept/"}), allowEmpty, inForm(form))
				got := atRest(t, destination, form)
				want := listing(t, source)
				delete(got, ".")
				delete(want, ".")
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("round %d: source (-) and what rests at the destination (+) differ:\n%s", round, diff)
				}
				if _, err := os.Stat(filepath.Join(destination, "kept", form.Name("x"))); round > 0 && err != nil {
					t.Error(err)
				}
				g.change(source, 12, seed%3 == 0)
				// What others leave there: plain files, directories and links with names of the form, what is excluded.
				file(t, destination, fmt.Sprintf("strays/plain-%d", round), []byte("1"), 0o600)
				file(t, destination, form.Name("stray"), []byte("2"), 0o600)
				file(t, destination, form.IndexName("stray"), []byte("3"), 0o600)
				file(t, destination, form.Name("directory")+"/a/b", []byte("4"), 0o600)
				file(t, destination, "kept/"+form.Name("x"), nil, 0o600)
				if _, err := os.Lstat(filepath.Join(destination, form.Name("link"))); errors.Is(err, fs.ErrNotExist) {
					link(t, destination, form.Name("link"), "nowhere")
				}
			}
		})
	}
}

// Names that have no place in a form fail the run by name, and nothing is written.
func TestFormsRejectNames(t *testing.T) {
	for name, lay := range map[string]func(t *testing.T, source string){
		"Directory": func(t *testing.T, source string) { file(t, source, "a.gz/b", nil, 0o600) },
		"Link":      func(t *testing.T, source string) { link(t, source, "latest.gz", "x") },
		"Index":     func(t *testing.T, source string) { link(t, source, ".a.gz.lgci", "x") },
		"TooLong":   func(t *testing.T, source string) { file(t, source, strings.Repeat("n", 247), nil, 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			source := t.TempDir()
			lay(t, source)
			p := startReceiver(t, t.TempDir())
			_, err := p.send(t.Context(), t, source, inForm(cargo.Gzip))
			wantReason(t, p, err, wirev1.FailureReason_FAILURE_REASON_FORM_UNSUPPORTED)
		})
	}
	source, destination := t.TempDir(), t.TempDir()
	file(t, source, "a", []byte("1"), 0o600)
	file(t, source, "a.gz", []byte("2"), 0o600)
	file(t, source, ".a.gz.lgci", []byte("3"), 0o600)
	file(t, source, strings.Repeat("n", 246), []byte("4"), 0o600)
	move(t, source, destination, inForm(cargo.Gzip))
	rests(t, source, destination, cargo.Gzip)
}

// formless is a receiver of an earlier release: it knows no forms.
type formless struct{ *receive.Receiver }

func (f formless) Session(stream wirev1.Receiver_SessionServer) error {
	return f.Receiver.Session(withoutForm{stream})
}

type withoutForm struct{ wirev1.Receiver_SessionServer }

func (s withoutForm) Recv() (*wirev1.SessionRequest, error) {
	m, err := s.Receiver_SessionServer.Recv()
	if b := m.GetBegin(); b != nil {
		b.Form = 0
	}
	return m, err
}

// A receiver of an earlier release is sent nothing, and the reason says so.
func TestFormsOfEarlierReceivers(t *testing.T) {
	source, destination := t.TempDir(), t.TempDir()
	file(t, source, "a", text(1, 2<<20), 0o600)
	p := startReceiver(t, destination)
	p.dialer = serve(t, formless{p.receiver}, &p.report.Wire)
	_, err := p.send(t.Context(), t, source, inForm(cargo.Gzip))
	if !failure.Is(err, wirev1.FailureReason_FAILURE_REASON_FORM_UNSUPPORTED) {
		t.Errorf("the sender ended with %v", err)
	}
	if err := p.wait(t); err == nil {
		t.Error("the receiver succeeded")
	}
	if names := names(t, destination); len(names) != 1 {
		t.Errorf("at the destination are %q", names)
	}
}

// An engine that makes whole streams only has its blocks rejected, not kept in a file that nothing reads.
func TestFormsWithoutJoinableBlocks(t *testing.T) {
	deflate, ok := engines.Default().Best(codec.Deflate, codec.Software, codec.Fast)
	if !ok {
		t.Fatal("no engine of deflate")
	}
	source := t.TempDir()
	file(t, source, "a", text(1, 2<<20), 0o600)
	p := startReceiver(t, t.TempDir())
	_, err := p.send(t.Context(), t, source, inForm(cargo.Gzip), func(o *send.Options) {
		o.Engines = codec.NewRegistry(notPartwise{deflate})
		o.Policy.Mode = policy.Always
	})
	wantReason(t, p, err, wirev1.FailureReason_FAILURE_REASON_INVALID_DATA)
}
