// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"path"
	"time"

	"sigs.k8s.io/yaml"
)

// archive is a compressed tar with an index.
type archive struct {
	packed *gzip.Writer
	tar    *tar.Writer
	// root is the directory that holds everything, and made its time.
	root  string
	made  time.Time
	index []gathered
}

func newArchive(to io.Writer, root string, made time.Time) *archive {
	packed := gzip.NewWriter(to)
	return &archive{packed: packed, tar: tar.NewWriter(packed), root: root, made: made}
}

// add writes a file, and a line of the index.
func (a *archive) add(about gathered, content []byte) error {
	a.index = append(a.index, about)
	return a.put(about.File, content)
}

// missing says in the index why there is no such file.
func (a *archive) missing(name, why string) {
	a.index = append(a.index, gathered{File: name, Note: why})
}

func (a *archive) put(name string, content []byte) error {
	header := &tar.Header{
		// The cluster names pods and containers: nothing it says leads out of the root.
		Name: path.Join(a.root, path.Clean("/"+name)), Mode: 0o600, Size: int64(len(content)), ModTime: a.made,
		Typeflag: tar.TypeReg,
	}
	err := a.tar.WriteHeader(header)
	if err == nil {
		_, err = a.tar.Write(content)
	}
	if err != nil {
		return fmt.Errorf("writing %s to the bundle: %w", name, err)
	}
	return nil
}

// finish writes the index.
func (a *archive) finish() error {
	text, err := yaml.Marshal(a.index)
	if err != nil {
		return fmt.Errorf("writing the index of the bundle: %w", err)
	}
	return a.put("index.yaml", text)
}

func (a *archive) close() error {
	if err := errors.Join(a.tar.Close(), a.packed.Close()); err != nil {
		return fmt.Errorf("closing the bundle: %w", err)
	}
	return nil
}
