// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package agefile_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"

	"github.com/lighterage/lighterage/agent/agefile"
)

const chunk = 64 << 10

// rests is an encrypted file that counts what is fetched of it.
type rests struct {
	content []byte
	fetches int
	bytes   int64
}

func (r *rests) fetch(_ context.Context, offset, length int64) (io.ReadCloser, error) {
	if offset < 0 || length < 1 || offset+length > int64(len(r.content)) {
		return nil, fmt.Errorf("%d bytes at %d of %d", length, offset, len(r.content))
	}
	r.fetches, r.bytes = r.fetches+1, r.bytes+length
	return io.NopCloser(bytes.NewReader(r.content[offset : offset+length])), nil
}

func (r *rests) open(t *testing.T, identities ...age.Identity) (*agefile.File, error) {
	t.Helper()
	return agefile.Open(t.Context(), int64(len(r.content)), r.fetch, identities)
}

func (r *rests) read(t *testing.T, f *agefile.File, offset, length int64) ([]byte, error) {
	t.Helper()
	part, err := f.Range(t.Context(), r.fetch, offset, length)
	if err != nil {
		return nil, err
	}
	defer part.Close()
	return io.ReadAll(part)
}

func random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(b)
	return b
}

func identity(t testing.TB) *age.X25519Identity {
	t.Helper()
	i, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func hybrid(t testing.TB) *age.HybridIdentity {
	t.Helper()
	i, err := age.GenerateHybridIdentity()
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func sealed(t testing.TB, plain []byte, to ...age.Recipient) *rests {
	t.Helper()
	b, err := agefile.Seal(plain, to...)
	if err != nil {
		t.Fatal(err)
	}
	return &rests{content: b}
}

// TestRanges reads parts of files whose lengths are at the borders of chunks, and compares with what the library reads.
func TestRanges(t *testing.T) {
	x, pq := identity(t), hybrid(t)
	for _, size := range []int{0, 1, 100, chunk - 1, chunk, chunk + 1, 3 * chunk, 5*chunk + 17} {
		for _, who := range []struct {
			to age.Recipient
			by age.Identity
		}{{x.Recipient(), x}, {pq.Recipient(), pq}} {
			plain := random(size)
			r := sealed(t, plain, who.to)
			library, err := age.Decrypt(bytes.NewReader(r.content), who.by)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(library); err != nil || !bytes.Equal(got, plain) {
				t.Fatalf("the library reads %d bytes of %d: %v", len(got), size, err)
			}
			f, err := r.open(t, who.by)
			if err != nil || f.Size() != int64(size) {
				t.Fatalf("%d bytes: %v", size, err)
			}
			for _, at := range []int{0, 1, chunk - 1, chunk, 2*chunk + 5, size - 1, size} {
				for _, length := range []int{0, 1, 2, chunk, chunk + 1, 2 * chunk, size - at} {
					if at < 0 || length < 0 || at+length > size {
						continue
					}
					got, err := r.read(t, f, int64(at), int64(length))
					if err != nil || !bytes.Equal(got, plain[at:at+length]) {
						t.Fatalf("%d bytes at %d of %d: got %d: %v", length, at, size, len(got), err)
					}
				}
			}
			if _, err := r.read(t, f, int64(size), 1); err == nil {
				t.Errorf("a byte behind the end of %d was read", size)
			}
		}
	}
}

// TestFetchesFewChunks has a part of a file fetched, with nothing but the chunks that have it.
func TestFetchesFewChunks(t *testing.T) {
	x := identity(t)
	plain := random(100 * chunk)
	r := sealed(t, plain, x.Recipient())
	f, err := r.open(t, x)
	if err != nil || r.fetches != 2 || r.bytes > 32<<10+chunk+16 {
		t.Fatalf("opening took %d fetches of %d bytes: %v", r.fetches, r.bytes, err)
	}
	for _, c := range []struct{ offset, length, fetches, chunks int64 }{
		{50*chunk + 5, 10, 1, 1}, {50*chunk - 5, 10, 1, 2}, {chunk, 3 * chunk, 1, 3}, {99 * chunk, chunk, 0, 0},
		{98 * chunk, 2 * chunk, 1, 1},
	} {
		r.fetches, r.bytes = 0, 0
		got, err := r.read(t, f, c.offset, c.length)
		if err != nil || !bytes.Equal(got, plain[c.offset:c.offset+c.length]) {
			t.Fatalf("%+v: %v", c, err)
		}
		if int64(r.fetches) != c.fetches || r.bytes != c.chunks*(chunk+16) {
			t.Errorf("%+v took %d fetches of %d bytes", c, r.fetches, r.bytes)
		}
	}
}

// TestKeys has a key read what is encrypted to it beside recipients of each kind, who read it as well.
func TestKeys(t *testing.T) {
	key, other := agefile.Key{1}, agefile.Key{2}
	x, pq := identity(t), hybrid(t)
	for name, c := range map[string]struct {
		to age.Recipient
		by age.Identity
	}{"X25519": {x.Recipient(), x}, "Hybrid": {pq.Recipient(), pq}} {
		r := sealed(t, []byte("a secret"), c.to, key.Beside([]age.Recipient{c.to}))
		for _, by := range []age.Identity{c.by, key} {
			f, err := r.open(t, by)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if got, err := r.read(t, f, 0, f.Size()); err != nil || string(got) != "a secret" {
				t.Errorf("%s: %q, %v", name, got, err)
			}
		}
		if _, err := r.open(t, other); !errors.Is(err, agefile.ErrIdentity) {
			t.Errorf("%s: another key: %v", name, err)
		}
	}
	alone := sealed(t, []byte("a secret"), key)
	if _, err := alone.open(t, x); !errors.Is(err, agefile.ErrIdentity) {
		t.Errorf("an identity of nobody: %v", err)
	}
	if _, err := agefile.ParseKey(make([]byte, 31)); err == nil {
		t.Error("a short key was taken")
	}
}

// TestDamage has every byte of a short file, and the structure of a longer one, damaged: nothing wrong is read.
func TestDamage(t *testing.T) {
	x := identity(t)
	plain := random(300)
	whole := sealed(t, plain, x.Recipient()).content
	check := func(what string, content []byte) {
		t.Helper()
		r := &rests{content: content}
		f, err := r.open(t, x)
		if err == nil {
			var got []byte
			if got, err = r.read(t, f, 0, f.Size()); err == nil {
				t.Errorf("%s: %d bytes were read", what, len(got))
			}
		}
		if !errors.Is(err, agefile.ErrCorrupt) && !errors.Is(err, agefile.ErrIdentity) && !errors.Is(err, agefile.ErrPlain) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for i := range whole {
		flipped := bytes.Clone(whole)
		flipped[i] ^= 1
		check(fmt.Sprintf("byte %d flipped", i), flipped)
		check(fmt.Sprintf("cut at byte %d", i), whole[:i])
	}
	check("a byte behind the end", append(bytes.Clone(whole), 0))
	long := sealed(t, random(4*chunk), x.Recipient()).content
	begin := len(long) - 4*(chunk+16)
	check("without its last chunk", long[:begin+3*(chunk+16)])
	check("without a chunk in the middle", append(bytes.Clone(long[:begin+chunk+16]), long[begin+2*(chunk+16):]...))
	stanza := "-> X25519 " + strings.Repeat("A", 43) + "\n" + strings.Repeat("A", 43) + "\n"
	check("a header of 170 KiB", []byte(agefile.Magic+strings.Repeat(stanza, 2000)))
	check("plain", []byte("something else, which is long enough"))
}

// TestDamagedChunk has a chunk flipped: those beside it are still read.
func TestDamagedChunk(t *testing.T) {
	x := identity(t)
	plain := random(4 * chunk)
	r := sealed(t, plain, x.Recipient())
	r.content[len(r.content)-3*(chunk+16)+100] ^= 1 // in the second one
	f, err := r.open(t, x)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := r.read(t, f, 2*chunk, chunk); err != nil || !bytes.Equal(got, plain[2*chunk:3*chunk]) {
		t.Errorf("the chunk behind it: %v", err)
	}
	if _, err := r.read(t, f, chunk+7, 1); !errors.Is(err, agefile.ErrCorrupt) {
		t.Errorf("the chunk: %v", err)
	}
}

// TestErrorsOfFetches are passed on as they are.
func TestErrorsOfFetches(t *testing.T) {
	x, away := identity(t), errors.New("away")
	r := sealed(t, random(4*chunk), x.Recipient())
	for n := 1; n <= 3; n++ {
		left := n
		fetch := func(ctx context.Context, offset, length int64) (io.ReadCloser, error) {
			if left--; left == 0 {
				return nil, away
			}
			return r.fetch(ctx, offset, length)
		}
		f, err := agefile.Open(t.Context(), int64(len(r.content)), fetch, []age.Identity{x})
		if err == nil {
			_, err = f.Range(t.Context(), fetch, 0, 10)
		}
		if !errors.Is(err, away) {
			t.Errorf("fetch %d: %v", n, err)
		}
	}
}

func TestRecipients(t *testing.T) {
	x, pq := identity(t).Recipient().String(), hybrid(t).Recipient().String()
	for name, c := range map[string]struct {
		texts []string
		ok    bool
	}{
		"one":        {[]string{x}, true},
		"hybrid":     {[]string{pq, pq}, true},
		"mixed":      {[]string{x, pq}, false},
		"none":       {nil, false},
		"many":       {strings.Split(strings.Repeat(x+" ", 17), " ")[:17], false},
		"mistyped":   {[]string{x[:len(x)-1] + "b"}, false},
		"a comment":  {[]string{"# " + x}, false},
		"two lines":  {[]string{x + "\n" + x}, false},
		"private":    {[]string{identity(t).String()}, false},
		"empty text": {[]string{""}, false},
	} {
		if _, err := agefile.ParseRecipients(c.texts); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestIdentities has files of identities read, and no error quote what is in them.
func TestIdentities(t *testing.T) {
	x, pq := identity(t), hybrid(t)
	directory := t.TempDir()
	for name, c := range map[string]struct {
		content string
		count   int
	}{
		"keygen":   {"# created: now\n# public key: " + x.Recipient().String() + "\n" + x.String() + "\n", 1},
		"two":      {x.String() + "\n\n" + pq.String(), 2},
		"CRLF":     {x.String() + "\r\n", 1},
		"empty":    {"", 0},
		"secret":   {"AGE-SECRET-KEY-1TYPO-OF-A-SECRET\n", 0},
		"other":    {"hunter2\n", 0},
		"too long": {strings.Repeat("#\n", 40_000) + x.String(), 0},
	} {
		path := filepath.Join(directory, name)
		if err := os.WriteFile(path, []byte(c.content), 0o600); err != nil {
			t.Fatal(err)
		}
		all, err := agefile.ReadIdentities(path)
		if len(all) != c.count || (err == nil) != (c.count > 0) {
			t.Errorf("%s: %d identities, %v", name, len(all), err)
		}
		if err != nil && (!errors.Is(err, agefile.ErrIdentity) || strings.Contains(err.Error(), "TYPO") ||
			strings.Contains(err.Error(), "hunter")) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := agefile.ReadIdentities(filepath.Join(directory, "absent")); !errors.Is(err, agefile.ErrIdentity) {
		t.Errorf("an absent file: %v", err)
	}
}

// FuzzOpen opens and reads what others wrote, with a key: it fails or reads what was encrypted to that.
func FuzzOpen(f *testing.F) {
	key := agefile.Key{1}
	for _, size := range []int{0, 10, chunk + 1} {
		f.Add(sealed(f, random(size), key).content, int64(0), int64(size))
	}
	f.Add([]byte(agefile.Magic), int64(0), int64(1))
	f.Fuzz(func(t *testing.T, content []byte, offset, length int64) {
		r := &rests{content: content}
		opened, err := r.open(t, key)
		if err != nil {
			return
		}
		got, err := r.read(t, opened, offset, length)
		if err == nil && (int64(len(got)) != length || opened.Size() > int64(len(content))) {
			t.Errorf("%d bytes of %d at %d of %d", len(got), length, offset, opened.Size())
		}
	})
}
