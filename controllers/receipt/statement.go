// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package receipt

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	kjson "sigs.k8s.io/json"
)

// Types that receipts state. PredicateType changes when a verifier of before would misread what is new.
const (
	StatementType = "https://in-toto.io/Statement/v1"
	PredicateType = "https://lighterage.dev/receipt/v1"
	PayloadType   = "application/vnd.in-toto+json"

	// SubjectName is that of the one subject, the content manifest.
	SubjectName = "contents"
	// ContentsFormat is the form of the content manifest.
	ContentsFormat = "lighterage-contents-v1"
)

// Scope is what figures are of.
type Scope string

// Scopes.
const (
	// ScopeRun: all attempts of the run, also those that failed or were killed, by their last reports.
	ScopeRun Scope = "run"
	// ScopeAttempt: the last attempt alone.
	ScopeAttempt Scope = "attempt"
)

// maxText is the longest string of a receipt in bytes: a path.
const maxText = 4096

// ErrMalformed is returned for what is no receipt of this form.
var ErrMalformed = errors.New("not a receipt")

// ErrContradiction is returned for parts that say different things of one run.
var ErrContradiction = errors.New("the parts of the receipt contradict each other")

// Statement is the payload of a receipt.
type Statement struct {
	Type          string    `json:"_type"`
	Subject       []Subject `json:"subject"`
	PredicateType string    `json:"predicateType"`
	Predicate     Predicate `json:"predicate"`
}

// Subject is what a receipt is about.
type Subject struct {
	Name   string `json:"name"`
	Digest Digest `json:"digest"`
}

// Digest in lower-case hexadecimal digits.
type Digest struct {
	SHA256 string `json:"sha256"`
}

// Predicate has what each side says.
type Predicate struct {
	Sender   Sender   `json:"sender"`
	Receiver Receiver `json:"receiver"`
}

// Run names an attempt of a Transfer, the last one of its run, by the names of the sending cluster.
type Run struct {
	Namespace string `json:"namespace"`
	Transfer  string `json:"transfer"`
	ID        string `json:"id"`
	Attempt   int64  `json:"attempt"`
}

// Contents is what a side found in its files.
type Contents struct {
	Format string `json:"format"`
	SHA256 string `json:"sha256"`
	// Entries are files and symbolic links, Bytes those of the files.
	Entries int64 `json:"entries"`
	Bytes   int64 `json:"bytes"`
}

// Party is what both sides say of themselves.
type Party struct {
	// Cluster is the name that the cluster gives itself. It proves nothing: the key does.
	Cluster string `json:"cluster"`
	KeyID   string `json:"keyID"`
	// Peer is the name under which this side knows the other one; empty within a cluster.
	Peer      string `json:"peer,omitempty"`
	Run       Run    `json:"run"`
	Namespace string `json:"namespace"`
	// Claim that holds the files, empty if it is ObjectStore that does: an object of that name.
	Claim       string `json:"claim"`
	ObjectStore string `json:"objectStore,omitempty"`
	// Path is from the root of the claim, or from the prefix of the ObjectStore.
	Path string `json:"path"`
	// StartTime and CompletionTime are of the run at the sender and of the attempt at the receiver, SignedTime is when
	// the part was written. All are of this side's clock.
	StartTime      Time     `json:"startTime"`
	CompletionTime Time     `json:"completionTime"`
	SignedTime     Time     `json:"signedTime"`
	Contents       Contents `json:"contents"`
	// Scope is what wireBytes, cpuSeconds and codecSeconds are of, and the sender's uncompressedBytes and
	// compressedBytes. All other figures are of the last attempt.
	Scope Scope `json:"scope"`
	// WireBytes were written to and read from the network, TLS included.
	WireBytes int64 `json:"wireBytes"`
	// Files and Bytes that are at the destination; those that had been there before are in UnchangedFiles, too.
	Files          int64 `json:"files"`
	Bytes          int64 `json:"bytes"`
	UnchangedFiles int64 `json:"unchangedFiles"`
	// CPUSeconds of this side's agent, CodecSeconds and DigestSeconds of them to compress or expand, and to digest for
	// the receipt. Decimals.
	CPUSeconds    string `json:"cpuSeconds"`
	CodecSeconds  string `json:"codecSeconds"`
	DigestSeconds string `json:"digestSeconds"`
}

// Sender is the sending cluster's part.
type Sender struct {
	Party
	// UID of the Transfer.
	UID string `json:"uid"`
	// Codec, Engine and Level of most of the data that the attempt compressed.
	Codec  string `json:"codec"`
	Engine string `json:"engine"`
	Level  string `json:"level,omitempty"`
	// UncompressedBytes and CompressedBytes that were sent.
	UncompressedBytes int64 `json:"uncompressedBytes"`
	CompressedBytes   int64 `json:"compressedBytes"`
	// HardwareBytes, SoftwareBytes and StoredBytes are the plain bytes by the class of engine.
	HardwareBytes int64 `json:"hardwareBytes"`
	SoftwareBytes int64 `json:"softwareBytes"`
	StoredBytes   int64 `json:"storedBytes"`
}

// Receiver is the receiving cluster's part.
type Receiver struct {
	Party
	// HardwareBytes and SoftwareBytes are the plain bytes by the class of engine that expanded them.
	HardwareBytes int64 `json:"hardwareBytes"`
	SoftwareBytes int64 `json:"softwareBytes"`
}

// Time is a second, in UTC.
type Time struct{ time.Time }

// At returns the second of a time.
func At(t time.Time) Time { return Time{t.UTC().Truncate(time.Second)} }

// MarshalJSON implements json.Marshaler.
func (t Time) MarshalJSON() ([]byte, error) {
	return json.Marshal(t.Time.UTC().Format(time.RFC3339)) //nolint:wrapcheck // a string
}

// UnmarshalJSON implements json.Unmarshaler. It accepts what MarshalJSON writes and no other form.
func (t *Time) UnmarshalJSON(b []byte) error {
	text := strings.Trim(string(b), `"`)
	parsed, err := time.Parse("2006-01-02T15:04:05Z", text)
	if err != nil || parsed.Format(time.RFC3339) != text || len(b) != len(text)+2 {
		return fmt.Errorf("%w: the time %.40q is not of the form 2006-01-02T15:04:05Z", ErrMalformed, text)
	}
	t.Time = parsed
	return nil
}

// decode reads JSON that has every field once, and no other.
func decode(b []byte, into any) error {
	strict, err := kjson.UnmarshalStrict(b, into)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if len(strict) > 0 {
		return fmt.Errorf("%w: %w", ErrMalformed, errors.Join(strict...))
	}
	return nil
}

// ParseReceiver reads the part of a receiving cluster, which may be hostile.
func ParseReceiver(b []byte) (*Receiver, error) {
	part := &Receiver{}
	if len(b) > MaxBytes {
		return nil, fmt.Errorf("%w: %d bytes; a part has at most %d", ErrMalformed, len(b), MaxBytes)
	}
	if err := decode(b, part); err != nil {
		return nil, err
	}
	return part, part.check()
}

// Encode writes the part as ParseReceiver reads it.
func (r *Receiver) Encode() ([]byte, error) {
	b, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encoding the receiver's part of a receipt: %w", err)
	}
	return b, nil
}

// newStatement joins the parts.
func newStatement(sender Sender, receiver Receiver) *Statement {
	return &Statement{
		Type:          StatementType,
		Subject:       []Subject{{Name: SubjectName, Digest: Digest{SHA256: sender.Contents.SHA256}}},
		PredicateType: PredicateType,
		Predicate:     Predicate{Sender: sender, Receiver: receiver},
	}
}

// check says whether the statement is one of this form, and whether its parts are of the same run.
func (s *Statement) check() error {
	switch {
	case s.Type != StatementType:
		return fmt.Errorf("%w: it is of type %.100q", ErrMalformed, s.Type)
	case s.PredicateType != PredicateType:
		return fmt.Errorf("%w: its predicate is of type %.100q, and this release reads %s", ErrMalformed, s.PredicateType,
			PredicateType)
	case len(s.Subject) != 1 || s.Subject[0].Name != SubjectName:
		return fmt.Errorf("%w: it has %d subjects instead of the one named %q", ErrMalformed, len(s.Subject), SubjectName)
	}
	sender, receiver := &s.Predicate.Sender, &s.Predicate.Receiver
	if err := errors.Join(sender.check(), receiver.check()); err != nil {
		return err
	}
	switch {
	case sender.Run != receiver.Run:
		return fmt.Errorf("%w: the sender says run %+v, the receiver %+v", ErrContradiction, sender.Run, receiver.Run)
	case sender.Contents != receiver.Contents:
		return fmt.Errorf("%w: the sender sent %+v, the receiver holds %+v", ErrContradiction, sender.Contents,
			receiver.Contents)
	case sender.Peer != "" && sender.KeyID == receiver.KeyID:
		// Or the receiver could name the sender's key and use its signature as both.
		return fmt.Errorf("%w: both parts name one key", ErrContradiction)
	case s.Subject[0].Digest.SHA256 != sender.Contents.SHA256:
		return fmt.Errorf("%w: the subject is not what the parts say", ErrContradiction)
	}
	return nil
}

func (s *Sender) check() error {
	return errors.Join(s.Party.check(), texts(s.UID, s.Codec, s.Engine, s.Level),
		counts(s.UncompressedBytes, s.CompressedBytes, s.HardwareBytes, s.SoftwareBytes, s.StoredBytes))
}

func (r *Receiver) check() error {
	return errors.Join(r.Party.check(), counts(r.HardwareBytes, r.SoftwareBytes))
}

func (p *Party) check() error {
	if _, err := ParseKeyID(p.KeyID); err != nil {
		return err
	}
	if digest, err := hex.DecodeString(p.Contents.SHA256); err != nil || len(digest) != 32 ||
		strings.ToLower(p.Contents.SHA256) != p.Contents.SHA256 {
		return fmt.Errorf("%w: %.100q is not the SHA-256 of a content manifest", ErrMalformed, p.Contents.SHA256)
	}
	if p.Contents.Format != ContentsFormat {
		return fmt.Errorf("%w: its content manifest is of the form %.100q, and this release reads %s", ErrMalformed,
			p.Contents.Format, ContentsFormat)
	}
	if p.Run.ID == "" || p.Run.Namespace == "" || p.Run.Transfer == "" || p.Run.Attempt < 1 {
		return fmt.Errorf("%w: it names no run", ErrMalformed)
	}
	if p.Scope != ScopeRun && p.Scope != ScopeAttempt {
		return fmt.Errorf("%w: its figures are of %.100q", ErrMalformed, p.Scope)
	}
	if p.Claim != "" && p.ObjectStore != "" {
		return fmt.Errorf("%w: it names a claim and an ObjectStore", ErrMalformed)
	}
	return errors.Join(
		texts(p.Cluster, p.Peer, p.Run.ID, p.Run.Namespace, p.Run.Transfer, p.Namespace, p.Claim, p.ObjectStore, p.Path,
			p.CPUSeconds, p.CodecSeconds, p.DigestSeconds),
		counts(p.Run.Attempt, p.Contents.Entries, p.Contents.Bytes, p.WireBytes, p.Files, p.Bytes, p.UnchangedFiles),
	)
}

func texts(all ...string) error {
	for _, text := range all {
		if len(text) > maxText {
			return fmt.Errorf("%w: a text of %d bytes; the limit is %d", ErrMalformed, len(text), maxText)
		}
	}
	return nil
}

func counts(all ...int64) error {
	for _, n := range all {
		if n < 0 || n == math.MaxInt64 {
			return fmt.Errorf("%w: %d is no count", ErrMalformed, n)
		}
	}
	return nil
}
