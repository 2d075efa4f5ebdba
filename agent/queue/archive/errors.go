// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"errors"
	"fmt"
)

// Why an archive, or a part of it, is not used.
var (
	// ErrDamaged says that a file is not what was written: bytes are missing, too many or wrong.
	ErrDamaged = errors.New("it is damaged")
	// ErrVersion says that a newer version wrote the file.
	ErrVersion = errors.New("it is in a form that this version does not know")
	// ErrOther says that a file is not what its name says.
	ErrOther = errors.New("it is of another archive")
	// ErrGap says that no file of the archive has what comes next.
	ErrGap = errors.New("a range is missing")
	// ErrNotFound says that there is no such archive.
	ErrNotFound = errors.New("there is no such archive")
)

// FileError says which file of an archive cannot be used.
type FileError struct {
	// Name of the file, with that of the archive.
	Name string
	Err  error
}

func (e *FileError) Error() string { return fmt.Sprintf("%s: %v", e.Name, e.Err) }

// Unwrap returns what is wrong with the file.
func (e *FileError) Unwrap() error { return e.Err }

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrDamaged}, args...)...)
}
