// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build cosign

package main

import (
	"context"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// TestCosign: cosign accepts the signature and the provenance of each image and of the chart by the commands that
// docs/operations/install.md has. It rejects another key, and an image without a signature.
func TestCosign(t *testing.T) {
	program := toolProgram(t, "cosign", "CGO_ENABLED=0")
	key := newSigner(t)
	dir := built(t, newTree(t), key)
	to := newRegistry(t)
	if err := push(t, dir, to); err != nil {
		t.Fatal(err)
	}
	found, err := verifySource(to, testVersion, key.verifier())
	if err != nil {
		t.Fatal(err)
	}
	text, _, err := newSigner(t).verifier().pem()
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "other.pub")
	writeText(t, other, string(text))
	home := t.TempDir()
	cosign := func(arguments ...string) (string, error) {
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		cmd := exec.CommandContext(ctx, program, arguments...)
		// Sigstore's services cannot be reached, as behind a firewall.
		cmd.Env = []string{"HOME=" + home, "TUF_ROOT=" + home, "HTTPS_PROXY=http://127.0.0.1:1"}
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	by := func(public, command string, arguments ...string) []string {
		return append([]string{command, "--key", public, "--insecure-ignore-tlog=true"}, arguments...)
	}
	public := filepath.Join(dir, publicKeyFile)
	for repository, digest := range found.digests {
		image := to.registry + "/" + repository + "@" + digest.String()
		if out, err := cosign(by(public, "verify", image)...); err != nil {
			t.Errorf("verifying %s: %v\n%s", repository, err, out)
		}
		if out, err := cosign(by(public, "verify-attestation", "--type", "slsaprovenance1", image)...); err != nil {
			t.Errorf("verifying the provenance of %s: %v\n%s", repository, err, out)
		}
		if out, err := cosign(by(other, "verify", image)...); err == nil {
			t.Errorf("%s is verified with another key:\n%s", repository, out)
		}
		if out, err := cosign(by(other, "verify-attestation", "--type", "slsaprovenance1", image)...); err == nil {
			t.Errorf("the provenance of %s is verified with another key:\n%s", repository, out)
		}
		at, err := to.reference(repository, cosignTag(digest, "sig"))
		if err != nil {
			t.Fatal(err)
		}
		if out, err := cosign(by(public, "verify", at.String())...); err == nil {
			t.Errorf("what has no signature is verified:\n%s", out)
		}
	}
}
