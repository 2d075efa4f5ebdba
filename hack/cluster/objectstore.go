// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/lighterage/lighterage/hack/cluster/internal/layout"
	"github.com/lighterage/lighterage/hack/cluster/internal/pki"
	"github.com/lighterage/lighterage/hack/cluster/internal/unit"
)

// accessKeyID is the user of the S3 server. The key is made with the clusters.
const accessKeyID = "lighterage"

// startObjectStore starts an S3 server beside the clusters, with one bucket. Its address is none of a cluster, so that
// agents of both may dial it as they would one on the internet.
func (m *machine) startObjectStore(ctx context.Context) error {
	dir := layout.ObjectStoreDir()
	keys, objects := filepath.Join(dir, "pki"), filepath.Join(dir, "objects")
	if err := pki.EnsureServer("objectstore", keys, layout.Host); err != nil {
		return err
	}
	// A bucket is a folder of the server's.
	if err := os.MkdirAll(filepath.Join(objects, layout.Bucket), 0o700); err != nil {
		return fmt.Errorf("making the bucket: %w", err)
	}
	key, err := objectStoreKey()
	if err != nil {
		return err
	}
	cert := filepath.Join(keys, "server.crt")
	u := unit.Unit{
		Name:  "objectstore",
		Procs: m.tree.ProcsFile(hostCgroup),
		Args: []string{
			m.versitygw, "--port", layout.ObjectStore(), "--cert", cert, "--key", filepath.Join(keys, "server.key"),
			"--quiet", "--keep-alive", "posix", objects,
		},
		Env:     []string{"ROOT_ACCESS_KEY=" + accessKeyID, "ROOT_SECRET_KEY=" + key},
		Configs: []string{cert},
	}
	if _, err := m.set.Ensure(u); err != nil {
		return err
	}
	return m.set.Wait(ctx, "the object store", startTimeout, []string{u.Name}, func(ctx context.Context) error {
		return dial(ctx, "tcp", layout.ObjectStore())
	})
}

// objectStoreKey is the secret key of the S3 server, which lasts as long as the clusters.
func objectStoreKey() (string, error) {
	path := filepath.Join(layout.ObjectStoreDir(), "secret-access-key")
	key, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		key = []byte(rand.Text())
		if err = os.WriteFile(path+".new", key, 0o600); err == nil {
			err = os.Rename(path+".new", path)
		}
	}
	if err != nil {
		return "", fmt.Errorf("making the key of the object store: %w", err)
	}
	return string(key), nil
}

// publishObjectStore writes the CA of the S3 server for people, and returns what .cluster/env tells of it.
func (m *machine) publishObjectStore() (map[string]string, error) {
	key, err := objectStoreKey()
	if err != nil {
		return nil, err
	}
	ca, err := os.ReadFile(filepath.Join(layout.ObjectStoreDir(), "pki", "ca.crt"))
	if err != nil {
		return nil, fmt.Errorf("reading the CA of the object store: %w", err)
	}
	file := filepath.Join(m.w.cluster, "objectstore-ca.crt")
	return map[string]string{
		storeEndpoint: "https://" + layout.ObjectStore(), storeBucket: layout.Bucket, storeKeyID: accessKeyID, storeKey: key,
		storeCAFile: file,
	}, m.w.write(file, ca)
}
