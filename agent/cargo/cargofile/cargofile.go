// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cargofile opens and writes files that rest compressed (package cargo), with the indexes beside them, on file
// systems and in object stores.
//
// A name is a path, or s3://BUCKET/KEY. The index of DIRECTORY/NAME is DIRECTORY/.NAME.lgci. The server of an object
// store and the credentials are those of the environment variables that other clients use: see Files.
//
// What is written appears as a whole, the index before the data, or not at all. A process that is killed leaves nothing
// on most file systems, but for an index without its file if that is between the two. On those without files that have
// no name, and where it replaces a file, it leaves at most a file whose name begins with TemporaryPrefix as well, in a
// store an upload that was not completed.
package cargofile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"filippo.io/age"

	"github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/codec"
)

var (
	// ErrNoIndex says that a file has no index beside it. It comes with fs.ErrNotExist.
	ErrNoIndex = errors.New("there is no index beside the file")
	// ErrExists says that something is there under the name that would be written. It is fs.ErrExist.
	ErrExists = fmt.Errorf("the destination is there already: %w", fs.ErrExist)
	// ErrName says that a name is neither a path nor s3://BUCKET/KEY, or cannot be used here: nothing is written under
	// one that ends in .age.
	ErrName = errors.New("unusable name")
)

// Files opens and writes files. The zero value but for Engines is usable.
type Files struct {
	// Engines to expand and compress with, such as engines.Default().
	Engines *codec.Registry
	// Workers are how many blocks are compressed or expanded at once; 0: one.
	Workers int
	// Getenv has the variables by which object stores are found; nil: os.Getenv.
	//
	//	AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL        the server; without one that of AWS for the region
	//	AWS_REGION, AWS_DEFAULT_REGION               the region; without one us-east-1
	//	AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY     the credentials; without them requests are anonymous
	//	AWS_SESSION_TOKEN                            of temporary credentials
	//	AWS_CA_BUNDLE                                a file with the certificates of who vouches for the server
	Getenv func(string) string
	// Identities decrypt files whose names end with .age, and their indexes.
	Identities []age.Identity
}

// File is an open one with its index. It must be closed.
type File struct {
	*cargo.Reader
	// Name by which it was opened.
	Name   string
	object object
}

// Close frees the reader and closes the file.
func (f *File) Close() error { return errors.Join(f.Reader.Close(), f.object.Close()) }

// Open opens a file and reads its index. Without an index it is ErrNoIndex, with one of another file cargo.ErrIndex;
// Scan opens such files.
func (f *Files) Open(ctx context.Context, name string) (*File, error) {
	return f.open(ctx, name, func(at place, _ object) (*cargo.Index, error) {
		return f.readIndex(ctx, name, at.index())
	})
}

// Scan opens a file without its index, which is made again of all of the file, with the numbers of records. It writes
// none: WriteIndex and Rebuild do.
func (f *Files) Scan(ctx context.Context, name string, records cargo.Records) (*File, error) {
	return f.open(ctx, name, func(_ place, o object) (*cargo.Index, error) {
		if o.size() == 0 {
			return nil, fmt.Errorf("%w: it is empty", cargo.ErrForeign)
		}
		file, err := o.OpenRange(ctx, 0, o.size())
		if err != nil {
			return nil, err
		}
		defer file.Close()
		return cargo.RebuildRecords(ctx, file, f.Engines, records)
	})
}

func (f *Files) open(
	ctx context.Context, name string, index func(place, object) (*cargo.Index, error),
) (*File, error) {
	at, err := f.place(name)
	if err != nil {
		return nil, err
	}
	o, err := at.open(ctx)
	if err == nil {
		o, err = f.decrypted(ctx, name, o)
	}
	if err != nil {
		return nil, fmt.Errorf("open %q: %w", name, err)
	}
	i, err := index(at, o)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open %q: %w", name, err), o.Close())
	}
	r, err := cargo.NewReader(o, o.size(), i, f.Engines)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open %q: %w", name, err), o.Close())
	}
	return &File{Reader: r, Name: name, object: o}, nil
}

// readIndex reads that of the file of a name, which is bounded.
func (f *Files) readIndex(ctx context.Context, of string, at place) (*cargo.Index, error) {
	o, err := at.open(ctx)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %w", ErrNoIndex, err)
	}
	if err == nil {
		o, err = f.decrypted(ctx, of, o)
	}
	if err != nil {
		return nil, fmt.Errorf("open its index: %w", err)
	}
	defer o.Close()
	if o.size() == 0 || o.size() > cargo.MaxIndex {
		return nil, fmt.Errorf("%w: it has %d bytes", cargo.ErrIndex, o.size())
	}
	file, err := o.OpenRange(ctx, 0, o.size())
	if err != nil {
		return nil, fmt.Errorf("open its index: %w", err)
	}
	defer file.Close()
	b := make([]byte, o.size())
	if _, err := io.ReadFull(file, b); err != nil {
		return nil, fmt.Errorf("read its index: %w", err)
	}
	return cargo.ParseIndex(b)
}

// Index reads the index beside a file, which need not be there.
func (f *Files) Index(ctx context.Context, name string) (*cargo.Index, error) {
	at, err := f.place(name)
	if err != nil {
		return nil, err
	}
	i, err := f.readIndex(ctx, name, at.index())
	if err != nil {
		return nil, fmt.Errorf("index of %q: %w", name, err)
	}
	return i, nil
}

// Rebuild makes the index of a file again, as Scan does, and writes it in the place of one that is there. Where none
// can be written it is ErrName, before the file is read.
func (f *Files) Rebuild(ctx context.Context, name string, records cargo.Records) error {
	if _, err := f.target(name); err != nil {
		return err
	}
	file, err := f.Scan(ctx, name, records)
	if err != nil {
		return err
	}
	return errors.Join(f.WriteIndex(ctx, name, file.Index()), file.Close())
}

// WriteIndex writes an index beside a file, in the place of one that is there. That of an encrypted file is encrypted,
// too, which it cannot do: ErrName.
func (f *Files) WriteIndex(ctx context.Context, name string, index *cargo.Index) error {
	at, err := f.target(name)
	if err != nil {
		return err
	}
	if err := writeWhole(ctx, at.index(), index.Append(nil)); err != nil {
		return fmt.Errorf("write the index of %q: %w", name, err)
	}
	return nil
}

func writeWhole(ctx context.Context, at place, content []byte) error {
	w, err := at.create(ctx, true)
	if err != nil {
		return err
	}
	defer w.abort()
	if _, err := w.Write(content); err != nil {
		return err
	}
	if err := w.prepare(); err != nil {
		return err
	}
	return w.publish()
}

// CopyOptions say how a file is copied.
type CopyOptions struct {
	// Replace what is there under the name.
	Replace bool
	// Unchecked copies what rests as it is. Else it is compared with the index.
	Unchecked bool
}

// Copy writes a file as it rests under another name, with its index.
func (f *Files) Copy(ctx context.Context, from *File, to string, o CopyOptions) error {
	return f.write(ctx, to, o.Replace, func(w io.Writer) (*cargo.Index, error) {
		return from.Index(), from.CopyStored(ctx, w, !o.Unchecked)
	})
}

// Inflate writes the plain file under another name.
func (f *Files) Inflate(ctx context.Context, from *File, to string, o CopyOptions) error {
	return f.write(ctx, to, o.Replace, func(w io.Writer) (*cargo.Index, error) {
		return nil, from.WriteRange(ctx, w, 0, from.Index().Size(), f.Workers)
	})
}

// Pack compresses a plain file into one with an index. Of the options engines and workers are those of Files.
func (f *Files) Pack(
	ctx context.Context, from io.Reader, to string, o cargo.PackOptions, replace bool,
) (index *cargo.Index, err error) {
	o.Engines, o.Workers = f.Engines, f.Workers
	err = f.write(ctx, to, replace, func(w io.Writer) (*cargo.Index, error) {
		index, err = cargo.Pack(ctx, w, from, o)
		return index, err
	})
	return index, err
}

// OpenPlain opens a plain file, for Pack.
func (f *Files) OpenPlain(ctx context.Context, name string) (io.ReadCloser, error) {
	at, err := f.place(name)
	if err != nil {
		return nil, err
	}
	o, err := at.open(ctx)
	if err != nil {
		return nil, fmt.Errorf("open %q: %w", name, err)
	}
	if o.size() == 0 {
		return io.NopCloser(strings.NewReader("")), o.Close()
	}
	file, err := o.OpenRange(ctx, 0, o.size())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open %q: %w", name, err), o.Close())
	}
	return closing{file, o}, nil
}

type closing struct {
	io.ReadCloser
	object object
}

func (c closing) Close() error { return errors.Join(c.ReadCloser.Close(), c.object.Close()) }

// write writes a file, and before it appears its index, if there is one.
func (f *Files) write(
	ctx context.Context, to string, replace bool, content func(io.Writer) (*cargo.Index, error),
) error {
	at, err := f.target(to)
	if err != nil {
		return err
	}
	if err := writePair(ctx, at, replace, content); err != nil {
		return fmt.Errorf("write %q: %w", to, err)
	}
	return nil
}

func writePair(
	ctx context.Context, at place, replace bool, content func(io.Writer) (*cargo.Index, error),
) error {
	data, err := at.create(ctx, replace)
	if err != nil {
		return err
	}
	defer data.abort()
	index, err := content(data)
	if err != nil {
		return err
	}
	if err := data.prepare(); err != nil {
		return err
	}
	if index != nil {
		beside, err := at.index().create(ctx, true)
		if err != nil {
			return err
		}
		defer beside.abort()
		if _, err := beside.Write(index.Append(nil)); err != nil {
			return err
		}
		if err := beside.prepare(); err != nil {
			return err
		}
		if err := context.Cause(ctx); err != nil {
			return err // the last moment at which nothing has appeared
		}
		if err := beside.publish(); err != nil {
			return err
		}
	}
	if err := data.publish(); err != nil {
		if index != nil && !replace && !errors.Is(err, fs.ErrExist) {
			err = errors.Join(err, at.index().remove()) // it is that of no file
		}
		return err
	}
	return nil
}

func (f *Files) getenv(name string) string {
	if f.Getenv != nil {
		return f.Getenv(name)
	}
	return os.Getenv(name)
}
