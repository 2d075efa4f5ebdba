// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"crypto/ed25519"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lighterage/lighterage/controllers/receipt"
)

// written are the files of a verifier, and a directory that the receipt is of.
type written struct{ receipt, sender, receiver, files string }

func writeReceiptFiles(t *testing.T) written {
	t.Helper()
	dir := t.TempDir()
	w := written{
		receipt: filepath.Join(dir, "receipt.json"), sender: filepath.Join(dir, "east.json"),
		receiver: filepath.Join(dir, "west.json"), files: filepath.Join(dir, "files"),
	}
	write := func(name string, text []byte) {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(w.files, "a", "x"), []byte("hello"))
	write(filepath.Join(w.files, "a.txt"), nil)
	write(filepath.Join(w.files, "lost+found", "no content"), nil)
	if err := os.Symlink("a/x", filepath.Join(w.files, "b")); err != nil {
		t.Fatal(err)
	}
	digest, err := digestDirectory(w.files, nil)
	if err != nil {
		t.Fatal(err)
	}
	now := receipt.At(time.Date(2026, 11, 23, 21, 0, 0, 0, time.UTC))
	party := func(key receipt.PrivateKey, cluster string) receipt.Party {
		return receipt.Party{
			Cluster: cluster, KeyID: key.ID(), StartTime: now, CompletionTime: now, SignedTime: now,
			Run:       receipt.Run{Namespace: "bank", Transfer: "ledger", ID: "7f3c1", Attempt: 2},
			Namespace: "bank", Claim: "led\x1bger", Path: "/",
			Scope:    receipt.ScopeAttempt,
			Contents: receipt.Contents{Format: receipt.ContentsFormat, SHA256: digest, Entries: 3, Bytes: 5},
		}
	}
	east := receipt.PrivateKey(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, ed25519.SeedSize)))
	west := receipt.PrivateKey(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{2}, ed25519.SeedSize)))
	own, theirs := receipt.Sender{Party: party(east, "east")}, receipt.Receiver{Party: party(west, "west")}
	envelope, err := receipt.Offer(own, theirs, east)
	if err != nil {
		t.Fatal(err)
	}
	if envelope, err = receipt.Countersign(envelope, theirs, west); err != nil {
		t.Fatal(err)
	}
	write(w.receipt, envelope)
	for file, key := range map[string]receipt.PrivateKey{w.sender: east, w.receiver: west} {
		set := receipt.KeySet{Keys: []receipt.PublicKey{{
			KeyID: key.ID(), Cluster: "east", NotBefore: receipt.At(now.Add(-time.Hour)),
			NotAfter: receipt.At(now.Add(time.Hour)),
		}}}
		text, err := set.Encode()
		if err != nil {
			t.Fatal(err)
		}
		write(file, text)
	}
	return w
}

func TestReceiptVerify(t *testing.T) {
	w := writeReceiptFiles(t)
	verify := func(more ...string) (string, error) {
		out, _, err := try(t, "", append([]string{
			"receipt", "verify", w.receipt, "--sender-keys", w.sender, "--receiver-keys", w.receiver,
		}, more...)...)
		return out, err
	}
	out, err := verify("--transfer", "bank/ledger", "--run", "7f3c1", "--directory", w.files)
	if err != nil || strings.ContainsRune(out, '\x1b') {
		t.Errorf("%q, %v", out, err)
	}
	// Both files of keys are of the cluster east, and the receiver calls itself west.
	if !strings.Contains(out, "2026-11-23T22:00:00Z") || strings.Count(out, "WARNING") != 1 ||
		!strings.Contains(out, `WARNING: the receipt names the receiver's cluster "west"`) {
		t.Errorf("%q", out)
	}
	manifest, _, err := try(t, "", "receipt", "manifest", w.files)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "manifest")
	if err := os.WriteFile(file, []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := verify("--manifest", file); err != nil {
		t.Error(err)
	}
	for name, more := range map[string][]string{
		"another Transfer":  {"--transfer", "bank/other"},
		"another run":       {"--run", "7f3c2"},
		"another manifest":  {"--manifest", w.receipt},
		"another directory": {"--directory", t.TempDir()},
		"no directory":      {"--directory", filepath.Join(w.files, "nothing")},
		"swapped keys":      {"--sender-keys", w.receiver, "--receiver-keys", w.sender},
		"no keys":           {"--sender-keys", w.receipt},
	} {
		if out, err := verify(more...); err == nil || out != "" {
			t.Errorf("%s: %q, %v", name, out, err)
		}
	}
	if err := os.WriteFile(filepath.Join(w.files, "a", "x"), []byte("jello"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := verify("--directory", w.files); err == nil {
		t.Error("a file that differs")
	}
	if _, _, err := try(t, "", "receipt", "verify", w.receipt); err == nil || ExitCode(err) != 2 {
		t.Errorf("without anchors: %v", err)
	}
}

func TestReceiptShow(t *testing.T) {
	w := writeReceiptFiles(t)
	envelope, err := os.ReadFile(w.receipt)
	if err != nil {
		t.Fatal(err)
	}
	for output, want := range map[string]string{"text": "7f3c1", "json": receipt.PredicateType, "yaml": "predicateType"} {
		out, _, err := try(t, "", "receipt", "show", "--file", w.receipt, "-o", output)
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("%s: %q, %v", output, out, err)
		}
	}
	if out, _, err := try(t, "", "receipt", "show", "--file", w.receipt, "-o", "envelope"); err != nil ||
		out != string(envelope) {
		t.Errorf("%q, %v", out, err)
	}
	if err := os.WriteFile(w.receipt, envelope[:len(envelope)-9], 0o600); err != nil {
		t.Fatal(err)
	}
	if out, _, err := try(t, "", "receipt", "show", "--file", w.receipt); err == nil {
		t.Errorf("what is no receipt: %q", out)
	}
}
