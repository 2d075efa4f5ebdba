// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e && lifecycle

package e2e_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const releasedChart = "lighterage/charts/lighterage"

// TestReleaseFromRegistry upgrades two clusters from the previous state to a release that is in a registry, in the
// middle of traffic, after its signatures were verified there; chart and images are those of the verified digests. Then
// it installs the release in a cluster that has none.
func TestReleaseFromRegistry(t *testing.T) {
	previous, current := releases(t)
	registry, key := os.Getenv("RELEASE_REGISTRY"), os.Getenv("RELEASE_KEY")
	if registry == "" || key == "" {
		t.Fatal("RELEASE_REGISTRY and RELEASE_KEY say where the release is, and who signed it: run make test-release")
	}
	digests := verifiedRelease(t, registry, current.version, key)
	if _, err := verifyRelease(t, registry, current.version, anotherKey(t)); err == nil {
		t.Fatal("the release is verified with a key that did not sign it")
	}
	t.Setenv("CHART_PLAIN_HTTP", "yes")
	current.chart = "oci://" + registry + "/" + releasedChart + "@" + digests[releasedChart]
	current.digests = map[string]string{}
	for _, component := range []string{"manager", "gateway", "agent"} {
		current.digests[component] = digests["lighterage/"+component]
	}

	installIn(t, previous, west, east)
	f := beginTraffic(t)
	for _, c := range []*cluster{west, east} {
		c.install(t, current)
		if c == east {
			f.rolled(current)
		}
		f.goesOn("after the upgrade of " + c.name)
	}
	exchange(t, "after the upgrade of both")
	f.finish()

	west.uninstall(t)
	west.install(t, current)
	exchange(t, "after an installation from the registry")
}

// verifiedRelease returns the digests of a release in a registry, by repository.
func verifiedRelease(t *testing.T, registry, version, key string) map[string]string {
	t.Helper()
	out, err := verifyRelease(t, registry, version, key)
	if err != nil {
		t.Fatalf("verify %s in %s: %v\n%s", version, registry, err, out)
	}
	digests := map[string]string{}
	for line := range strings.Lines(out) {
		if repository, digest, ok := strings.Cut(strings.TrimSpace(line), "@"); ok {
			digests[repository] = digest
		}
	}
	if len(digests) != 4 {
		t.Fatalf("verified %v, want three images and the chart\n%s", digests, out)
	}
	return digests
}

func verifyRelease(t *testing.T, registry, version, key string) (string, error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "make", "--no-print-directory", "release-verify", "REGISTRY="+registry, //nolint:gosec // the test's own arguments
		"VERSION="+version, "KEY="+key)
	command.Dir = root
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	return string(out) + stderr.String(), err
}

// anotherKey is a public key that signed nothing.
func anotherKey(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	private, public := filepath.Join(dir, "private"), filepath.Join(dir, "public")
	for _, args := range [][]string{
		{"genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", private},
		{"pkey", "-in", private, "-pubout", "-out", public},
	} {
		if out, err := exec.CommandContext(t.Context(), "openssl", args...).CombinedOutput(); err != nil { //nolint:gosec // the test's own arguments
			t.Fatalf("openssl %s: %v\n%s", args[0], err, out)
		}
	}
	return public
}
