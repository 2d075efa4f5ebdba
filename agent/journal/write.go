// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/zeebo/xxh3"
)

// Add records chunks of a file that are on stable storage: the first one's number and the digest of each. None of them
// may have been recorded before. It returns false if the journal has no space left; they then are not safe. Nothing is
// durable before Sync.
func (j *Journal) Add(e *Entry, first int64, digests [][DigestSize]byte) (bool, error) {
	for len(digests) > 0 {
		n := min(len(digests), maxChunks)
		ok, err := j.add(e, first, digests[:n])
		if err != nil || !ok {
			return false, err
		}
		first, digests = first+int64(n), digests[n:]
	}
	return true, nil
}

func (j *Journal) add(e *Entry, first int64, digests [][DigestSize]byte) (bool, error) {
	s, known := j.files[e.Number], true
	cost, size := int64(spanCost), int64(1+8+8+4+len(digests)*DigestSize)
	if s == nil {
		s, known = &state{Entry: *e}, false
		cost += fileCost + int64(len(e.Path))
		size += fileSize(e.Path)
	}
	if j.cost+cost > maxState || j.live+size > maxSize/2 {
		return false, nil
	}
	if err := j.space(size); err != nil {
		return false, err
	}
	if !known {
		j.appendFile(e)
		j.files[e.Number] = s
		j.paths[e.Path] = e.Number
	}
	s.spans = append(
		s.spans, span{Range: Range{first, int64(len(digests))}, at: j.appendRange(e.Number, first, int64(len(digests)))},
	)
	for i := range digests {
		j.buffer = append(j.buffer, digests[i][:]...)
	}
	j.cost += cost
	j.live += size
	return true, nil
}

// Done records that a file is not unfinished any more: it has its name, or was given up.
func (j *Journal) Done(number uint64) error {
	if j.files[number] == nil {
		return nil
	}
	if err := j.space(1 + 8); err != nil {
		return err
	}
	j.forget(number)
	j.buffer = append(j.buffer, recordDone)
	j.buffer = binary.BigEndian.AppendUint64(j.buffer, number)
	return nil
}

func (j *Journal) forget(number uint64) {
	s := j.files[number]
	delete(j.files, number)
	if j.paths[s.Path] == number {
		delete(j.paths, s.Path)
	}
	j.cost -= fileCost + int64(len(s.Path)) + spanCost*int64(len(s.spans))
	j.live -= fileSize(s.Path)
	for _, r := range s.spans {
		j.live -= 1 + 8 + 8 + 4 + r.Count*DigestSize
	}
}

// Sync makes durable what was recorded. After an error the journal records nothing any more.
func (j *Journal) Sync() error {
	if err := j.flush(true); err != nil {
		return err
	}
	if j.end > compactAt && j.end > 2*j.live {
		return j.rewrite()
	}
	return nil
}

// space makes sure that records of a size fit into the batch.
func (j *Journal) space(size int64) error {
	if int64(len(j.buffer))-batchFixed+size > maxBatch {
		return j.flush(true)
	}
	return j.broken
}

// flush writes the batch, if it has records.
func (j *Journal) flush(sync bool) error {
	if j.broken != nil || len(j.buffer) == batchFixed {
		return j.broken
	}
	b := j.buffer
	copy(b, batchMagic)
	binary.BigEndian.PutUint32(b[4:], uint32(len(b)-batchFixed))
	binary.BigEndian.PutUint64(b[8:], j.sequence)
	binary.BigEndian.PutUint64(b[16:], batchSum(b))
	_, err := j.file.WriteAt(b, j.end)
	if err == nil && sync {
		err = j.file.Sync()
	}
	if err != nil {
		// What of it is on disk is not known.
		j.broken = fmt.Errorf("write the journal: %w", err)
		return j.broken
	}
	j.end += int64(len(b))
	j.sequence++
	j.buffer = b[:batchFixed]
	return nil
}

// batchSum is the checksum of a batch.
func batchSum(b []byte) uint64 {
	h := xxh3.New()
	_, _ = h.Write(b[:batchFixed-checksum])
	_, _ = h.Write(b[batchFixed:])
	return h.Sum64()
}

func fileSize(path string) int64 { return 1 + 8 + 8 + 8 + 8 + 4 + 2 + int64(len(path)) }

func (j *Journal) appendFile(e *Entry) {
	b := append(j.buffer, recordFile)
	b = binary.BigEndian.AppendUint64(b, e.Number)
	b = binary.BigEndian.AppendUint64(b, uint64(e.Size))
	b = binary.BigEndian.AppendUint64(b, uint64(e.Modified))
	b = binary.BigEndian.AppendUint64(b, uint64(e.Changed))
	b = binary.BigEndian.AppendUint32(b, e.Mode)
	b = binary.BigEndian.AppendUint16(b, uint16(len(e.Path)))
	j.buffer = append(b, e.Path...)
}

// appendRange appends a range up to its digests and returns where in the file they will be.
func (j *Journal) appendRange(number uint64, first, count int64) (at int64) {
	b := append(j.buffer, recordRange)
	b = binary.BigEndian.AppendUint64(b, number)
	b = binary.BigEndian.AppendUint64(b, uint64(first))
	j.buffer = binary.BigEndian.AppendUint32(b, uint32(count))
	return j.end + int64(len(j.buffer))
}

// rewrite writes the journal again, without what is finished, and puts it in the place of the old one.
func (j *Journal) rewrite() error {
	if j.broken != nil {
		return j.broken
	}
	file, err := j.dir.Create(newName)
	if err != nil {
		return fmt.Errorf("rewrite the journal: %w", err)
	}
	fresh := newJournal(j.dir, j.header)
	fresh.file = file
	if err = fresh.begin(); err == nil {
		err = j.copyTo(fresh)
	}
	if err == nil {
		err = fresh.flush(false)
	}
	if err == nil {
		err = file.Sync()
	}
	if err == nil {
		err = j.dir.Rename(newName, Name)
	}
	if err == nil {
		err = j.dir.Sync()
	}
	if err != nil {
		_ = j.dir.Remove(newName)
		j.broken = fmt.Errorf("rewrite the journal: %w", errors.Join(err, file.Close()))
		return j.broken
	}
	_ = j.Close()
	*j = *fresh
	return nil
}

// begin writes the header.
func (j *Journal) begin() error {
	h := j.header
	if len(h.Run) > maxName || len(h.Sender) > maxName {
		return errors.New("the names of run and sender are too long")
	}
	b := binary.BigEndian.AppendUint16([]byte(magic), version)
	b = binary.BigEndian.AppendUint16(b, uint16(4+4+2+len(h.Run)+2+len(h.Sender)))
	b = binary.BigEndian.AppendUint32(b, h.Attempt)
	b = binary.BigEndian.AppendUint32(b, h.ChunkSize)
	b = append(binary.BigEndian.AppendUint16(b, uint16(len(h.Run))), h.Run...)
	b = append(binary.BigEndian.AppendUint16(b, uint16(len(h.Sender))), h.Sender...)
	b = binary.BigEndian.AppendUint64(b, xxh3.Hash(b))
	if _, err := j.file.WriteAt(b, 0); err != nil {
		return err
	}
	j.end, j.sequence, j.buffer = int64(len(b)), 1, make([]byte, batchFixed)
	return nil
}

// copyTo records in a fresh journal what is unfinished in this one.
func (j *Journal) copyTo(fresh *Journal) error {
	numbers := make([]uint64, 0, len(j.files))
	for n := range j.files {
		numbers = append(numbers, n)
	}
	slices.Sort(numbers)
	for _, n := range numbers {
		var pending [][DigestSize]byte
		var begin int64 // number of the first of them
		for from := int64(0); ; {
			first, digests, err := j.Digests(n, from)
			if err != nil {
				return err
			}
			if len(pending) > 0 && (len(digests) == 0 || first != from || len(pending)+len(digests) > maxChunks) {
				ok, err := fresh.Add(&j.files[n].Entry, begin, pending)
				if err != nil || !ok {
					return errors.Join(err, errors.New("no space is left in it"))
				}
				pending = nil
			}
			if len(digests) == 0 {
				break
			}
			if pending == nil {
				begin = first
			}
			pending = append(pending, digests...)
			from = first + int64(len(digests))
		}
	}
	return nil
}
