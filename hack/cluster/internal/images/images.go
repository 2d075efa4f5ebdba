// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package images makes the few images the clusters themselves need and pushes them
// to the local registry, without a container engine.
package images

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// nobody is the user that images run as unless a pod says otherwise.
const nobody = "65532:65532"

// Image is an image to make and push.
type Image struct {
	// Ref is the image's whole name: registry, repository and tag.
	Ref string
	// Files returns the one layer's content.
	Files func() ([]File, error)
	// Config is what the image runs by default.
	Config v1.Config
}

// File is one entry of a layer.
type File struct {
	// Path is relative to the root.
	Path string
	Mode int64
	// Link, when set, makes a symbolic link; Source, when set, is copied;
	// otherwise Data is the content. A path that ends with / is a folder.
	Link, Source string
	Data         []byte
}

// Pause is the image of every pod's first process.
func Pause(registry, program string) Image {
	return Image{
		Ref:    registry + "/lab/pause:1",
		Files:  func() ([]File, error) { return []File{{Path: "pause", Mode: 0o755, Source: program}}, nil },
		Config: v1.Config{Entrypoint: []string{"/pause"}, User: nobody},
	}
}

// CoreDNS is the image of the name server.
func CoreDNS(registry, tag, program string) Image {
	return Image{
		Ref:    registry + "/lab/coredns:" + tag,
		Files:  func() ([]File, error) { return []File{{Path: "coredns", Mode: 0o755, Source: program}}, nil },
		Config: v1.Config{Entrypoint: []string{"/coredns"}, User: nobody},
	}
}

// Busybox is a small system with a shell, for demonstrations and tests.
func Busybox(registry, program string) Image {
	return Image{
		Ref: registry + "/lab/busybox:1",
		Files: func() ([]File, error) {
			list, err := exec.Command(program, "--list").Output()
			if err != nil {
				return nil, fmt.Errorf("listing what busybox can do: %w", err)
			}
			files := []File{
				{Path: "bin/", Mode: 0o755},
				{Path: "bin/busybox", Mode: 0o755, Source: program},
				{Path: "etc/", Mode: 0o755},
				{
					Path: "etc/passwd", Mode: 0o644,
					Data: []byte("root:x:0:0:root:/:/bin/sh\nnobody:x:65532:65532:nobody:/:/bin/sh\n"),
				},
				{Path: "etc/group", Mode: 0o644, Data: []byte("root:x:0:\nnobody:x:65532:\n")},
				{Path: "tmp/", Mode: 0o1777},
			}
			for _, applet := range strings.Fields(string(list)) {
				if applet != "busybox" {
					files = append(files, File{Path: "bin/" + applet, Mode: 0o777, Link: "busybox"})
				}
			}
			return files, nil
		},
		Config: v1.Config{Cmd: []string{"/bin/sh"}, Env: []string{"PATH=/bin"}},
	}
}

// Ensure makes and pushes the image unless the registry has its tag.
func Ensure(ctx context.Context, image Image) error {
	ref, err := name.ParseReference(image.Ref, name.Insecure)
	if err != nil {
		return fmt.Errorf("pushing image: %w", err)
	}
	options := []remote.Option{remote.WithContext(ctx), remote.WithTransport(direct())}
	_, err = remote.Head(ref, options...)
	if err == nil {
		return nil
	}
	var answer *transport.Error
	if !errors.As(err, &answer) || answer.StatusCode != http.StatusNotFound {
		return fmt.Errorf("looking for image %s: %w", image.Ref, err)
	}
	img, err := Build(image)
	if err != nil {
		return fmt.Errorf("making image %s: %w", image.Ref, err)
	}
	if err := remote.Write(ref, img, options...); err != nil {
		return fmt.Errorf("pushing image %s: %w", image.Ref, err)
	}
	return nil
}

// direct is a transport that asks no proxy: the registry is on this machine.
func direct() http.RoundTripper {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.Proxy = nil
	return t
}

// Build makes the image for this machine's architecture.
func Build(image Image) (v1.Image, error) {
	files, err := image.Files()
	if err != nil {
		return nil, err
	}
	var layer bytes.Buffer
	if err := writeTar(&layer, files); err != nil {
		return nil, err
	}
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(layer.Bytes())), nil
	}, tarball.WithCompressionLevel(gzip.BestSpeed), tarball.WithCompressedCaching, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	base := mutate.MediaType(empty.Image, types.OCIManifestSchema1)
	base = mutate.ConfigMediaType(base, types.OCIConfigJSON)
	img, err := mutate.AppendLayers(base, l)
	if err != nil {
		return nil, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", runtime.GOARCH
	config.Config = image.Config
	return mutate.ConfigFile(img, config)
}

func writeTar(w io.Writer, files []File) error {
	t := tar.NewWriter(w)
	for _, f := range files {
		h := &tar.Header{Name: f.Path, Mode: f.Mode, Typeflag: tar.TypeReg, Size: int64(len(f.Data))}
		data := f.Data
		switch {
		case strings.HasSuffix(f.Path, "/"):
			h.Typeflag = tar.TypeDir
		case f.Link != "":
			h.Typeflag, h.Linkname = tar.TypeSymlink, f.Link
		case f.Source != "":
			var err error
			if data, err = os.ReadFile(f.Source); err != nil {
				return err
			}
			h.Size = int64(len(data))
		}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		if _, err := t.Write(data); err != nil {
			return err
		}
	}
	return t.Close()
}
