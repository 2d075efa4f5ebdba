// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package receipt

import (
	"bytes"
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
)

// MaxBytes is the longest receipt in bytes.
const MaxBytes = 12 << 10

// ErrSignature is returned when a signature is missing or is not of what it is said to be.
var ErrSignature = errors.New("the signature does not verify")

// Envelope is a DSSE envelope. See https://github.com/secure-systems-lab/dsse.
type Envelope struct {
	PayloadType string      `json:"payloadType"`
	Payload     []byte      `json:"payload"`
	Signatures  []Signature `json:"signatures"`
}

// Signature of an envelope.
type Signature struct {
	KeyID string `json:"keyid"`
	Sig   []byte `json:"sig"`
}

// PrivateKey signs.
type PrivateKey ed25519.PrivateKey

// ID is the identifier of the key: its public part in hexadecimal digits.
func (k PrivateKey) ID() string {
	return hex.EncodeToString(ed25519.PrivateKey(k).Public().(ed25519.PublicKey))
}

// ParseKeyID returns the public key that an identifier is.
func ParseKeyID(id string) (ed25519.PublicKey, error) {
	key, err := hex.DecodeString(id)
	if err != nil || len(key) != ed25519.PublicKeySize || hex.EncodeToString(key) != id {
		return nil, fmt.Errorf(
			"%w: %.80q is not the identifier of a key, which has 64 lower-case hexadecimal digits", ErrMalformed, id,
		)
	}
	return key, nil
}

// encoding is what is signed: PAE of DSSE, version 1.
func encoding(payload []byte) []byte {
	b := append([]byte("DSSEv1 "), strconv.Itoa(len(PayloadType))...)
	b = append(append(append(b, ' '), PayloadType...), ' ')
	b = append(strconv.AppendInt(b, int64(len(payload)), 10), ' ')
	return append(b, payload...)
}

// sign adds a signature.
func (e *Envelope) sign(key PrivateKey) {
	e.Signatures = append(e.Signatures, Signature{
		KeyID: key.ID(), Sig: ed25519.Sign(ed25519.PrivateKey(key), encoding(e.Payload)),
	})
}

// Encode writes the one form in which an envelope is read.
func (e *Envelope) Encode() ([]byte, error) {
	b, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("encoding a receipt: %w", err)
	}
	if len(b) > MaxBytes {
		return nil, fmt.Errorf("%w: it has %d bytes; the limit is %d", ErrMalformed, len(b), MaxBytes)
	}
	return b, nil
}

// parse reads an envelope with as many signatures, and checks each with the key that the payload names for its place.
// That proves that the signer has this key and nothing else: whose key it is only an anchor can say.
func parse(b []byte, signatures int) (*Envelope, *Statement, error) {
	if len(b) > MaxBytes {
		return nil, nil, fmt.Errorf("%w: it has %d bytes; the limit is %d", ErrMalformed, len(b), MaxBytes)
	}
	envelope, statement := &Envelope{}, &Statement{}
	if err := decode(b, envelope); err != nil {
		return nil, nil, err
	}
	// An envelope is not signed, so there must be no second way to write one: of base64 there are several.
	if canonical, err := envelope.Encode(); err != nil || !bytes.Equal(canonical, b) {
		return nil, nil, fmt.Errorf("%w: its envelope is not in the canonical form", ErrMalformed)
	}
	if envelope.PayloadType != PayloadType {
		return nil, nil, fmt.Errorf("%w: its payload is of type %.100q", ErrMalformed, envelope.PayloadType)
	}
	if err := decode(envelope.Payload, statement); err != nil {
		return nil, nil, err
	}
	if err := statement.check(); err != nil {
		return nil, nil, err
	}
	if n := len(envelope.Signatures); n != signatures {
		return nil, nil, fmt.Errorf("%w: it has %d signatures instead of %d", ErrSignature, n, signatures)
	}
	signed, p := encoding(envelope.Payload), &statement.Predicate
	for i, id := range []string{p.Sender.KeyID, p.Receiver.KeyID}[:signatures] {
		role := []string{"sender", "receiver"}[i]
		if envelope.Signatures[i].KeyID != id {
			return nil, nil, fmt.Errorf("%w: the signature of the %s is not by the key that the receipt names", ErrSignature,
				role)
		}
		key, err := ParseKeyID(id)
		if err != nil {
			return nil, nil, err
		}
		if !ed25519.Verify(key, signed, envelope.Signatures[i].Sig) {
			return nil, nil, fmt.Errorf("%w: that of the %s", ErrSignature, role)
		}
	}
	return envelope, statement, nil
}

// Offer returns the receipt with the signature of the sending cluster.
func Offer(sender Sender, receiver Receiver, key PrivateKey) ([]byte, error) {
	statement := newStatement(sender, receiver)
	if err := statement.check(); err != nil {
		return nil, err
	}
	if sender.KeyID != key.ID() {
		return nil, fmt.Errorf("%w: the sender's part names another key", ErrSignature)
	}
	payload, err := json.Marshal(statement)
	if err != nil {
		return nil, fmt.Errorf("encoding a receipt: %w", err)
	}
	envelope := &Envelope{PayloadType: PayloadType, Payload: payload}
	envelope.sign(key)
	return envelope.Encode()
}

// Countersign adds the signature of the receiving cluster to what the sending cluster has signed. It must have the
// receiver's own part, field by field. What the sender says of itself is its claim.
func Countersign(offer []byte, own Receiver, key PrivateKey) ([]byte, error) {
	envelope, statement, err := parse(offer, 1)
	if err != nil {
		return nil, err
	}
	if statement.Predicate.Receiver != own {
		return nil, fmt.Errorf("%w: it states another part of the receiver than the receiver's own", ErrContradiction)
	}
	if own.KeyID != key.ID() {
		return nil, fmt.Errorf("%w: the receiver's part names another key", ErrSignature)
	}
	envelope.sign(key)
	return envelope.Encode()
}

// Complete checks that a receipt has what the sender had offered, and both signatures.
func Complete(offer, complete []byte) error {
	offered, _, err := parse(offer, 1)
	if err != nil {
		return err
	}
	envelope, _, err := parse(complete, 2)
	if err != nil {
		return err
	}
	if !bytes.Equal(offered.Payload, envelope.Payload) ||
		!slices.Equal(offered.Signatures[0].Sig, envelope.Signatures[0].Sig) {
		return fmt.Errorf("%w: the peer signed something else than what was offered", ErrContradiction)
	}
	return nil
}

// Adopt returns what a receipt with both signatures states, for a sender that has lost its own record of it. owns says
// whether a key is the sender's.
func Adopt(complete []byte, run Run, uid string, contents Contents, owns func(keyID string) bool) error {
	_, statement, err := parse(complete, 2)
	if err != nil {
		return err
	}
	sender := &statement.Predicate.Sender
	if sender.Run != run || sender.UID != uid || sender.Contents != contents || !owns(sender.KeyID) {
		return fmt.Errorf("%w: the peer has a receipt of another run, or of another signer", ErrContradiction)
	}
	return nil
}

// Offered returns the part of the receiver in what a sender has signed.
func Offered(offer []byte) (*Receiver, error) {
	_, statement, err := parse(offer, 1)
	if err != nil {
		return nil, err
	}
	return &statement.Predicate.Receiver, nil
}
