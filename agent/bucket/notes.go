// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package bucket

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"sync"

	"github.com/lighterage/lighterage/agent/objectstore"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

const (
	// maxNotes bounds the uploads that are taken over. There are no more than streams under way.
	maxNotes = 1024
	// maxAborted bounds the uploads of one object that are aborted at once: others may have begun any number.
	maxAborted = 1000
	// maxBegins is how often a note may be there that was not there a moment ago.
	maxBegins = 2
)

// notes are what is known of multipart uploads that earlier attempts began. A note is made before the upload, so that
// none is without one.
type notes struct {
	store Store

	mu    sync.Mutex
	notes map[string]*wirev1.StoreUpload
}

// readNotes reads what earlier attempts noted, and aborts uploads that nobody can go on with.
func readNotes(ctx context.Context, store Store) (*notes, error) {
	n := &notes{store: store, notes: make(map[string]*wirev1.StoreUpload)}
	// An index is always written from its beginning.
	if err := n.abortAll(ctx, IndexName, ""); err != nil {
		return nil, err
	}
	var names []string
	for object, err := range store.List(ctx, uploadsName) {
		if err != nil {
			return nil, err
		}
		if names = append(names, object.Name); len(names) == maxNotes {
			break
		}
	}
	for _, name := range names {
		note, err := n.read(ctx, name)
		if err != nil {
			return nil, err
		}
		if note != nil {
			n.notes[note.GetName()] = note
		}
	}
	return n, nil
}

// read returns a note with whose upload somebody can go on. It removes any other one, and the uploads of which it is;
// nil is returned then, or when there is none.
func (n *notes) read(ctx context.Context, name string) (*wirev1.StoreUpload, error) {
	note := &wirev1.StoreUpload{}
	err := getNote(ctx, n.store, name, note)
	switch {
	case errors.Is(err, objectstore.ErrNotFound), errors.Is(err, objectstore.ErrName):
		return nil, nil // The list lags, or it is not ours.
	case errors.Is(err, errNote):
	case err != nil:
		return nil, err
	case noteName(note.GetName()) == name && n.store.Check(note.GetName()) == nil && note.GetId() != "":
		return note, nil
	case noteName(note.GetName()) == name && n.store.Check(note.GetName()) == nil:
		// Whether the upload began is not known.
		if err := n.abortAll(ctx, note.GetName(), ""); err != nil {
			return nil, err
		}
	}
	return nil, n.store.Delete(ctx, name)
}

// begin makes a note, and returns the one that an earlier attempt made and no list had; nil if there is none.
func (n *notes) begin(ctx context.Context, note *wirev1.StoreUpload) (*wirev1.StoreUpload, error) {
	name := noteName(note.GetName())
	err := putNote(ctx, n.store, name, note, true)
	if !errors.Is(err, objectstore.ErrExists) {
		return nil, err
	}
	before, err := n.read(ctx, name)
	if err != nil || before != nil {
		return before, err
	}
	return nil, putNote(ctx, n.store, name, note, false)
}

// noteName is the name of the note on an upload.
func noteName(name string) string {
	sum := sha256.Sum256([]byte(name))
	return uploadsName + hex.EncodeToString(sum[:16])
}

// abortAll aborts the uploads of one object, but for one. It is for when the id of ours is not known, and takes those
// of other tools for the same object with it.
func (n *notes) abortAll(ctx context.Context, name, but string) error {
	var uploads []objectstore.Upload
	for u, err := range n.store.Uploads(ctx, name) {
		if err != nil {
			return err
		}
		if u.Name != name || u.ID == but {
			continue
		}
		if uploads = append(uploads, u); len(uploads) == maxAborted {
			break
		}
	}
	for _, u := range uploads {
		if err := n.store.Abort(ctx, u); err != nil {
			return err
		}
	}
	return nil
}

// take returns the note on an upload of an object and forgets it; nil if there is none.
func (n *notes) take(name string) *wirev1.StoreUpload {
	n.mu.Lock()
	defer n.mu.Unlock()
	note := n.notes[name]
	delete(n.notes, name)
	return note
}

// drop aborts an upload and removes its note.
func (n *notes) drop(ctx context.Context, note *wirev1.StoreUpload) error {
	if err := n.store.Abort(ctx, uploadOf(note)); err != nil {
		return err
	}
	if err := removeAll(ctx, n.store, partsOf(note.GetName())); err != nil {
		return err
	}
	return n.store.Delete(ctx, noteName(note.GetName()))
}

// abandon drops all that nobody took.
func (n *notes) abandon(ctx context.Context) error {
	for _, note := range n.notes {
		if err := n.drop(ctx, note); err != nil {
			return err
		}
	}
	return nil
}

func uploadOf(note *wirev1.StoreUpload) objectstore.Upload {
	return objectstore.Upload{Name: note.GetName(), ID: note.GetId(), Token: note.GetToken()}
}
