// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"sigs.k8s.io/yaml"
)

const testVersion = "v1.2.3-rc.1"

// newTree writes a clone with chart, definitions and changelog of this tree, and with small programs.
func newTree(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for _, name := range []string{"charts", "config/crd/bases"} {
		if err := os.CopyFS(filepath.Join(root, name), os.DirFS(filepath.Join("..", "..", name))); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"LICENSE", "CHANGELOG.md"} {
		content, err := os.ReadFile(filepath.Join("..", "..", name))
		if err != nil {
			t.Fatal(err)
		}
		writeText(t, filepath.Join(root, name), string(content))
	}
	writeText(t, filepath.Join(root, "go.mod"), "module "+modulePath+"\n\ngo 1.26.0\n")
	for _, c := range append(slices.Clone(components), programs...) {
		writeText(t, filepath.Join(root, c.pkg, "main.go"), "package main\n\nfunc main() { println(\""+c.name+"\") }\n")
	}
	git(t, root, "init", "--quiet")
	commit(t, root)
	return root
}

func writeText(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func git(t *testing.T, root string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", append([]string{
		"-C", root, "-c", "user.name=Test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false",
	}, args...)...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func commit(t *testing.T, root string) {
	t.Helper()
	git(t, root, "add", "--all")
	git(t, root, "commit", "--quiet", "--message", "a commit")
}

func newSigner(t *testing.T) signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return signer{key}
}

// newRelease is of small programs for few platforms.
func newRelease(t *testing.T, root string, s signer) *release {
	t.Helper()
	t.Setenv("SOURCE_DATE_EPOCH", "")
	r := &release{
		root: root, out: filepath.Join(t.TempDir(), testVersion), version: testVersion, registry: "registry.example/team",
		downloads: "https://downloads.example/" + testVersion, programs: programs, signer: s,
		platforms: []v1.Platform{{OS: "linux", Architecture: "amd64"}, {OS: "linux", Architecture: "s390x"}},
		pluginPlatforms: []v1.Platform{
			{OS: "linux", Architecture: "s390x"}, {OS: "darwin", Architecture: "arm64"},
		},
	}
	for _, c := range components {
		c.engines = false
		r.components = append(r.components, c)
	}
	return r
}

func built(t *testing.T, root string, s signer) string {
	t.Helper()
	r := newRelease(t, root, s)
	if err := r.build(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r.out
}

func TestRelease(t *testing.T) {
	key := newSigner(t)
	root := newTree(t)
	dir := built(t, root, key)
	found, err := verifyDirectory(dir, key.verifier())
	if err != nil {
		t.Fatal(err)
	}
	if want := git(t, root, "rev-parse", "HEAD"); found.version != testVersion || found.commit != want || !found.clean {
		t.Errorf("verified %+v, want %s of commit %s", found, testVersion, want)
	}
	if len(found.digests) != 4 {
		t.Errorf("verified %v, want three images and the chart", found.digests)
	}

	t.Run("Reproducible", func(t *testing.T) {
		clone := filepath.Join(t.TempDir(), "elsewhere")
		git(t, root, "clone", "--quiet", root, clone)
		again := built(t, clone, key)
		first, err := sumTree(dir)
		if err != nil {
			t.Fatal(err)
		}
		second, err := sumTree(again)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(first, second); diff != "" {
			t.Errorf("the same commit gave other files (-first +second):\n%s", diff)
		}
		for _, name := range []string{sumsFile, sumsSignature} {
			if !bytes.Equal(contentOf(t, filepath.Join(dir, name)), contentOf(t, filepath.Join(again, name))) {
				t.Errorf("%s differs", name)
			}
		}
	})
	t.Run("Chart", func(t *testing.T) { checkChart(t, dir, found.digests) })
	t.Run("Plugin", func(t *testing.T) { checkProgram(t, dir, pluginName, "darwin_arm64") })
	t.Run("Cargo", func(t *testing.T) {
		checkProgram(t, dir, "lighterage-cargo", "linux_s390x")
		if others, err := filepath.Glob(filepath.Join(dir, "lighterage-cargo_*_darwin_*")); err != nil || len(others) > 0 {
			t.Errorf("%q, %v", others, err)
		}
	})
	t.Run("Krew", func(t *testing.T) { checkKrew(t, dir) })
	t.Run("Definitions", func(t *testing.T) { checkDefinitions(t, dir) })
	t.Run("OpenSSL", func(t *testing.T) { checkOpenSSL(t, dir) })
	t.Run("Tampering", func(t *testing.T) { checkTampering(t, dir, key) })
	t.Run("Registry", func(t *testing.T) { checkRegistry(t, root, dir, key) })
}

func contentOf(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// unpacked returns the files of an archive, and the modes of those that are programs.
func unpacked(t *testing.T, path string) (files map[string]string, programs []string) {
	t.Helper()
	compressed, err := gzip.NewReader(bytes.NewReader(contentOf(t, path)))
	if err != nil {
		t.Fatal(err)
	}
	files = map[string]string{}
	for r := tar.NewReader(compressed); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files, programs
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[h.Name] = string(content)
		if h.Mode&0o111 != 0 {
			programs = append(programs, h.Name)
		}
	}
}

// checkChart: the digests in the chart are those of the images, and Artifact Hub is told of the same.
func checkChart(t *testing.T, dir string, digests map[string]v1.Hash) {
	t.Helper()
	files, _ := unpacked(t, filepath.Join(dir, "lighterage-1.2.3-rc.1.tgz"))
	var values struct {
		Image struct {
			Registry      string
			Digests       map[string]string
			Architectures []string
		}
	}
	if err := yaml.Unmarshal([]byte(files["lighterage/values.yaml"]), &values); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for _, c := range components {
		want[c.name] = digests["lighterage/"+c.name].String()
	}
	if diff := cmp.Diff(want, values.Image.Digests); diff != "" {
		t.Errorf("digests (-want +got):\n%s", diff)
	}
	if values.Image.Registry != "registry.example/team" ||
		!cmp.Equal(values.Image.Architectures, []string{"amd64", "s390x"}) {
		t.Errorf("values %+v", values.Image)
	}
	var metadata struct {
		Version, AppVersion string
		Annotations         map[string]string
	}
	if err := yaml.Unmarshal([]byte(files["lighterage/Chart.yaml"]), &metadata); err != nil {
		t.Fatal(err)
	}
	if metadata.Version != "1.2.3-rc.1" || metadata.AppVersion != testVersion {
		t.Errorf("versions %q and %q", metadata.Version, metadata.AppVersion)
	}
	for name, text := range map[string]string{
		"images": "registry.example/team/lighterage/agent@" + want["agent"], "license": "Apache-2.0",
		"crds": "name: transfers.lighterage.dev", "changes": "kind: added", "signKey": "/" + publicKeyFile,
		"prerelease": "true",
	} {
		if !strings.Contains(metadata.Annotations["artifacthub.io/"+name], text) {
			t.Errorf("annotation %s has no %q", name, text)
		}
	}
	if strings.Contains(files["lighterage/README.md"], "](../") {
		t.Error("the chart's README links to what is not in the archive")
	}
	if files["lighterage/LICENSE"] == "" {
		t.Error("the archive has no licence")
	}
}

func checkProgram(t *testing.T, dir, program, platform string) {
	t.Helper()
	files, programs := unpacked(t, filepath.Join(dir, program+"_v1.2.3-rc.1_"+platform+".tar.gz"))
	if names := slices.Sorted(maps.Keys(files)); !cmp.Equal(names, []string{"LICENSE", program}) ||
		!cmp.Equal(programs, []string{program}) {
		t.Errorf("the archive has %v, programs %v", names, programs)
	}
	var doc bom
	sbom := contentOf(t, filepath.Join(dir, program+"_v1.2.3-rc.1_"+platform+".cdx.json"))
	if err := json.Unmarshal(sbom, &doc); err != nil {
		t.Fatal(err)
	}
	if doc.Metadata.Component.Name != program || len(doc.Components) == 0 {
		t.Errorf("bill of materials %+v", doc)
	}
}

// checkKrew holds the manifest to the rules by which krew validates plugins, and to those of its index.
func checkKrew(t *testing.T, dir string) {
	t.Helper()
	var p krewPlugin
	if err := yaml.UnmarshalStrict(contentOf(t, filepath.Join(dir, krewManifestFile)), &p); err != nil {
		t.Fatal(err)
	}
	short := p.Spec.ShortDescription
	if p.APIVersion != "krew.googlecontainertools.github.com/v1alpha2" || p.Kind != "Plugin" ||
		p.Metadata.Name != "lighterage" || p.Spec.Version != testVersion || !semver.MatchString(p.Spec.Version) {
		t.Errorf("%s %s %s %s", p.APIVersion, p.Kind, p.Metadata.Name, p.Spec.Version)
	}
	if short == "" || len(short) > 50 || strings.ContainsAny(short, "\r\n") || strings.HasSuffix(short, ".") {
		t.Errorf("short description %q", short)
	}
	if len(p.Spec.Platforms) != 2 {
		t.Errorf("%d platforms, want 2", len(p.Spec.Platforms))
	}
	seen := map[string]bool{}
	for _, platform := range p.Spec.Platforms {
		labels := platform.Selector.MatchLabels
		if len(labels) != 2 || labels["os"] == "" || labels["arch"] == "" || seen[labels["os"]+labels["arch"]] {
			t.Errorf("selector %v", labels)
		}
		seen[labels["os"]+labels["arch"]] = true
		name := filepath.Base(platform.URI)
		if !strings.HasPrefix(platform.URI, "https://downloads.example/") ||
			!regexp.MustCompile(`^[a-f0-9]{64}$`).MatchString(platform.SHA256) ||
			platform.SHA256 != sum(contentOf(t, filepath.Join(dir, name))) {
			t.Errorf("%s has the checksum %s", platform.URI, platform.SHA256)
		}
		files, _ := unpacked(t, filepath.Join(dir, name))
		for _, f := range platform.Files {
			if files[f.From] == "" || f.To == "" {
				t.Errorf("%s has no file %s", name, f.From)
			}
		}
		if files[platform.Bin] == "" {
			t.Errorf("%s has no program %s", name, platform.Bin)
		}
	}
}

func checkDefinitions(t *testing.T, dir string) {
	t.Helper()
	kinds, err := filepath.Glob(filepath.Join("..", "..", crdDir, "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, document := range strings.Split(string(contentOf(t, filepath.Join(dir, crdsFile))), "---\n") {
		var o struct {
			Kind     string
			Metadata struct{ Name string }
		}
		if err := yaml.Unmarshal([]byte(document), &o); err != nil {
			t.Fatal(err)
		}
		if o.Kind == "CustomResourceDefinition" && o.Metadata.Name != "" {
			n++
		}
	}
	if n != len(kinds) || n == 0 {
		t.Errorf("%d definitions, want %d", n, len(kinds))
	}
}

// checkOpenSSL: users verify without any program of ours.
func checkOpenSSL(t *testing.T, dir string) {
	t.Helper()
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("openssl is missing")
	}
	verify := func(file string) error {
		cmd := exec.CommandContext(t.Context(), "openssl", "dgst", "-sha256", "-verify", publicKeyFile, "-signature",
			sumsSignature, file)
		cmd.Dir = dir
		return cmd.Run()
	}
	if err := verify(sumsFile); err != nil {
		t.Errorf("openssl does not verify %s: %v", sumsFile, err)
	}
	if err := verify(crdsFile); err == nil {
		t.Error("openssl verifies another file")
	}
}

// checkTampering changes one byte of each file, in turn.
func checkTampering(t *testing.T, dir string, key signer) {
	t.Helper()
	if _, err := verifyDirectory(dir, newSigner(t).verifier()); err == nil {
		t.Error("a release is verified with another key")
	}
	work := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(work, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	tampered := 0
	err := filepath.WalkDir(work, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		original, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(work, path)
		if err != nil {
			return err
		}
		for _, changed := range [][]byte{flip(original), original[:len(original)-1], append(slices.Clone(original), '\n')} {
			if err := os.WriteFile(path, changed, 0o600); err != nil {
				return err
			}
			if _, err := verifyDirectory(work, key.verifier()); err == nil {
				t.Errorf("%s was changed, and the release is verified", name)
			}
			tampered++
		}
		if err := os.Remove(path); err != nil {
			return err
		}
		if _, err := verifyDirectory(work, key.verifier()); err == nil {
			t.Errorf("%s was removed, and the release is verified", name)
		}
		return os.WriteFile(path, original, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
	if tampered < 3*20 {
		t.Errorf("only %d changes were tried", tampered)
	}
	if _, err := verifyDirectory(work, key.verifier()); err != nil {
		t.Errorf("what was put back is not verified: %v", err)
	}
	writeText(t, filepath.Join(work, "install.sh"), "#!/bin/sh\n")
	if _, err := verifyDirectory(work, key.verifier()); err == nil {
		t.Error("a file was added, and the release is verified")
	}
	if err := os.Remove(filepath.Join(work, "install.sh")); err != nil {
		t.Fatal(err)
	}
	checkReplaced(t, work, key)
}

func flip(content []byte) []byte {
	changed := slices.Clone(content)
	changed[len(changed)/2] ^= 1
	return changed
}

// checkReplaced: whoever has replaced a file and the checksums, but not the key, is noticed; and one who could have the
// checksums signed, and nothing else, is noticed by provenance and images.
func checkReplaced(t *testing.T, work string, key signer) {
	t.Helper()
	writeText(t, filepath.Join(work, crdsFile), "kind: List\n")
	resign(t, work, newSigner(t))
	if _, err := verifyDirectory(work, key.verifier()); err == nil {
		t.Error("checksums of another key are verified")
	}
	resign(t, work, key)
	if _, err := verifyDirectory(work, key.verifier()); err == nil || !strings.Contains(err.Error(), crdsFile) {
		t.Errorf("a file that the provenance does not cover: %v", err)
	}
}

// resign makes the checksums of what is there.
func resign(t *testing.T, dir string, key signer) {
	t.Helper()
	sums, err := sumTree(dir)
	if err != nil {
		t.Fatal(err)
	}
	text := ""
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		text += sums[name] + "  " + name + "\n"
	}
	signature, err := key.sign([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	writeText(t, filepath.Join(dir, sumsFile), text)
	writeText(t, filepath.Join(dir, sumsSignature), string(signature))
}

// TestReleaseRejects: nothing is built of what cannot become a release.
func TestReleaseRejects(t *testing.T) {
	key := newSigner(t)
	root := newTree(t)
	git(t, root, "tag", "v9.0.0-rc.1")
	writeText(t, filepath.Join(root, "later"), "a")
	commit(t, root)
	for name, c := range map[string]struct {
		change func(*release)
		want   string
	}{
		"no version":       {func(r *release) { r.version = "latest" }, "not a semantic version"},
		"no v":             {func(r *release) { r.version = "1.2.3" }, "not a semantic version"},
		"leading zero":     {func(r *release) { r.version = "v1.02.3" }, "not a semantic version"},
		"build metadata":   {func(r *release) { r.version = "v1.2.3+5" }, "not a semantic version"},
		"a line":           {func(r *release) { r.version = "v1.2.3\n" }, "not a semantic version"},
		"a URL":            {func(r *release) { r.registry = "https://registry.example" }, "host[:port]"},
		"it exists":        {func(r *release) { r.out = t.TempDir() }, "exists already"},
		"another tag":      {func(r *release) { r.version = "v9.0.0-rc.1" }, "check the tag out"},
		"no changes known": {func(r *release) { r.version = "v7.0.0" }, "no section [7.0.0]"},
		"no clone":         {func(r *release) { r.root = t.TempDir() }, "from a clone"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRelease(t, root, key)
			c.change(r)
			if err := r.build(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want one that says %q", err, c.want)
			}
		})
	}
	writeText(t, filepath.Join(root, "LICENSE"), "another")
	r := newRelease(t, root, key)
	if err := r.build(t.Context()); err == nil || !strings.Contains(err.Error(), "ALLOW_DIRTY=1") {
		t.Errorf("a tree with changes: %v", err)
	}
	r.allowDirty = true
	if err := r.build(t.Context()); err != nil {
		t.Fatal(err)
	}
	found, err := verifyDirectory(r.out, key.verifier())
	if err != nil || found.clean {
		t.Errorf("the provenance does not say that there were changes: %+v, %v", found, err)
	}
}

func TestReadSigner(t *testing.T) {
	dir := t.TempDir()
	key := newSigner(t)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key.key)
	if err != nil {
		t.Fatal(err)
	}
	sec1, err := x509.MarshalECPrivateKey(key.key)
	if err != nil {
		t.Fatal(err)
	}
	weak, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	other, err := x509.MarshalPKCS8PrivateKey(weak)
	if err != nil {
		t.Fatal(err)
	}
	long, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	ofRSA, err := x509.MarshalPKCS8PrivateKey(long)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		kind string
		der  []byte
		mode os.FileMode
		want string
	}{
		"pkcs8":     {"PRIVATE KEY", pkcs8, 0o600, ""},
		"sec1":      {"EC PRIVATE KEY", sec1, 0o400, ""},
		"open":      {"PRIVATE KEY", pkcs8, 0o644, "chmod 600"},
		"encrypted": {"ENCRYPTED PRIVATE KEY", pkcs8, 0o600, "is encrypted"},
		"sigstore":  {"ENCRYPTED SIGSTORE PRIVATE KEY", pkcs8, 0o600, "is encrypted"},
		"curve":     {"PRIVATE KEY", other, 0o600, "not an ECDSA key on P-256"},
		"rsa":       {"PRIVATE KEY", ofRSA, 0o600, "not an ECDSA key on P-256"},
		"garbage":   {"PRIVATE KEY", []byte("x"), 0o600, "openssl genpkey"},
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: c.kind, Bytes: c.der}), c.mode); err != nil {
			t.Fatal(err)
		}
		got, err := readSigner(path)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if err == nil && !got.key.Equal(key.key) {
			t.Errorf("%s: another key was read", name)
		}
	}
	for _, path := range []string{"", filepath.Join(dir, "absent")} {
		if _, err := readSigner(path); err == nil || !strings.Contains(err.Error(), "openssl genpkey") {
			t.Errorf("no key: %v, want one that says how to make it", err)
		}
	}
}

func TestParseChanges(t *testing.T) {
	const text = "# Changelog\n\nIntroduction.\n\n## [Unreleased]\n\n## [1.1.0] - 2026-11-01\n\nProse.\n\n### Added\n\n" +
		"- A thing: with\n  two lines.\n- Another.\n\n### Security\n\n- A hole.\n\n" +
		"## [1.0.0] - 2026-10-01\n\n### Fixed\n\n- Old.\n"
	want := []change{{"added", "A thing: with two lines."}, {"added", "Another."}, {"security", "A hole."}}
	if diff := cmp.Diff(want, parseChanges(text, "1.1.0")); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	for _, section := range []string{"Unreleased", "1.1", "2.0.0"} {
		if got := parseChanges(text, section); len(got) != 0 {
			t.Errorf("%s: %v", section, got)
		}
	}
}
