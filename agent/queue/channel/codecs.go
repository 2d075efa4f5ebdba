// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package channel

import (
	"fmt"
	"slices"

	"github.com/lighterage/lighterage/agent/codec"
)

// ParseCodecs returns the codecs of a list of names. It fails for a name that is unknown or there twice.
func ParseCodecs(names []string) ([]codec.ID, error) {
	ids := make([]codec.ID, 0, len(names))
	for _, name := range names {
		id, err := codec.ParseID(name)
		if err != nil {
			return nil, err
		}
		if slices.Contains(ids, id) {
			return nil, fmt.Errorf("codec %s is listed twice", name)
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// Acceptance is which codecs a receiver takes. None is always among them.
type Acceptance struct {
	// Any that the receiver can read.
	Any    bool
	Codecs []codec.ID
}

// negotiate returns the first codec of the sender's list that the receiver accepts and can read, None if there is no
// such codec. Names that this release does not know are those of a newer one.
func negotiate(offered []string, accepts Acceptance, readable []codec.ID) codec.ID {
	for _, name := range offered {
		id, err := codec.ParseID(name)
		if err != nil {
			continue
		}
		if id == codec.None || slices.Contains(readable, id) && (accepts.Any || slices.Contains(accepts.Codecs, id)) {
			return id
		}
	}
	return codec.None
}
