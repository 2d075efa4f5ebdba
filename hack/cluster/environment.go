// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// What .cluster/env tells of an S3 server that both clusters reach. Without an endpoint there is none; without a file
// with a CA its certificate is one of a public CA.
const (
	storeEndpoint = "OBJECTSTORE_ENDPOINT"
	storeBucket   = "OBJECTSTORE_BUCKET"
	storeKeyID    = "OBJECTSTORE_ACCESS_KEY_ID"
	storeKey      = "OBJECTSTORE_SECRET_ACCESS_KEY"
	storeCAFile   = "OBJECTSTORE_CA_FILE"
)

// snapshotClassVariable names a StorageClass whose volumes can be snapshotted.
const snapshotClassVariable = "SNAPSHOT_STORAGE_CLASS"

// environment is what .cluster/env tells other programs.
type environment struct {
	mode, registry, kubectl string
	nodes                   map[string][]string
	// store has the values of the variables of the S3 server.
	store map[string]string
	// snapshotClass is a StorageClass of both clusters whose volumes can be snapshotted, or empty.
	snapshotClass string
}

// render gives lines that a shell can read. Values hold no blanks or quotes, or are quoted.
func (e environment) render() string {
	text := fmt.Sprintf("MODE=%s\nREGISTRY=%s\nEAST_NODES=%s\nWEST_NODES=%s\nKUBECTL=%s\n%s=%s\n",
		e.mode, shellQuote(e.registry), strings.Join(e.nodes["east"], ","), strings.Join(e.nodes["west"], ","),
		shellQuote(e.kubectl), snapshotClassVariable, shellQuote(e.snapshotClass))
	for _, name := range []string{storeEndpoint, storeBucket, storeKeyID, storeKey, storeCAFile} {
		text += name + "=" + shellQuote(e.store[name]) + "\n"
	}
	return text
}

// is tells whether a rendered environment has the mode of e.
func (e environment) is(rendered string) bool {
	return strings.HasPrefix(rendered, "MODE="+e.mode+"\n")
}

// shellQuote quotes a word for a shell when it needs it.
func shellQuote(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-:,@+", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

func (w *workspace) writeEnvironment(e environment) error {
	return w.write(filepath.Join(w.cluster, "env"), []byte(e.render()))
}

func (w *workspace) writeKubeconfig(cluster string, data []byte) error {
	return w.write(w.kubeconfig(cluster), data)
}

func (w *workspace) write(path string, data []byte) error {
	if err := os.MkdirAll(w.cluster, 0o755); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	if err := os.WriteFile(path+".new", data, 0o600); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}
