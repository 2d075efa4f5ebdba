// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Progress of the present or last run.
//
// +structType=atomic
type Progress struct {
	// files that are at the destination, those that were there before included.
	// +optional
	Files int64 `json:"files"`
	// filesTotal found at the source so far.
	// +optional
	FilesTotal int64 `json:"filesTotal"`
	// bytes of those files, and of others what has arrived of them.
	// +optional
	Bytes int64 `json:"bytes"`
	// partialBytes are those of the bytes that belong to files which are not complete yet. They have no names, and may
	// come again, as resentBytes, if the attempt breaks off.
	// +optional
	PartialBytes int64 `json:"partialBytes,omitempty"`
	// bytesTotal found at the source so far.
	// +optional
	BytesTotal int64 `json:"bytesTotal"`
	// percent of bytesTotal, or of filesTotal when there are no bytes.
	// +optional
	Percent int32 `json:"percent"`
	// bytesPerSecond is the rate of uncompressed bytes: over the last seconds while running, over the whole attempt at
	// the end.
	// +optional
	BytesPerSecond int64 `json:"bytesPerSecond"`
	// eta is the time left at this rate.
	// +optional
	ETA *metav1.Duration `json:"eta,omitempty"`
	// unchangedFiles were at the destination already with the same size and modification time, and were not sent. A
	// mode that differs is corrected without sending.
	// +optional
	UnchangedFiles int64 `json:"unchangedFiles"`
	// unchangedBytes of those files.
	// +optional
	UnchangedBytes int64 `json:"unchangedBytes"`
	// resumedBytes were made safe by an earlier attempt of this run and not sent again. A Delivery counts those of
	// files that earlier attempts left unfinished.
	// +optional
	ResumedBytes int64 `json:"resumedBytes"`
	// resentBytes had been written by an earlier attempt of this run and came again, because they were not safe yet: at
	// most spec.checkpointInterval for each stream, and whatever changed since.
	// +optional
	ResentBytes int64 `json:"resentBytes"`
	// removed are files, links and directories that spec.delete removed at the destination.
	// +optional
	Removed int64 `json:"removed"`
	// reusedBytes of large files that changed were the same at the destination already, and were copied there instead
	// of sent.
	// +optional
	ReusedBytes int64 `json:"reusedBytes"`
	// holeBytes are of holes of sparse files, which are not sent and are holes at the destination.
	// +optional
	HoleBytes int64 `json:"holeBytes"`
}

// Omission counts what could not be moved or kept.
type Omission struct {
	// what was left out or not kept: Socket and Device were not moved; FIFO: the destination's file system has none;
	// HardLink: a further name, moved as a file of its own; Owner: the owner is now the agent's user; Mode: setuid,
	// setgid or sticky, which takes privilege; ExtendedAttribute: one that could not be read or kept, ACLs included;
	// Unreadable: lost+found of the volume; Attributes: mode or time of something that was there before and belongs to
	// someone else; Staging: a directory at the root that bears the name of the receiver's own; PathTooLong: a path of
	// more than 4095 bytes was not moved, a directory counts once with all that is in it; ObjectName: an object whose
	// name can be no file's, or a file whose path can be no object's name, was not moved; ObjectMissing: the index of
	// an object store names it, and there is no such object; Records: a file that is there and whose index does
	// not know spec.destination.records, because it does not consist of them or was there before. Of a scrub:
	// Damaged: what rests is not what was written;
	// IndexMissing: there is no index beside it, or in the prefix; IndexInvalid: the index is damaged, or of another
	// file, or does not tell the truth; IndexTooLong: the index has more than 21.25 MiB, and neither it nor its file was
	// verified; ObjectReplaced: an object is not the one that the index names, and Lighterage did not write it;
	// NoChecksum: nothing says what it should hold; Changing: it was another one each time that it was looked at.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	What string `json:"what,omitempty"`
	// count of files concerned.
	// +optional
	Count int64 `json:"count"`
	// examples are some of the paths.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=5
	Examples []string `json:"examples,omitempty"`
}
