// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sort"
	"time"

	"github.com/lighterage/lighterage/agent/frame"
)

// Run are neighbouring sequences: the first of them, and how many.
type Run [2]uint64

// Index says what has become of an archive's messages, and sums up its ranges.
type Index struct {
	Version int    `json:"version"`
	Queue   string `json:"queue"`
	Life    string `json:"life"`
	// From is the first sequence that the archive is about: what was before was deleted when its time had come.
	From uint64 `json:"from"`
	// To is the last one that it is about, and Time when it was written.
	To   uint64    `json:"to"`
	Time time.Time `json:"time"`
	// Below is the first sequence that may be in the queue still. Of those from it to To, Left are not.
	Below uint64 `json:"below"`
	Left  []Run  `json:"left,omitempty"`

	// Ranges and Bytes are the files that there are and their length.
	Ranges uint64 `json:"ranges"`
	Bytes  uint64 `json:"bytes"`
	// Messages, the length of their payloads as they were put, and that of the files with them, deleted ones included.
	Messages     uint64 `json:"messages"`
	PlainBytes   uint64 `json:"plainBytes"`
	WrittenBytes uint64 `json:"writtenBytes"`
	// Passed are sequences that had no message any more when the archive came to them.
	Passed uint64 `json:"passed"`
}

// Remains reports whether a message was in the queue when the index was written.
func (x *Index) Remains(sequence uint64) bool {
	if sequence < x.Below {
		return false
	}
	i := sort.Search(len(x.Left), func(i int) bool { return x.Left[i][0] > sequence })
	return i == 0 || sequence-x.Left[i-1][0] >= x.Left[i-1][1]
}

// runs are sequences, which grow, as runs: at most maxRuns.
func runs(sequences []uint64, to uint64) []Run {
	var all []Run
	for _, s := range sequences {
		if s > to {
			break
		}
		if n := len(all); n > 0 && all[n-1][0]+all[n-1][1] == s {
			all[n-1][1]++
			continue
		}
		if len(all) == maxRuns {
			break
		}
		all = append(all, Run{s, 1})
	}
	return all
}

// Encode returns the index as it is on the volume.
func (x *Index) Encode(e *Encoders) ([]byte, error) {
	text, err := json.Marshal(x)
	if err != nil {
		return nil, fmt.Errorf("write the index of an archive: %w", err)
	}
	block, _, err := e.blocks.AppendAt(nil, 0, text, true)
	return block, err
}

// DecodeIndex reads an index. Errors match ErrDamaged or ErrVersion.
func DecodeIndex(b []byte, decoder *frame.Decoder) (*Index, error) {
	h, err := frame.ParseHeader(b)
	if err != nil {
		return nil, broken(err)
	}
	if !h.Last || h.Seq != 0 {
		return nil, damaged("it is no index")
	}
	text, _, err := decoder.View(nil, h, b[frame.HeaderSize:])
	if err != nil {
		return nil, broken(err)
	}
	x := &Index{}
	if err := parse(text, x); err != nil {
		return nil, err
	}
	if x.Version != blocksVersion && x.Version != linesVersion {
		return nil, fmt.Errorf("%w: version %d", ErrVersion, x.Version)
	}
	after := uint64(0)
	for _, run := range x.Left {
		if run[0] <= after || run[1] == 0 || run[0]+run[1] < run[0] {
			return nil, damaged("its runs of messages are in disorder")
		}
		after = run[0] + run[1] - 1
	}
	if x.From == 0 || x.To != 0 && x.To < x.From-1 {
		return nil, damaged("it goes from %d to %d", x.From, x.To)
	}
	return x, nil
}

// ReadIndex reads the index of the archive; fs.ErrNotExist if it has none.
func (d *Directory) ReadIndex(decoder *frame.Decoder) (*Index, error) {
	f, err := d.files.open(indexName)
	if err != nil {
		return nil, fmt.Errorf("open %s/%s: %w", d.name, indexName, err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, frame.MaxBlock+1))
	if err != nil {
		return nil, fmt.Errorf("read %s/%s: %w", d.name, indexName, err)
	}
	x, err := DecodeIndex(b, decoder)
	if err != nil {
		return nil, d.wrong(indexName, err)
	}
	if Name(x.Queue, x.Life) != d.name {
		return nil, d.wrong(indexName, fmt.Errorf("%w: %s", ErrOther, Name(x.Queue, x.Life)))
	}
	return x, nil
}

// writeIndex replaces the index.
func (d *Directory) writeIndex(x *Index, e *Encoders, member string) error {
	block, err := x.Encode(e)
	if err != nil {
		return err
	}
	return d.write(indexName, block, member)
}

// absent reports whether an index is not there or not to be read, so that it is to be recreated from the ranges.
func absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrDamaged)
}
