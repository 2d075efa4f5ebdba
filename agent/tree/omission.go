// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"slices"
	"sync"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// What can be left out or not be kept.
const (
	// OmittedSocket and OmittedDevice are not moved.
	OmittedSocket = "Socket"
	OmittedDevice = "Device"
	// OmittedFIFO: the file system of the destination has none.
	OmittedFIFO = "FIFO"
	// OmittedHardLink: a further name of a symbolic link or a FIFO, or a name of a file that has too many or is one of
	// too many such files, moved as a file of its own.
	OmittedHardLink = "HardLink"
	// OmittedOwner: owner or group could not be kept, which takes privilege.
	OmittedOwner = "Owner"
	// OmittedMode: setuid, setgid or sticky could not be kept, which takes privilege.
	OmittedMode = "Mode"
	// OmittedXattr: an extended attribute or an ACL could not be read or kept.
	OmittedXattr = "ExtendedAttribute"
	// OmittedUnreadable: lost+found of a volume, which is the file system's own.
	OmittedUnreadable = "Unreadable"
	// OmittedStaging: a directory at the root that has the name of the receiver's staging directory, or an entry that has
	// the name of what is reserved in an object store.
	OmittedStaging = "Staging"
	// OmittedPath: a path of more than MaxPath bytes, which is not moved. A directory counts once, for all that is in
	// it.
	OmittedPath = "PathTooLong"
	// OmittedObject: an object whose name is no path, or that has others below it, or a file whose path can be no
	// object's name, or a further name of a file that is not stored.
	OmittedObject = "ObjectName"
	// OmittedMissing: an object that the index of an object store names, and that is not there.
	OmittedMissing = "ObjectMissing"
	// OmittedRecords: a file that is there without the numbers of the records asked for: it does not consist of them, or
	// was there before.
	OmittedRecords = "Records"
	// OmittedAttributes: mode or time of something that was there before and belongs to someone else.
	OmittedAttributes = "Attributes"
)

// maxExamples is how many paths are kept of each kind, maxExample how many bytes of each.
const (
	maxExamples = 5
	maxExample  = 256
)

// Omissions counts what could not be moved or kept. The zero value is ready; it is safe for concurrent use.
type Omissions struct {
	mu   sync.Mutex
	kind map[string]*wirev1.Omission
}

// Add counts one entry.
func (o *Omissions) Add(what, path string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.kind == nil {
		o.kind = make(map[string]*wirev1.Omission)
	}
	k := o.kind[what]
	if k == nil {
		k = &wirev1.Omission{What: what}
		o.kind[what] = k
	}
	k.Count++
	if len(k.Examples) < maxExamples {
		k.Examples = append(k.Examples, printable(path))
	}
}

// Reset forgets what was counted.
func (o *Omissions) Reset() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.kind = nil
}

// Count returns how many entries were counted of a kind.
func (o *Omissions) Count(what string) uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.kind[what].GetCount()
}

// ToWire returns what was counted, sorted by kind.
func (o *Omissions) ToWire() []*wirev1.Omission {
	o.mu.Lock()
	defer o.mu.Unlock()
	var all []*wirev1.Omission
	for _, k := range o.kind {
		all = append(all, &wirev1.Omission{What: k.What, Count: k.Count, Examples: slices.Clone(k.Examples)})
	}
	slices.SortFunc(all, func(a, b *wirev1.Omission) int {
		if a.What < b.What {
			return -1
		}
		return 1
	})
	return all
}
