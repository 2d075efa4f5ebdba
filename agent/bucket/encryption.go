// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package bucket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"filippo.io/age"

	"github.com/lighterage/lighterage/agent/agefile"
	"github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/objectstore"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// maxDecrypted bounds the encrypted objects whose headers are held, of 96 KiB each.
const maxDecrypted = 32

// Encryption is how archives, and what belongs to them, are encrypted. Each object has a key of its own, in its header.
type Encryption struct {
	// Recipients read everything but the journal.
	Recipients []age.Recipient
	// Key is the writer's: it reads indexes and the journal, which have names, and no archive.
	Key agefile.Key
}

// readers are those who read what a run needs of the one before.
func (e *Encryption) readers() []age.Recipient {
	return append(slices.Clone(e.Recipients), e.Key.Beside(e.Recipients))
}

// seal encrypts an object that is in memory, as its name says.
func (e *Encryption) seal(name string, content []byte) ([]byte, error) {
	if strings.HasPrefix(name, journalName) {
		return agefile.Seal(content, e.Key)
	}
	return agefile.Seal(content, e.readers()...)
}

// Decrypted is a store of which encrypted archives and indexes are read as what they were before. What is written is
// written as it is.
func Decrypted(store Store, identities []age.Identity) Store {
	return &decrypted{Store: store, identities: identities}
}

// decrypted is a store whose lengths and ranges are those of plain objects, but for lists.
type decrypted struct {
	Store
	identities []age.Identity
	// writer: the identities are the key of a writer.
	writer bool

	mu sync.Mutex
	// files are the last that were used, the last one last.
	files []decryptedFile
}

type decryptedFile struct {
	name, etag string
	file       *agefile.File
}

// sealedName reports whether an object is encrypted where archives are.
func sealedName(name string) bool { return name == IndexName || strings.HasPrefix(name, archivesName) }

// sealedArchive reports whether an archive is encrypted, by its name.
func sealedArchive(name string) bool { return strings.HasSuffix(name, agefile.Suffix) }

// Head is that of the plain object.
func (d *decrypted) Head(ctx context.Context, name string) (objectstore.Object, error) {
	object, err := d.Store.Head(ctx, name)
	if err != nil || !sealedName(name) {
		return object, err
	}
	file, err := d.open(ctx, &object, name)
	if err != nil {
		return object, err
	}
	object.Size = file.Size()
	return object, nil
}

// Get opens a range of the plain object.
func (d *decrypted) Get(
	ctx context.Context, name, etag string, offset, length int64,
) (objectstore.Content, error) {
	if !sealedName(name) {
		return d.Store.Get(ctx, name, etag, offset, length)
	}
	file := d.held(name, etag)
	if file == nil {
		object, err := d.Store.Head(ctx, name)
		if err != nil {
			return nil, err
		}
		if etag != "" && object.ETag != etag {
			return nil, fmt.Errorf("get %q: %w", failure.Shorten(name, 256), objectstore.ErrChanged)
		}
		etag = object.ETag
		if file, err = d.open(ctx, &object, name); err != nil {
			return nil, err
		}
	}
	r, err := file.Range(ctx, d.fetch(name, etag), offset, length)
	if err != nil {
		return nil, d.explain(name, err)
	}
	return &decryptedContent{ReadCloser: r, store: d, name: name, etag: etag}, nil
}

// held returns a file that is held; nil if it is not.
func (d *decrypted) held(name, etag string) *agefile.File {
	d.mu.Lock()
	defer d.mu.Unlock()
	i := slices.IndexFunc(d.files, func(f decryptedFile) bool { return f.name == name && f.etag == etag })
	if i < 0 {
		return nil
	}
	f := d.files[i]
	d.files = append(slices.Delete(d.files, i, i+1), f)
	return f.file
}

// open opens what the store has.
func (d *decrypted) open(ctx context.Context, object *objectstore.Object, name string) (*agefile.File, error) {
	if file := d.held(name, object.ETag); file != nil {
		return file, nil
	}
	file, err := agefile.Open(ctx, object.Size, d.fetch(name, object.ETag), d.identities)
	if err != nil {
		return nil, d.explain(name, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.files) == maxDecrypted {
		d.files = slices.Delete(d.files, 0, 1)
	}
	d.files = append(d.files, decryptedFile{name, object.ETag, file})
	return file, nil
}

func (d *decrypted) fetch(name, etag string) agefile.Fetch {
	return func(ctx context.Context, offset, length int64) (io.ReadCloser, error) {
		r, err := d.Store.Get(ctx, name, etag, offset, length)
		if err != nil {
			return nil, err // not a nil pointer in an interface
		}
		return r, nil
	}
}

// explain gives an error of reading what is encrypted a reason.
func (d *decrypted) explain(name string, err error) error {
	unfit := errors.Is(err, agefile.ErrIdentity) || errors.Is(err, agefile.ErrPlain)
	switch {
	case errors.Is(err, agefile.ErrCorrupt), unfit && d.writer && name != IndexName:
		// Without the index nothing of the rest is of use to a writer, which packs everything again.
		return fmt.Errorf("%w: %w", cargo.ErrCorrupt, err)
	case unfit && d.writer:
		return encryptionMismatch("%s is not encrypted, or for somebody else than this Transfer: use another "+
			"path of spec.destination; or, if nobody needs the copy that is there, remove this object, which is its "+
			"only index, and the archives in %s, so that everything is written again", name, archivesName)
	case errors.Is(err, agefile.ErrPlain):
		return encryptionMismatch("%s is not encrypted: remove spec.source.encryption", name)
	case unfit:
		return encryptionMismatch("%s is encrypted for none of the identities in the Secret that "+
			"spec.source.encryption names: put the identity of one of its recipients into the key %s there",
			name, wirev1.AgeIdentitiesKey)
	default:
		return err
	}
}

const encryptionMismatched = wirev1.FailureReason_FAILURE_REASON_ENCRYPTION_MISMATCH

func encryptionMismatch(format string, args ...any) error {
	return failure.New(encryptionMismatched, format, args...)
}

// errEncrypted is that of an index which is read as if it were plain.
func errEncrypted() error {
	return encryptionMismatch("%s is encrypted with age: to read what it names, name a Secret with an identity in "+
		"spec.source.encryption; to write without encryption, use another path of spec.destination", IndexName)
}

// legible fails if this writer cannot go on with the index that is there. It comes before anything of others is
// aborted.
func (w *writing) legible(ctx context.Context) error {
	if w.encryption() != nil {
		if _, err := w.options.Store.Head(ctx, IndexName); failure.Is(err, encryptionMismatched) {
			return err
		}
		return nil // Any other error comes again.
	}
	sealed, err := encrypted(ctx, w.rests)
	if err == nil && sealed {
		err = errEncrypted()
	}
	return err
}

// decryptedContent is a part of a plain object.
type decryptedContent struct {
	io.ReadCloser
	store      *decrypted
	name, etag string
}

// Read implements io.Reader.
func (c *decryptedContent) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = c.store.explain(c.name, err)
	}
	return n, err
}

func (c *decryptedContent) ETag() string { return c.etag }

// Metadata is none: no object that is encrypted has any.
func (c *decryptedContent) Metadata() map[string]string { return nil }
