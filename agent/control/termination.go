// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"fmt"
	"os"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/lighterage/lighterage/agent/failure"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// MaxTermination is what Kubernetes keeps of a termination message in bytes.
const MaxTermination = 4096

// WriteTermination writes the final report to the file that becomes the container's termination message.
func WriteTermination(path string, r *wirev1.Report) error {
	message, err := Termination(r)
	if err != nil {
		return err
	}
	// The file is there, a mount of the container runtime: it can be written but neither made nor replaced.
	if err := os.WriteFile(path, message, 0o644); err != nil {
		return fmt.Errorf("write the termination message: %w", err)
	}
	return nil
}

// Termination returns a report as JSON in at most MaxTermination bytes. What does not fit is left out: first examples
// of omissions, then the end of messages, then omissions and the counts by reason. Of several receivers all get
// shorter together, until nothing but how they ended is left.
func Termination(r *wirev1.Report) ([]byte, error) {
	r = proto.CloneOf(r)
	cutMessages(r, MaxTermination) // Makes them UTF-8, too.
	steps := []func(){
		func() {},
		func() { cutExamples(r, 1) },
		func() { cutExamples(r, 0) },
		func() { cutMessages(r, 512) },
		func() { cutMessages(r, 128) },
		func() { r.Omissions = r.Omissions[:min(len(r.Omissions), 8)] },
		func() {
			r.Omissions = nil
			if r.Compression != nil {
				r.Compression.Skipped, r.Compression.Reasons = nil, nil
			}
		},
		// Names that no agent makes this long; what is left has a bounded length.
		func() {
			r.Version, r.Architecture, r.Detail = cut(r.Version), cut(r.Architecture), ""
			if c := r.Compression; c != nil {
				c.Codec, c.Engine, c.Reason, c.Level = cut(c.Codec), cut(c.Engine), cut(c.Reason), cut(c.Level)
			}
		},
		func() { r.Trial = nil }, // Package trial makes it short enough to fit.
		func() { cutReceivers(r, withoutOmissions) },
		func() { cutReceivers(r, figures) },
		func() { cutReceivers(r, outcome) },
		func() { r.Receivers = nil },
	}
	for _, step := range steps {
		step()
		message, err := protojson.Marshal(r)
		if err != nil {
			return nil, fmt.Errorf("write the report as JSON: %w", err)
		}
		if len(message) <= MaxTermination {
			return message, nil
		}
	}
	return nil, fmt.Errorf("the report does not fit into %d bytes", MaxTermination)
}

// cutReceivers replaces the reports of receivers by what is kept of them.
func cutReceivers(r *wirev1.Report, keep func(*wirev1.Report) *wirev1.Report) {
	for name, encoded := range r.Receivers {
		one := &wirev1.Report{}
		err := proto.Unmarshal(encoded, one)
		if err == nil {
			encoded, err = proto.Marshal(keep(one))
		}
		if err != nil {
			delete(r.Receivers, name)
			continue
		}
		r.Receivers[name] = encoded
	}
}

func withoutOmissions(r *wirev1.Report) *wirev1.Report {
	cutMessages(r, 128)
	r.Omissions, r.Detail = nil, ""
	return r
}

// figures are what a run is charged for.
func figures(r *wirev1.Report) *wirev1.Report {
	cutMessages(r, 64)
	kept := &wirev1.Report{
		State: r.State, Failure: r.Failure, Progress: r.Progress, Cpu: r.Cpu, WireBytes: r.WireBytes, Contents: r.Contents,
	}
	if c := r.Compression; c != nil {
		kept.Compression = &wirev1.Compression{
			Codec: c.Codec, Engine: c.Engine, Reason: c.Reason, UncompressedBytes: c.UncompressedBytes,
			CompressedBytes: c.CompressedBytes, Hardware: c.Hardware, Software: c.Software, Stored: c.Stored,
		}
	}
	return kept
}

func outcome(r *wirev1.Report) *wirev1.Report {
	kept := &wirev1.Report{State: r.State}
	if r.Failure != nil {
		kept.Failure = &wirev1.Failure{Reason: r.Failure.Reason, NewestAttempt: r.Failure.NewestAttempt}
	}
	return kept
}

func cut(s string) string { return failure.Shorten(s, 32) }

func cutExamples(r *wirev1.Report, most int) {
	for _, o := range r.Omissions {
		o.Examples = o.Examples[:min(len(o.Examples), most)]
	}
}

func cutMessages(r *wirev1.Report, limit int) {
	if r.Failure != nil {
		r.Failure.Message = failure.Shorten(r.Failure.Message, limit)
	}
	r.Detail = failure.Shorten(r.Detail, limit)
	for _, promise := range r.Promises {
		promise.Message = failure.Shorten(promise.Message, limit)
	}
}
