// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// RestingForm says how files rest at a destination.
// +kubebuilder:validation:Enum=Files;Gzip;Zstd;Archive
type RestingForm string

const (
	// RestingFiles are files as they are.
	RestingFiles RestingForm = "Files"
	// RestingGzip are gzip files of one member: a.csv rests as a.csv.gz.
	RestingGzip RestingForm = "Gzip"
	// RestingZstd are files of Zstandard frames: a.csv rests as a.csv.zst.
	RestingZstd RestingForm = "Zstd"
	// RestingArchive are tar archives of many files, in an object store or a claim.
	RestingArchive RestingForm = "Archive"
)

// Archived reports whether files rest in archives.
func (f RestingForm) Archived() bool { return f == RestingArchive }

// Compressed reports whether files rest in another form than their own.
func (f RestingForm) Compressed() bool { return f != "" && f != RestingFiles }
