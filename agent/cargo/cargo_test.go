// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package cargo_test

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/zeebo/xxh3"

	"github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/codectest"
	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/agent/frame"
	"github.com/lighterage/lighterage/agent/policy"
)

var forms = map[cargo.Form]codec.ID{cargo.Gzip: codec.Deflate, cargo.Zstd: codec.Zstd}

// wireBlock is a block as it travels.
type wireBlock struct {
	header  frame.Header
	payload []byte
	plain   []byte
}

// accelerators are engines that this build has besides those of engines.All.
var accelerators []codec.Engine

// travel makes a block of each piece, by one engine and level after the other. Noise is stored.
func travel(t testing.TB, form cargo.Form, pieces ...[]byte) []wireBlock {
	t.Helper()
	var encoders []*frame.Encoder
	for _, engine := range codec.NewRegistry(append(accelerators, engines.All()...)...).ForCodec(forms[form]) {
		for _, level := range codec.Levels() {
			if engine.HasLevel(level) {
				encoders = append(encoders, blockEncoder(t, engine, level, true))
			}
		}
	}
	blocks := make([]wireBlock, 0, len(pieces))
	for i, plain := range pieces {
		blocks = append(blocks, encode(t, encoders[i%len(encoders)], plain))
	}
	return blocks
}

func blockEncoder(t testing.TB, engine codec.Engine, level codec.Level, joinable bool) *frame.Encoder {
	t.Helper()
	e, err := frame.NewEncoder(frame.EncoderOptions{
		Engines: codec.NewRegistry(engine), Codec: engine.Codec(), Joinable: joinable,
		Policy: policy.Settings{Mode: policy.Always, Level: level},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

func encode(t testing.TB, e *frame.Encoder, plain []byte) wireBlock {
	t.Helper()
	header, payload, _, err := e.Next(nil, plain, false)
	if err != nil {
		t.Fatal(err)
	}
	h, err := frame.ParseHeader(header)
	if err != nil {
		t.Fatal(err)
	}
	return wireBlock{h, bytes.Clone(payload), plain}
}

// pieces are of all kinds and lengths, some of which do not shrink.
func pieces(lengths ...int) [][]byte {
	var all [][]byte
	for i, n := range lengths {
		corpora := codectest.Corpora()
		all = append(all, corpora[i%len(corpora)].Generate(n))
	}
	return all
}

// rest writes a file.
func rest(t testing.TB, form cargo.Form, blocks []wireBlock) ([]byte, *cargo.Index) {
	t.Helper()
	var file bytes.Buffer
	w := cargo.NewWriter(&file, form)
	for _, b := range blocks {
		if err := w.Append(b.header, b.payload); err != nil {
			t.Fatal(err)
		}
	}
	index, err := w.Close()
	if err != nil {
		t.Fatal(err)
	}
	return file.Bytes(), index
}

func reader(t testing.TB, file []byte, index *cargo.Index) *cargo.Reader {
	t.Helper()
	r, err := cargo.NewReader(bytes.NewReader(file), int64(len(file)), index, engines.Default())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// standard expands a file as others do.
func standard(form cargo.Form, file []byte) ([]byte, error) {
	if form == cargo.Zstd {
		d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(64<<20))
		if err != nil {
			return nil, err
		}
		defer d.Close()
		return d.DecodeAll(file, nil)
	}
	rest := bytes.NewReader(file)
	r, err := gzip.NewReader(rest)
	if err != nil {
		return nil, err
	}
	r.Multistream(false)
	plain, err := io.ReadAll(r)
	if err == nil && rest.Len() > 0 {
		err = fmt.Errorf("%d bytes follow the first member", rest.Len())
	}
	return plain, err
}

var files = map[string][][]byte{
	"Empty":   nil,
	"Nothing": {nil, {}},
	"Byte":    {{7}},
	"Small":   pieces(1, 2, 3, 50, 300, 0, 4000, 5000),
	"Large": pieces(
		70_000, 1<<20, 65_535, 65_536, 300_000, 131_072, 131_073, 1<<20, 1<<16, 5, 1<<20, 1<<20, 200_000, 1<<20, 4<<20, 100,
	),
	"Noise": {noise(1), noise(65_535), noise(65_536), noise(1 << 20), noise(131_072), noise(131_073), noise(4 << 20)},
	// What looks like the end of a block and is none.
	"Flushes": {
		[]byte("\x00\x00\xff\xff"), bytes.Repeat([]byte("\x00\x00\xff\xff"), 100),
		splice(noise(200_000), "\x00\x00\xff\xff\x03\x00"), splice(noise(1<<20), "\x00\x00\x00\xff\xff"),
	},
}

func noise(n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{byte(n)}).Read(b)
	return b
}

// splice writes s over b here and there.
func splice(b []byte, s string) []byte {
	for at := 0; at+len(s) <= len(b); at += 997 {
		copy(b[at:], s)
	}
	return b
}

// TestFile: a file is what others read, what its index says, and what Rebuild finds.
func TestFile(t *testing.T) {
	for form := range forms {
		for name, pieces := range files {
			t.Run(fmt.Sprintf("%v/%s", form, name), func(t *testing.T) {
				plain := bytes.Join(pieces, nil)
				file, index := rest(t, form, travel(t, form, pieces...))
				if got, err := standard(form, file); err != nil || !bytes.Equal(got, plain) {
					t.Fatalf("%d bytes expand to %d instead of %d: %v", len(file), len(got), len(plain), err)
				}
				if index.Size() != int64(len(plain)) || index.StoredSize() != int64(len(file)) || index.Form() != form {
					t.Errorf("%v, %d bytes in %d, of a file of %d in %d", index.Form(), index.Size(), index.StoredSize(), len(plain),
						len(file))
				}
				parsed, err := cargo.ParseIndex(index.Append(nil))
				if err != nil {
					t.Fatal(err)
				}
				rebuilt, err := cargo.Rebuild(t.Context(), bytes.NewReader(file), engines.Default())
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(rebuilt.Append(nil), index.Append(nil)) {
					t.Errorf("the index that was made again has %d blocks, the first one %d", rebuilt.Blocks(), index.Blocks())
				}
				r := reader(t, file, parsed)
				for _, inflate := range []bool{false, true} {
					ranges(t, r, plain)
					if err := r.Scrub(t.Context(), inflate); err != nil {
						t.Errorf("scrub, inflating: %v: %v", inflate, err)
					}
				}
				// A scrub leaves no other block in the place of the one that was read last.
				if n := len(plain); n > 0 {
					for range 2 {
						last := make([]byte, 1)
						if _, err := r.ReadAt(last, 0); err != nil || last[0] != plain[0] {
							t.Errorf("the first byte after a scrub: %x, %v", last, err)
						}
						if err := r.Scrub(t.Context(), true); err != nil {
							t.Error(err)
						}
					}
				}
			})
		}
	}
}

// ranges reads parts of a file, and all of it.
func ranges(t *testing.T, r *cargo.Reader, plain []byte) {
	t.Helper()
	random := rand.New(rand.NewPCG(1, uint64(len(plain))))
	for range 100 {
		at := random.IntN(len(plain) + 2)
		want := plain[min(at, len(plain)):]
		n := min(random.IntN(200_000), len(want)+1)
		got := make([]byte, n)
		m, err := r.ReadAt(got, int64(at))
		if whole := n <= len(want); whole != (err == nil) || !whole && !errors.Is(err, io.EOF) ||
			!bytes.Equal(got[:m], want[:min(n, len(want))]) {
			t.Fatalf("%d bytes at %d of %d: %d, %v", n, at, len(plain), m, err)
		}
	}
	if _, err := r.ReadAt(make([]byte, 1), -1); err == nil {
		t.Error("a negative offset")
	}
	if got, err := io.ReadAll(io.NewSectionReader(r, 0, int64(len(plain)))); err != nil || !bytes.Equal(got, plain) {
		t.Errorf("all: %d bytes of %d, %v", len(got), len(plain), err)
	}
}

// javaReader expands a gzip file that comes through a stream which does not say that more will come, as those of
// networks may not. Of several members some releases of Java then read the first ones only.
const javaReader = `
import java.io.*;
import java.util.zip.GZIPInputStream;

public class Reader {
	public static void main(String[] args) throws IOException {
		InputStream file = new FilterInputStream(new FileInputStream(args[0])) {
			@Override public int available() { return 0; }
		};
		new GZIPInputStream(file).transferTo(System.out);
		System.out.flush();
	}
}
`

// missing skips a test that needs a program of others, unless all are to be there.
func missing(t *testing.T, program string) {
	t.Helper()
	if os.Getenv("CARGO_READERS") == "all" {
		t.Fatalf("this machine has no %s, and CARGO_READERS is all", program)
	}
	t.Skip("this machine has no", program)
}

// TestTools: programs of others read the files.
func TestTools(t *testing.T) {
	pieces := files["Large"]
	if testing.Short() {
		pieces = files["Small"]
	}
	java := filepath.Join(t.TempDir(), "Reader.java")
	if err := os.WriteFile(java, []byte(javaReader), 0o600); err != nil {
		t.Fatal(err)
	}
	var served atomic.Pointer[[]byte]
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(*served.Load())
	}))
	defer server.Close()
	const python = "import gzip,shutil,sys; shutil.copyfileobj(gzip.open(sys.argv[1]), sys.stdout.buffer)"
	for form, tools := range map[cargo.Form][][]string{
		cargo.Gzip: {
			{"zcat"}, {"gzip", "-dc"}, {"pigz", "-dc"}, {"igzip", "-dc"}, {"python3", "-c", python}, {"bsdcat"},
			{"node", "-e", "process.stdout.write(require('zlib').gunzipSync(require('fs').readFileSync(process.argv[1])))"},
			{"java", java},
			{"curl", "-sS", "--compressed", server.URL, "--referer"}, // the name is its referer
		},
		cargo.Zstd: {{"zstd", "-dc"}, {"zstdcat"}, {"bsdcat"}},
	} {
		file, _ := rest(t, form, travel(t, form, pieces...))
		served.Store(&file)
		name := filepath.Join(t.TempDir(), map[cargo.Form]string{cargo.Gzip: "a.gz", cargo.Zstd: "a.zst"}[form])
		if err := os.WriteFile(name, file, 0o600); err != nil {
			t.Fatal(err)
		}
		for _, tool := range tools {
			t.Run(fmt.Sprintf("%v/%s", form, tool[0]), func(t *testing.T) {
				program, err := exec.LookPath(tool[0])
				if err == nil && tool[0] == "java" {
					_, err = exec.LookPath("javac") // a file with source needs a compiler
				}
				if err != nil {
					missing(t, tool[0])
				}
				var stderr bytes.Buffer
				command := exec.CommandContext(t.Context(), program, append(slices.Clone(tool[1:]), name)...)
				command.Stderr = &stderr
				got, err := command.Output()
				if want := bytes.Join(pieces, nil); err != nil || stderr.Len() > 0 || !bytes.Equal(got, want) {
					t.Errorf("%d bytes instead of %d, %v, %s", len(got), len(want), err, &stderr)
				}
			})
		}
	}
}

// TestWriterRejects: a block that the form does not take, or that is not what its header says as far as that shows,
// leaves the file as it was.
func TestWriterRejects(t *testing.T) {
	deflate, ok := engines.Default().Best(codec.Deflate, codec.Software, codec.Fast)
	if !ok {
		t.Fatal("no engine of deflate")
	}
	text := pieces(0, 5000)[1]
	apart := encode(t, blockEncoder(t, deflate, codec.Fast, false), text)
	gz, zst := travel(t, cargo.Gzip, text)[0], travel(t, cargo.Zstd, text)[0]
	stored := travel(t, cargo.Gzip, noise(300))[0]
	change := func(b wireBlock, f func(*wireBlock)) wireBlock {
		b.payload = bytes.Clone(b.payload)
		f(&b)
		return b
	}
	for name, test := range map[string]struct {
		form  cargo.Form
		block wireBlock
		want  error
	}{
		"not joinable":      {cargo.Gzip, apart, cargo.ErrForm},
		"zstd in gzip":      {cargo.Gzip, zst, cargo.ErrForm},
		"deflate in zstd":   {cargo.Zstd, gz, cargo.ErrForm},
		"says joinable":     {cargo.Gzip, change(apart, func(b *wireBlock) { b.header.Joinable = true }), frame.ErrPayload},
		"payload cut":       {cargo.Gzip, change(gz, func(b *wireBlock) { b.payload = b.payload[1:] }), frame.ErrHeader},
		"payload in vain":   {cargo.Zstd, change(zst, func(b *wireBlock) { b.payload[0]++ }), frame.ErrPayload},
		"other length":      {cargo.Zstd, change(zst, func(b *wireBlock) { b.header.PlainLen++ }), frame.ErrPayload},
		"stored, damaged":   {cargo.Gzip, change(stored, func(b *wireBlock) { b.payload[7]++ }), frame.ErrChecksum},
		"stored, damaged 2": {cargo.Zstd, change(stored, func(b *wireBlock) { b.payload[7]++ }), frame.ErrChecksum},
		"too long": {
			cargo.Gzip, change(gz, func(b *wireBlock) { b.header.PlainLen = frame.MaxPlain + 1 }), frame.ErrHeader,
		},
	} {
		t.Run(name, func(t *testing.T) {
			good := travel(t, test.form, text)[0]
			want, _ := rest(t, test.form, []wireBlock{good, good})
			var file bytes.Buffer
			w := cargo.NewWriter(&file, test.form)
			for range 2 {
				if err := w.Append(test.block.header, test.block.payload); !errors.Is(err, test.want) {
					t.Errorf("got %v, want %v", err, test.want)
				}
				if err := w.Append(good.header, good.payload); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := w.Close(); err != nil || !bytes.Equal(file.Bytes(), want) {
				t.Errorf("a file of %d bytes instead of %d, %v", file.Len(), len(want), err)
			}
		})
	}
}

// failing is a file that is full.
type failing struct{ space int }

var errFull = errors.New("full")

func (f *failing) Write(p []byte) (int, error) {
	n := min(len(p), f.space)
	if f.space -= n; n < len(p) {
		return n, errFull
	}
	return n, nil
}

func TestFullDisk(t *testing.T) {
	for form := range forms {
		blocks := travel(t, form, files["Small"]...)
		file, _ := rest(t, form, blocks)
		for space := range file {
			w := cargo.NewWriter(&failing{space: space}, form)
			var err error
			for _, b := range blocks {
				if err = w.Append(b.header, b.payload); err != nil {
					break
				}
			}
			if _, closed := w.Close(); !errors.Is(closed, errFull) || err != nil && !errors.Is(err, errFull) {
				t.Fatalf("%v in %d bytes: %v, then %v", form, space, err, closed)
			}
		}
	}
}

// reindexed changes bytes of an index and makes its checksum fit again.
func reindexed(index *cargo.Index, change func([]byte)) []byte {
	b := index.Append(nil)
	change(b)
	return sign(b[:len(b)-8])
}

// sign appends the checksum of an index.
func sign(body []byte) []byte { return binary.BigEndian.AppendUint64(body, xxh3.Hash(body)) }
