// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"context"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// ArchiveSecret is the name of the Secret, in the operator's namespace, of what the keys of Transfers are made from
	// that encrypt archives. The key in it is archiveRootKey.
	ArchiveSecret  = "lighterage-archive-key" //nolint:gosec // It is the name of a Secret.
	archiveRootKey = "archive.key"
	// archiveKeyBytes is the length of that, and of the key of a Transfer.
	archiveKeyBytes = 32
)

// ArchiveKey returns the key with which agents of one Transfer, and of no other, read the encrypted indexes that its
// former runs wrote. The first one asked for makes the Secret that all are derived from.
func (a *Authority) ArchiveKey(ctx context.Context, transfer types.UID) ([]byte, error) {
	root, err := a.archiveRoot(ctx)
	if err != nil {
		return nil, err
	}
	key, err := hkdf.Key(sha256.New, root, nil, "lighterage archive index of "+string(transfer), archiveKeyBytes)
	if err != nil {
		return nil, fmt.Errorf("deriving the key of Transfer %s: %w", transfer, err)
	}
	return key, nil
}

func (a *Authority) archiveRoot(ctx context.Context) ([]byte, error) {
	key := client.ObjectKey{Namespace: a.options.Namespace, Name: ArchiveSecret}
	secret := &corev1.Secret{}
	err := a.options.Reader.Get(ctx, key, secret)
	if apierrors.IsNotFound(err) {
		root := make([]byte, archiveKeyBytes)
		_, _ = rand.Read(root) // never fails
		err = a.options.Client.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, Labels: labels()},
			Type:       corev1.SecretTypeOpaque,
			Data:       map[string][]byte{archiveRootKey: root},
		})
		if err == nil {
			return root, nil
		}
		if !apierrors.IsAlreadyExists(err) {
			return nil, fmt.Errorf("writing Secret %s: %w", key, err)
		}
		err = a.options.Reader.Get(ctx, key, secret) // Another manager was first.
	}
	if err != nil {
		return nil, fmt.Errorf("reading Secret %s: %w", key, err)
	}
	if root := secret.Data[archiveRootKey]; len(root) == archiveKeyBytes {
		return root, nil
	}
	return nil, fmt.Errorf("the Secret %s has no %s of %d bytes: restore it from a backup, or delete it to have another "+
		"one made", key, archiveRootKey, archiveKeyBytes)
}
