// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"context"
	"encoding/json"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

var testComponent = component{name: "manager", pkg: "./cmd", description: "A test"}

// newModule writes a module with one program and returns its root.
func newModule(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for name, content := range map[string]string{
		"go.mod":      "module " + modulePath + "\n\ngo 1.26.0\n",
		"cmd/main.go": "package main\n\nfunc main() { println(\"hello\") }\n",
	} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// TestPublish builds for two platforms, pushes to a registry and looks at what a client pulls.
func TestPublish(t *testing.T) {
	server := httptest.NewServer(
		registry.New(registry.Logger(log.New(io.Discard, "", 0)), registry.WithReferrersSupport(true)),
	)
	defer server.Close()
	platforms, err := parsePlatforms("linux/amd64,linux/s390x")
	if err != nil {
		t.Fatal(err)
	}
	p := &publisher{}
	ref, err := p.reference(strings.TrimPrefix(server.URL, "http://"), testComponent.name, "v1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := p.present(ref, platforms); ok {
		t.Error("an empty registry has the image")
	}
	root := newModule(t)
	digest, err := publish(context.Background(), p, ref, root, t.TempDir(), testComponent, "v1.2.3", platforms)
	if err != nil {
		t.Fatal(err)
	}
	if got, ok := p.present(ref, platforms); !ok || got != digest {
		t.Errorf("present() = %v, %v after the push of %v", got, ok, digest)
	}
	if _, ok := p.present(ref, []v1.Platform{{OS: "linux", Architecture: "arm64"}}); ok {
		t.Error("present() finds a platform that was not pushed")
	}
	again, err := publish(context.Background(), p, ref, root, t.TempDir(), testComponent, "v1.2.3", platforms)
	if err != nil {
		t.Fatal(err)
	}
	if again != digest {
		t.Errorf("the same source gave %v, then %v", digest, again)
	}

	for _, platform := range platforms {
		img, err := remote.Image(ref, remote.WithPlatform(platform))
		if err != nil {
			t.Fatal(err)
		}
		cfg, err := img.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if cfg.Architecture != platform.Architecture || cfg.Config.User != "65532:65532" ||
			!cmp.Equal(cfg.Config.Entrypoint, []string{"/manager"}) {
			t.Errorf("%s: configuration %+v", platform, cfg)
		}
		checkContent(t, img)
		checkReferrer(t, ref.Context().Digest(mustDigest(t, img).String()).String(), platform)
	}
}

func mustDigest(t *testing.T, img v1.Image) v1.Hash {
	t.Helper()
	d, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func checkContent(t *testing.T, img v1.Image) {
	t.Helper()
	layers, err := img.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, %v; want 1", len(layers), err)
	}
	content, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	got := map[string]int64{}
	for r := tar.NewReader(content); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got[h.Name] = h.Mode
		if h.ModTime.Unix() != 0 {
			t.Errorf("%s has time %v: the image is not reproducible", h.Name, h.ModTime)
		}
	}
	if diff := cmp.Diff(map[string]int64{"etc/": 0o755, "etc/passwd": 0o644, "manager": 0o755}, got); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

// checkReferrer finds the bill of materials by the image's digest.
func checkReferrer(t *testing.T, image string, platform v1.Platform) {
	t.Helper()
	p := &publisher{}
	repository, digest, _ := strings.Cut(image, "@")
	ref, err := p.reference(strings.TrimSuffix(repository, "/lighterage/manager"), "manager", "x")
	if err != nil {
		t.Fatal(err)
	}
	index, err := remote.Referrers(ref.Context().Digest(digest))
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(manifest.Manifests) != 1 || manifest.Manifests[0].ArtifactType != string(sbomMediaType) {
		t.Fatalf("%s: referrers %+v", platform, manifest.Manifests)
	}
	artifact, err := remote.Image(ref.Context().Digest(manifest.Manifests[0].Digest.String()))
	if err != nil {
		t.Fatal(err)
	}
	layers, err := artifact.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, %v", len(layers), err)
	}
	r, err := layers[0].Compressed()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var doc bom
	if err := json.NewDecoder(r).Decode(&doc); err != nil {
		t.Fatal(err)
	}
	if doc.Format != "CycloneDX" || doc.Metadata.Component.Version != "v1.2.3" || len(doc.Components) == 0 ||
		doc.Components[0].Name != "std" {
		t.Errorf("bill of materials %+v", doc)
	}
}

func TestSBOMNamesTheCLibraries(t *testing.T) {
	root := newModule(t)
	bin, err := build(
		context.Background(), root, t.TempDir(), testComponent, "v1", v1.Platform{OS: "linux", Architecture: "amd64"},
	)
	if err != nil {
		t.Fatal(err)
	}
	bin.libraries = []string{"zlib-ng@2.3.3", "isa-l@2.31.0+496255c"}
	text, err := newSBOM(testComponent, "v1", bin)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"pkg:github/zlib-ng/zlib-ng@2.3.3"`, `"2.31.0+496255c"`, `"pkg:github/intel/isa-l@v2.31.0"`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %s in %s", want, text)
		}
	}

	bin.libraries = []string{"unheard-of@1"}
	if _, err := newSBOM(testComponent, "v1", bin); err == nil {
		t.Error("a library of unknown origin is listed")
	}
}

func TestBuildReportsFailure(t *testing.T) {
	c := testComponent
	c.pkg = "./absent"
	if _, err := build(
		context.Background(), newModule(t), t.TempDir(), c, "v1", v1.Platform{OS: "linux", Architecture: "amd64"},
	); err == nil {
		t.Error("building a package that does not exist succeeded")
	}
}

func TestParsePlatforms(t *testing.T) {
	for list, want := range map[string]int{
		"linux/amd64":                           1,
		"linux/amd64,linux/s390x":               2,
		"linux/arm64, linux/s390x, linux/amd64": 3,
		"":                                      0,
		"linux":                                 0,
		"windows/amd64":                         0,
		"linux/mips":                            0,
		"linux/amd64,linux/amd64":               0,
	} {
		got, err := parsePlatforms(list)
		if len(got) != want || (err == nil) != (want > 0) {
			t.Errorf("parsePlatforms(%q) = %v, %v; want %d", list, got, err, want)
		}
	}
}

func TestReference(t *testing.T) {
	p := &publisher{}
	for _, c := range []struct{ registry, version, want string }{
		{"registry.example", "v1", "registry.example/lighterage/agent:v1"},
		{"registry.example:5000/team/", "v1", "registry.example:5000/team/lighterage/agent:v1"},
		{"https://registry.example", "v1", ""},
		{"registry.example", "no tag", ""},
	} {
		got, err := p.reference(c.registry, "agent", c.version)
		if (err != nil) != (c.want == "") || err == nil && got.Name() != c.want {
			t.Errorf("reference(%q, %q) = %v, %v; want %q", c.registry, c.version, got, err, c.want)
		}
	}
}

func TestSourceHash(t *testing.T) {
	root := t.TempDir()
	for _, s := range sources {
		dir := filepath.Join(root, s)
		if filepath.Ext(s) != "" {
			if err := os.WriteFile(dir, []byte(s), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := os.MkdirAll(filepath.Join(dir, "testdata"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write := func(path, content string) string {
		t.Helper()
		if err := os.WriteFile(filepath.Join(root, path), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		h, err := sourceHash(root)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	first := write("agent/a.go", "a")
	if write("agent/a_test.go", "test") != first || write("agent/testdata/x", "x") != first {
		t.Error("a test changed the hash")
	}
	if write("agent/a.go", "b") == first {
		t.Error("a change of the source did not change the hash")
	}
	if write("agent/a.go", "a") != first {
		t.Error("the same source has another hash")
	}
}
