// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package agentsecret

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/pki"
)

// heldAnnotation on the holder says which configuration and certificate a Secret holds. Who changes it can keep the
// Secret from being written, which who may write the holder can do anyway.
const heldAnnotation = "lighterage.dev/agent-secret"

// held is what a Secret holds.
type held struct {
	// Digest is that of Content.
	Digest string `json:"digest"`
	// Generation of the configuration; 0: a manager of an earlier release wrote it.
	Generation uint64 `json:"generation,omitempty"`
	// CA is the fingerprint of the one that issued the certificate.
	CA string `json:"ca"`
	// Issued and Expires are the certificate's.
	Issued  time.Time `json:"issued"`
	Expires time.Time `json:"expires"`
}

func fingerprint(ca *pki.CA) string {
	sum := sha256.Sum256(ca.Certificate.Raw)
	return hex.EncodeToString(sum[:12])
}

// heldBy reads what the holder was told; false for what no manager with that lifetime of certificates writes.
func heldBy(holder metav1.Object, lifetime time.Duration) (held, bool) {
	var read held
	if json.Unmarshal([]byte(holder.GetAnnotations()[heldAnnotation]), &read) != nil {
		return held{}, false
	}
	read.Issued, read.Expires = read.Issued.UTC(), read.Expires.UTC()
	return read, read.Digest != "" && read.Expires.After(read.Issued) && read.Expires.Sub(read.Issued) <= lifetime
}

// recall reads from the holder what the Secret holds, unless that is known.
func (s *State) recall(holder metav1.Object, now time.Time, lifetime time.Duration) {
	if s.held != (held{}) || holder == nil {
		return
	}
	if read, ok := heldBy(holder, lifetime); ok {
		s.held, s.noted, s.written = read, read, now
	}
}

// note tells the holder what the Secret holds, once.
func (k *Keeper) note(ctx context.Context, state *State, holder client.Object) error {
	if holder == nil || state.noted == state.held {
		return nil
	}
	encoded, err := json.Marshal(state.held)
	if err != nil {
		return fmt.Errorf("encoding what a Secret holds: %w", err)
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": holder.GetUID(), "annotations": map[string]string{heldAnnotation: string(encoded)},
	}})
	if err != nil {
		return fmt.Errorf("encoding what a Secret holds: %w", err)
	}
	target, ok := holder.DeepCopyObject().(client.Object)
	if !ok {
		return fmt.Errorf("copying %T", holder)
	}
	err = k.Client.Patch(
		ctx, target, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(conditions.FieldOwner),
	)
	if err != nil {
		return fmt.Errorf("annotating %T %s: %w", holder, client.ObjectKeyFromObject(holder), err)
	}
	state.noted = state.held
	return nil
}
