// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/lighterage/lighterage/hack/cluster/internal/registry"
)

func serve(t *testing.T, dir string) (string, func()) {
	t.Helper()
	h, err := registry.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(h)
	return strings.TrimPrefix(s.URL, "http://"), s.Close
}

func tag(t *testing.T, host, image string) name.Reference {
	t.Helper()
	ref, err := name.ParseReference(host+"/"+image, name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

func TestImagesSurviveARestart(t *testing.T) {
	dir := t.TempDir()
	index, err := random.Index(1000, 2, 3)
	if err != nil {
		t.Fatal(err)
	}
	want, err := index.Digest()
	if err != nil {
		t.Fatal(err)
	}

	host, stop := serve(t, dir)
	if err := remote.WriteIndex(tag(t, host, "lab/one:1"), index); err != nil {
		t.Fatal(err)
	}
	// The same tag again, as a second push of an image does.
	if err := remote.WriteIndex(tag(t, host, "lab/one:1"), index); err != nil {
		t.Fatal(err)
	}
	stop()

	host, stop = serve(t, dir)
	defer stop()
	got, err := remote.Index(tag(t, host, "lab/one:1"))
	if err != nil {
		t.Fatal(err)
	}
	if d, err := got.Digest(); err != nil || d != want {
		t.Errorf("digest after restart = %v, %v; want %v", d, err, want)
	}
	manifest, err := got.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range manifest.Manifests {
		img, err := got.Image(m.Digest)
		if err != nil {
			t.Fatal(err)
		}
		layers, err := img.Layers()
		if err != nil || len(layers) != 2 {
			t.Fatalf("image %s has %d layers, %v; want 2", m.Digest, len(layers), err)
		}
		r, err := layers[0].Compressed()
		if err != nil {
			t.Fatalf("layer of %s: %v", m.Digest, err)
		}
		r.Close()
	}
}

func TestDeletedTagStaysDeleted(t *testing.T) {
	dir := t.TempDir()
	img, err := random.Image(100, 1)
	if err != nil {
		t.Fatal(err)
	}
	host, stop := serve(t, dir)
	ref := tag(t, host, "lab/one:1")
	if err := remote.Write(ref, img); err != nil {
		t.Fatal(err)
	}
	if err := remote.Delete(ref); err != nil {
		t.Fatal(err)
	}
	stop()
	host, stop = serve(t, dir)
	defer stop()
	if _, err := remote.Image(tag(t, host, "lab/one:1")); err == nil {
		t.Error("the deleted tag is back after a restart")
	}
}
