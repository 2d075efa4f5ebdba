// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package cargofile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/lighterage/lighterage/agent/agefile"
)

// target is the place of a file that is to be written, or whose index is. What is written is plain, so that the name of
// an encrypted file is ErrName: nobody could open it.
func (f *Files) target(name string) (place, error) {
	if strings.HasSuffix(name, agefile.Suffix) {
		return nil, fmt.Errorf("%w: %q: files whose names end in %s are encrypted, and so are their indexes; what is "+
			"written here is not: use a copy without %[3]s in its name, and encrypt it and its index with age", ErrName, name,
			agefile.Suffix)
	}
	return f.place(name)
}

// decrypted returns what is in a place as it was before it was encrypted, which files are, and their indexes, whose
// names end with agefile.Suffix. The object is closed where that fails.
func (f *Files) decrypted(ctx context.Context, name string, o object) (object, error) {
	if !strings.HasSuffix(name, agefile.Suffix) {
		return o, nil
	}
	file, err := agefile.Open(ctx, o.size(), o.OpenRange, f.Identities)
	if errors.Is(err, agefile.ErrIdentity) {
		err = fmt.Errorf("it is encrypted with age: %w", err)
	}
	if err != nil {
		return nil, errors.Join(err, o.Close())
	}
	return &decryptedObject{object: o, ctx: ctx, file: file}, nil
}

// decryptedObject is a plain file of which parts are decrypted.
type decryptedObject struct {
	object
	ctx  context.Context //nolint:containedctx // that of open: io.ReaderAt has none
	file *agefile.File
}

func (d *decryptedObject) size() int64 { return d.file.Size() }

// OpenRange implements cargo.RangeOpener.
func (d *decryptedObject) OpenRange(ctx context.Context, offset, length int64) (io.ReadCloser, error) {
	return d.file.Range(ctx, d.object.OpenRange, offset, length)
}

// ReadAt implements io.ReaderAt.
func (d *decryptedObject) ReadAt(p []byte, offset int64) (int, error) {
	n := max(min(int64(len(p)), d.file.Size()-offset), 0)
	r, err := d.OpenRange(d.ctx, min(offset, d.file.Size()), n)
	if err != nil {
		return 0, err
	}
	defer r.Close()
	if read, err := io.ReadFull(r, p[:n]); err != nil {
		return read, err
	}
	if n < int64(len(p)) {
		return int(n), io.EOF
	}
	return int(n), nil
}
