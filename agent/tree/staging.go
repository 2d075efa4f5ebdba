// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/journal"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// Each attempt has a staging directory of its own below StagingName, RUN.ATTEMPT.NONCE. It takes over what earlier
// attempts of the run, or of the one before, staged by moving it there, file by file, and then removes theirs: a
// receiver that still lives resolves every name in a directory which is gone, and can neither make a file nor give one
// its name any more. The journal says of what is taken over which files it is of, and of whose Transfer.

// Names in a staging directory, besides those of staged files, which are decimal numbers, and those of package journal.
const (
	directoriesName = "directories"
	linksName       = "links"
	seenName        = "seen"
	linkName        = "link" // what is being made
)

// takeoverTries bounds how often a directory is emptied that a former receiver still fills.
const takeoverTries = 10

// stageName is the name of a staging directory.
type stageName struct {
	run     string
	attempt uint32
	nonce   string
}

func newStageName(run string, attempt uint32) stageName {
	var nonce [8]byte
	rand.Read(nonce[:]) // Never fails.
	return stageName{run: run, attempt: attempt, nonce: hex.EncodeToString(nonce[:])}
}

func (s stageName) String() string { return fmt.Sprintf("%s.%d.%s", s.run, s.attempt, s.nonce) }

func parseStageName(name string) (s stageName, ok bool) {
	parts := strings.Split(name, ".")
	if len(parts) != 3 {
		return s, false
	}
	attempt, err := strconv.ParseUint(parts[1], 10, 32)
	return stageName{run: parts[0], attempt: uint32(attempt), nonce: parts[2]}, err == nil
}

// fenced says that another receiver has taken over.
func fenced() error {
	return failure.New(wirev1.FailureReason_FAILURE_REASON_ABORTED,
		"a newer attempt has taken over the destination; this one writes no more")
}

// makeStaging makes the staging directory of an attempt and takes over what earlier ones left, those of the run first.
func (d *Destination) makeStaging(run string, attempt uint32) error {
	if CheckPath(run) != nil || strings.ContainsAny(run, "./") {
		return fmt.Errorf("the run's name %.200q is not usable", run)
	}
	own := newStageName(run, attempt)
	name := StagingName + "/" + own.String()
	all, err := d.makeStagingRoot(name)
	if err != nil {
		return err
	}
	defer all.close()
	d.staging = name
	if d.stage, err = d.root.openDir(name); err != nil {
		return writeError("open", name, err)
	}
	// Staged files would inherit what their entries do not have.
	if err := (node{at: d.stage, name: ".", fd: -1}).removeXattr(aclDefault); err != nil && !d.xattrLost(err) {
		return writeError("remove the default ACL of", name, err)
	}
	names, err := stagedNames(int(all))
	if err != nil {
		return writeError("read", StagingName, err)
	}
	older, useless, err := earlier(names, own)
	if err != nil {
		return err
	}
	for _, n := range useless {
		if err := all.removeAll(n); err != nil {
			return writeError("remove what an earlier run left in", StagingName+"/"+n, err)
		}
	}
	for _, s := range older {
		if err := d.takeOver(all, s.String()); err != nil {
			return writeError("take over what an earlier attempt left in", StagingName+"/"+s.String(), err)
		}
	}
	fd, err := openat(int(d.stage), directoriesName, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return writeError("make the list of directories in", name, err)
	}
	d.dirs = newSpool(os.NewFile(uintptr(fd), directoriesName))
	return nil
}

// earlier tells the staging directories that an attempt takes over, in this order, from those that it removes. An
// attempt begins only after it has emptied all others: so of all there are, none but those of one run may hold files
// that were staged there, and the rest what was being taken over from it. With a third run that is not certain any
// more, and nothing but those of the own run is used.
func earlier(names []string, own stageName) (older []stageName, useless []string, err error) {
	var others []stageName
	for _, n := range names {
		s, ok := parseStageName(n)
		switch {
		case s == own:
		case !ok:
			useless = append(useless, n)
		case s.run != own.run:
			others = append(others, s)
		case s.attempt > own.attempt:
			late := failure.New(wirev1.FailureReason_FAILURE_REASON_SUPERSEDED,
				"attempt %d of the run has been at the destination; this is attempt %d, which came too late", s.attempt,
				own.attempt)
			late.NewestAttempt = s.attempt
			return nil, nil, late
		default:
			older = append(older, s)
		}
	}
	newestFirst := func(a, b stageName) int { return cmp.Compare(b.attempt, a.attempt) }
	slices.SortFunc(older, newestFirst)
	slices.SortFunc(others, newestFirst)
	if slices.ContainsFunc(others, func(s stageName) bool { return s.run != others[0].run }) {
		for _, s := range others {
			useless = append(useless, s.String())
		}
		return older, useless, nil
	}
	return append(older, others...), useless, nil
}

// makeStagingRoot makes the directory name and the one that it is in, which it returns.
func (d *Destination) makeStagingRoot(name string) (all dir, err error) {
	for range takeoverTries {
		if err = unix.Mkdirat(int(d.root), StagingName, 0o700); err != nil && err != unix.EEXIST {
			return -1, writeError("make", StagingName, err)
		}
		var fd int
		fd, err = d.root.open(StagingName, unix.O_RDONLY|unix.O_DIRECTORY, 0)
		switch err {
		case nil:
		case unix.ENOENT: // The last of the others has just removed it.
			continue
		case unix.ELOOP, unix.ENOTDIR:
			if err := unix.Unlinkat(int(d.root), StagingName, 0); err != nil && err != unix.ENOENT {
				return -1, writeError("remove what is in the place of", StagingName, err)
			}
			continue
		default:
			return -1, writeError("open", StagingName, err)
		}
		if err = unix.Mkdirat(int(d.root), name, 0o700); err == nil {
			return dir(fd), nil
		}
		_ = unix.Close(fd)
		if err != unix.ENOENT {
			return -1, writeError("make", name, err)
		}
	}
	return -1, writeError("make", name, err)
}

// takeOver moves the journal and the staged files of an earlier attempt here and removes the rest.
func (d *Destination) takeOver(all dir, from string) error {
	var err error
	for range takeoverTries {
		if err = d.moveFrom(all, from); err == nil {
			err = all.removeAll(from)
		}
		if err != unix.ENOTEMPTY && err != unix.EEXIST {
			return err
		}
	}
	return err
}

func (d *Destination) moveFrom(all dir, from string) error {
	fd, err := openat(int(all), from, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	switch err {
	case nil:
	case unix.ENOENT, unix.ENOTDIR, unix.ELOOP:
		return nil
	default:
		return err
	}
	defer unix.Close(fd)
	names, err := stagedNames(fd)
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, staged := stagedNumber(name); !staged && name != journal.Name {
			continue
		}
		var st unix.Stat_t
		if err := dir(fd).lstat(name, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
			continue
		}
		// The newest attempt comes first: what is here already is newer.
		if d.stage.lstat(name, &st) == nil {
			continue
		}
		if err := unix.Renameat(fd, name, int(d.stage), name); err != nil && err != unix.ENOENT {
			return err
		}
	}
	return nil
}

// stagedNames returns the names in a directory of ours, which has few, unsorted.
func stagedNames(fd int) ([]string, error) {
	var names []string
	buf := make([]byte, 8<<10)
	for {
		n, err := unix.ReadDirent(fd, buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			return names, err
		}
		_, _, names = unix.ParseDirent(buf[:n], -1, names)
	}
}

// stagedNumber returns the number of a staged file by its name.
func stagedNumber(name string) (number uint64, ok bool) {
	number, err := strconv.ParseUint(name, 10, 64)
	return number, err == nil && strconv.FormatUint(number, 10) == name
}

// checkOwned returns an error if another attempt has taken over.
func (d *Destination) checkOwned() error {
	var st unix.Stat_t
	switch err := fstat(int(d.stage), &st); {
	case err == unix.ESTALE, err == nil && st.Nlink == 0:
		return fenced()
	case err != nil:
		return writeError("look at", d.staging, err)
	}
	return nil
}

// stageError is writeError for what was done in the staging directory, where names vanish only when another attempt
// takes over.
func (d *Destination) stageError(did, path string, err error) error {
	if err == unix.ENOENT || err == unix.ESTALE {
		if err := d.checkOwned(); err != nil {
			return err
		}
	}
	return writeError(did, path, err)
}

// Staged returns how much of a staged file was written, in bytes on disk, and whether there is one.
func (d *Destination) Staged(number uint64) (bytes int64, exists bool, err error) {
	var st unix.Stat_t
	err = d.stage.lstat(strconv.FormatUint(number, 10), &st)
	if err == unix.ENOENT {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, writeError("look at a staged file in", d.staging, err)
	}
	return allocated(&st), true, nil
}

// allocated is how many bytes of a file have been written: those between them, in holes, take no blocks.
func allocated(st *unix.Stat_t) int64 { return min(st.Size, st.Blocks*512) }

// Clear removes all staged files but those to keep and returns how many bytes of them had been written. No file of the
// attempt may be staged yet, or any more.
func (d *Destination) Clear(keep func(number uint64) bool) (bytes int64, err error) {
	fd, err := d.root.open(d.staging, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return 0, d.stageError("open", d.staging, err)
	}
	defer unix.Close(fd)
	names, err := stagedNames(fd)
	if err != nil {
		return 0, writeError("read", d.staging, err)
	}
	for _, name := range names {
		number, staged := stagedNumber(name)
		if !staged || keep(number) {
			continue
		}
		var st unix.Stat_t
		if err := dir(fd).lstat(name, &st); err == nil {
			bytes += allocated(&st)
		}
		if err := unix.Unlinkat(fd, name, 0); err != nil && err != unix.ENOENT {
			return bytes, writeError("remove", d.staging+"/"+name, err)
		}
	}
	return bytes, nil
}

// Sync puts everything that was written so far, and the names that were given, on stable storage.
func (d *Destination) Sync() error {
	if err := unix.Syncfs(int(d.root)); err != nil {
		return writeError("sync the file system of", Root, err)
	}
	return nil
}

// Close closes the tree. Files that have their names stay, and so do staged files and a journal for the next attempt;
// without any the staging directory is removed. Closing again does nothing.
func (d *Destination) Close() error {
	if d.root < 0 {
		if d.finished >= 0 {
			_ = d.finished.close()
			d.finished = -1
		}
		return nil
	}
	var err error
	if d.stage >= 0 {
		err = d.leaveStaging()
	}
	d.closeAll()
	return err
}

func (d *Destination) leaveStaging() error {
	for _, name := range []string{directoriesName, linksName, seenName, linkName} {
		if err := unix.Unlinkat(int(d.stage), name, 0); err != nil && err != unix.ENOENT {
			return writeError("remove", d.staging+"/"+name, err)
		}
	}
	return d.removeEmpty()
}

// removeEmpty removes the attempt's staging directory and the one it is in, each unless something is in it.
func (d *Destination) removeEmpty() error {
	for _, name := range []string{d.staging, StagingName} {
		switch err := unix.Unlinkat(int(d.root), name, unix.AT_REMOVEDIR); err {
		case nil, unix.ENOENT:
		case unix.ENOTEMPTY, unix.EEXIST:
			return nil
		default:
			return writeError("remove", name, err)
		}
	}
	return nil
}

// removeStaging removes the attempt's staging directory with all that is in it.
func (d *Destination) removeStaging() error {
	if d.stage < 0 {
		return nil
	}
	if err := d.checkOwned(); err != nil {
		return err
	}
	_ = d.stage.close()
	d.stage = -1
	all, err := d.root.openDir(StagingName)
	if err != nil {
		return writeError("open", StagingName, err)
	}
	defer all.close()
	if err := all.removeAll(strings.TrimPrefix(d.staging, StagingName+"/")); err != nil {
		return writeError("remove", d.staging, err)
	}
	return d.removeEmpty()
}

// Staging returns the attempt's staging directory as the place for a journal.
func (d *Destination) Staging() journal.Dir { return stagingDir{d} }

type stagingDir struct{ d *Destination }

func (s stagingDir) open(name string, flags int) (journal.File, error) {
	fd, err := openat(int(s.d.stage), name, flags|unix.O_RDWR|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err == unix.ENOENT && flags == 0 {
		return nil, fs.ErrNotExist
	}
	if err != nil {
		return nil, s.d.stageError("open", s.d.staging+"/"+name, err)
	}
	return stagingFile{&StagedFile{destination: s.d, fd: fd, name: name, path: s.d.staging + "/" + name}}, nil
}

func (s stagingDir) Create(name string) (journal.File, error) {
	if err := unix.Unlinkat(int(s.d.stage), name, 0); err != nil && err != unix.ENOENT {
		return nil, s.d.stageError("remove", s.d.staging+"/"+name, err)
	}
	return s.open(name, unix.O_CREAT|unix.O_EXCL)
}

func (s stagingDir) Open(name string) (journal.File, error) { return s.open(name, 0) }

func (s stagingDir) Rename(from, to string) error {
	if err := unix.Renameat(int(s.d.stage), from, int(s.d.stage), to); err != nil {
		return s.d.stageError("rename", s.d.staging+"/"+from, err)
	}
	return nil
}

func (s stagingDir) Remove(name string) error {
	if err := unix.Unlinkat(int(s.d.stage), name, 0); err != nil && err != unix.ENOENT {
		return s.d.stageError("remove", s.d.staging+"/"+name, err)
	}
	return nil
}

func (s stagingDir) Sync() error {
	fd, err := s.d.root.open(s.d.staging, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return s.d.stageError("open", s.d.staging, err)
	}
	defer unix.Close(fd)
	if err := unix.Fsync(fd); err != nil {
		return writeError("sync", s.d.staging, err)
	}
	return nil
}

// stagingFile is a file in the staging directory that gets no name outside of it.
type stagingFile struct{ *StagedFile }

func (f stagingFile) Size() (int64, error) {
	var st unix.Stat_t
	if err := fstat(f.fd, &st); err != nil {
		return 0, writeError("look at", f.path, err)
	}
	return st.Size, nil
}
