// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package dictionary

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/dictionaries"
	"github.com/lighterage/lighterage/agent/queue/store"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// errEntry says that what is kept under a subject is no dictionary.
var errEntry = errors.New("invalid entry of a dictionary")

// entry is a dictionary as the queue keeps it.
type entry struct {
	codec   codec.ID
	about   *wirev1.QueueDictionary
	content []byte
	// sequence in the stream of dictionaries.
	sequence uint64
}

// marshal returns what is kept of a dictionary.
func marshal(about *wirev1.QueueDictionary, content []byte) ([]byte, error) {
	return proto.Marshal(&wirev1.StoredDictionary{About: about, Content: content})
}

// parseEntry reads what is kept of the dictionary with a number. The error matches errEntry. Whether the tables of the
// content are sound its decoder says.
func parseEntry(number uint32, data []byte) (entry, error) {
	if len(data) > store.MaxDictionaryEntry {
		return entry{}, fmt.Errorf("%w: %d bytes", errEntry, len(data))
	}
	var stored wirev1.StoredDictionary
	if err := proto.Unmarshal(data, &stored); err != nil {
		return entry{}, fmt.Errorf("%w: %w", errEntry, err)
	}
	id := codec.Zstd // The first release with dictionaries did not write which.
	var err error
	if name := stored.GetAbout().GetCodec(); name != "" {
		if id, err = codec.ParseID(name); err != nil {
			return entry{}, fmt.Errorf("%w: %w", errEntry, err)
		}
	}
	format, err := dictionaries.Of(id)
	if err != nil {
		return entry{}, fmt.Errorf("%w: %w", errEntry, err)
	}
	found, err := format.Number(stored.GetContent())
	if err != nil {
		return entry{}, fmt.Errorf("%w: %w", errEntry, err)
	}
	if found != number || stored.GetAbout().GetNumber() != number {
		return entry{}, fmt.Errorf("%w: dictionary %d under number %d", errEntry, found, number)
	}
	about := stored.GetAbout()
	about.Bytes = uint32(len(stored.GetContent()))
	return entry{codec: id, about: about, content: stored.GetContent()}, nil
}

// currentName is that of the record which says what is in use.
const currentName = "current"

// numberOf reads the number from a subject of the stream.
func numberOf(queue, subject string) (uint32, bool) {
	name, found := strings.CutPrefix(subject, store.DictionarySubject(queue, ""))
	n, err := strconv.ParseUint(name, 10, 32)
	return uint32(n), found && err == nil && n > 0
}

func subjectOf(queue string, number uint32) string {
	return store.DictionarySubject(queue, strconv.FormatUint(uint64(number), 10))
}
