// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package images_test

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/lighterage/lighterage/hack/cluster/internal/images"
	"github.com/lighterage/lighterage/hack/cluster/internal/registry"
)

func TestEnsurePushesWhatItBuilt(t *testing.T) {
	handler, err := registry.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	program := filepath.Join(t.TempDir(), "p")
	if err := os.WriteFile(program, []byte("content"), 0o700); err != nil {
		t.Fatal(err)
	}

	image := images.Pause(host, program)
	if err := images.Ensure(context.Background(), image); err != nil {
		t.Fatal(err)
	}
	// A tag that is there is not made again.
	again := image
	again.Files = func() ([]images.File, error) { return nil, errors.New("made again") }
	if err := images.Ensure(context.Background(), again); err != nil {
		t.Fatal(err)
	}

	ref, err := name.ParseReference(image.Ref, name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	img, err := remote.Image(ref)
	if err != nil {
		t.Fatal(err)
	}
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.OS != "linux" || len(config.Config.Entrypoint) != 1 || config.Config.Entrypoint[0] != "/pause" {
		t.Errorf("config: os %q, entrypoint %q", config.OS, config.Config.Entrypoint)
	}
	files := tar.NewReader(mutate.Extract(img))
	h, err := files.Next()
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(files)
	if err != nil || h.Name != "pause" || h.Mode != 0o755 || string(data) != "content" {
		t.Errorf("layer holds %s, mode %o, %q, %v", h.Name, h.Mode, data, err)
	}
}

func TestEnsureSaysWhenTheRegistryIsAway(t *testing.T) {
	server := httptest.NewServer(nil)
	host := strings.TrimPrefix(server.URL, "http://")
	server.Close()
	if err := images.Ensure(context.Background(), images.Pause(host, "/nowhere")); err == nil {
		t.Error("no error from a registry that does not run")
	}
}
