// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer_test

import (
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lighterage/lighterage/agent/transfer/protocol"
	"github.com/lighterage/lighterage/agent/transfer/receive"
	"github.com/lighterage/lighterage/agent/tree"
)

// recorder is a destination that notes what is done to each file.
type recorder struct {
	receive.Destination
	mu   sync.Mutex
	done map[string][]string
}

func (j *recorder) Stage(number uint64, e *tree.Entry) (receive.StagedFile, error) {
	f, err := j.Destination.Stage(number, e)
	return recorderFile{f, j, e.Path}, err
}

func (j *recorder) note(path, what string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.done[path] = append(j.done[path], what)
}

type recorderFile struct {
	receive.StagedFile
	recorder *recorder
	path     string
}

func (f recorderFile) WriteAt(p []byte, offset int64) (int, error) {
	n, err := f.StagedFile.WriteAt(p, offset)
	f.recorder.note(f.path, "write")
	return n, err
}

func (f recorderFile) Sync() error {
	f.recorder.note(f.path, "sync")
	return f.StagedFile.Sync()
}

func (f recorderFile) Commit(e *tree.Entry) error {
	f.recorder.note(f.path, "commit")
	return f.StagedFile.Commit(e)
}

// A file of several chunks gets its name after all of them are on disk, so that a power loss cannot leave one with
// holes that the next attempt takes for unchanged.
func TestChunksAreSyncedBeforeTheName(t *testing.T) {
	source, destination := t.TempDir(), t.TempDir()
	file(t, source, "chunk", noise(1, protocol.ChunkSize), 0o600)
	file(t, source, "empty", nil, 0o600)
	file(t, source, "more", noise(2, protocol.ChunkSize+1), 0o600)
	file(t, source, "small", noise(3, 100), 0o600)
	j := &recorder{done: make(map[string][]string)}
	p := startReceiver(t, destination, func(o *receive.Options) {
		j.Destination, o.Destination = o.Destination, j
	})
	if _, err := p.send(t.Context(), t, source); err != nil {
		t.Fatal(err)
	}
	if err := p.wait(t); err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{
		"chunk": {"write", "commit"},
		"empty": {"commit"},
		"more":  {"write", "write", "sync", "commit"},
		"small": {"write", "commit"},
	}
	if diff := cmp.Diff(want, j.done); diff != "" {
		t.Errorf("wanted (-) and done (+) differ:\n%s", diff)
	}
}
