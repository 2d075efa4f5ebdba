// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package receipt

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// MaxKeySet is the longest set of keys in bytes: that of a ConfigMap.
const MaxKeySet = 1 << 20

var (
	// ErrUnknownKey is returned for a receipt that is signed by a key which is not among the anchors.
	ErrUnknownKey = errors.New("the key is not among the trust anchors")
	// ErrExpiredKey is returned for a receipt that was signed at a time at which the key was not valid.
	ErrExpiredKey = errors.New("the key was not valid when the receipt was signed")
)

// PublicKey is a key as it is published, and as verifiers keep it: a trust anchor.
type PublicKey struct {
	// KeyID is the public key itself.
	KeyID string `json:"keyID"`
	// Cluster is the name that the key's cluster gives itself.
	Cluster   string `json:"cluster"`
	NotBefore Time   `json:"notBefore"`
	NotAfter  Time   `json:"notAfter"`
}

// Valid reports whether the key may sign at a time.
func (k *PublicKey) Valid(at time.Time) bool {
	return !at.Before(k.NotBefore.Time) && !at.After(k.NotAfter.Time)
}

// KeySet is the public keys of a cluster, those that have expired included.
type KeySet struct {
	Keys []PublicKey `json:"keys"`
}

// ParseKeySet reads a set of keys.
func ParseKeySet(b []byte) (*KeySet, error) {
	if len(b) > MaxKeySet {
		return nil, fmt.Errorf("a set of receipt keys of %d bytes; the limit is %d", len(b), MaxKeySet)
	}
	set := &KeySet{}
	if err := decode(b, set); err != nil {
		return nil, fmt.Errorf("reading a set of receipt keys: %w", err)
	}
	seen := map[string]bool{}
	for i := range set.Keys {
		key := &set.Keys[i]
		if _, err := ParseKeyID(key.KeyID); err != nil {
			return nil, fmt.Errorf("reading a set of receipt keys: %w", err)
		}
		if seen[key.KeyID] || !key.NotBefore.Before(key.NotAfter.Time) {
			return nil, fmt.Errorf("a set of receipt keys has the key %s twice, or it is never valid", key.KeyID)
		}
		seen[key.KeyID] = true
	}
	return set, nil
}

// Encode writes the set, with a line for each field.
func (s *KeySet) Encode() ([]byte, error) {
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encoding a set of receipt keys: %w", err)
	}
	return append(b, '\n'), nil
}

// Find returns a key of the set; nil if it is not there.
func (s *KeySet) Find(keyID string) *PublicKey {
	for i := range s.Keys {
		if s.Keys[i].KeyID == keyID {
			return &s.Keys[i]
		}
	}
	return nil
}

// Anchors are the keys that a verifier trusts, for each side. They come from the verifier and never from a receipt.
type Anchors struct {
	Sender, Receiver *KeySet
}

// Verify returns what a receipt states, if both sides have signed it with keys that the anchors have for their side,
// at times at which these were valid by the signers' clocks. Who has a key can write any time: see
// docs/concepts/receipts.md.
func Verify(receipt []byte, anchors Anchors) (*Statement, error) {
	_, statement, err := parse(receipt, 2)
	if err != nil {
		return nil, err
	}
	for _, side := range []struct {
		role  string
		party *Party
		keys  *KeySet
	}{
		{"sender", &statement.Predicate.Sender.Party, anchors.Sender},
		{"receiver", &statement.Predicate.Receiver.Party, anchors.Receiver},
	} {
		if side.keys == nil {
			return nil, fmt.Errorf("%w: there are none for the %s", ErrUnknownKey, side.role)
		}
		key := side.keys.Find(side.party.KeyID)
		if key == nil {
			return nil, fmt.Errorf("%w: the %s signed with %s; get the keys of that cluster from its administrators",
				ErrUnknownKey, side.role, side.party.KeyID)
		}
		if !key.Valid(side.party.SignedTime.Time) {
			return nil, fmt.Errorf("%w: the %s signed at %s with a key that is valid from %s to %s", ErrExpiredKey, side.role,
				side.party.SignedTime.Format(time.RFC3339), key.NotBefore.Format(time.RFC3339), key.NotAfter.Format(time.RFC3339))
		}
	}
	return statement, nil
}

// Read returns what a receipt states without any trust in it.
func Read(receipt []byte) (*Statement, error) {
	_, statement, err := parse(receipt, 2)
	return statement, err
}
