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

// RecordFormat says how the records of a file are told apart.
// +kubebuilder:validation:Enum=Lines;Fixed;RDW
type RecordFormat string

const (
	// RecordLines end in a newline.
	RecordLines RecordFormat = "Lines"
	// RecordFixed have one length (LRECL).
	RecordFixed RecordFormat = "Fixed"
	// RecordRDW begin with a record descriptor word.
	RecordRDW RecordFormat = "RDW"
)

// FileRecords are what files consist of.
// +kubebuilder:validation:XValidation:rule="(self.format == 'Fixed') == has(self.length)",message="records of a fixed length have one, and no others; add length with format: Fixed, or remove it"
type FileRecords struct {
	// format of the records. Lines: each ends in a newline. Fixed: all have the same length (LRECL), with nothing between
	// them. RDW: each begins with a record descriptor word of 4 bytes (RECFM V, without block descriptor words); the
	// segments of a spanned record are one.
	// +required
	Format RecordFormat `json:"format,omitempty"`

	// length of each record in bytes, with format: Fixed.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1073741824
	Length int32 `json:"length,omitempty"`
}
