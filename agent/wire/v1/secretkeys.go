// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package wirev1

// The keys of a Secret with credentials for external NATS servers, and the files that an agent reads. Keys that other
// Secrets have too, such as username, token or creds, would let whoever names a Secret have its content sent to a
// server of its choice. Of a certificate the key never leaves the agent, so that those of kubernetes.io/tls may be
// used.
const (
	ExternalCredsKey       = "lighterage-nats.creds" //nolint:gosec // It is the name of a key.
	ExternalUsernameKey    = "lighterage-nats-username"
	ExternalPasswordKey    = "lighterage-nats-password" //nolint:gosec // It is the name of a key.
	ExternalTokenKey       = "lighterage-nats-token"    //nolint:gosec // It is the name of a key.
	ExternalCertificateKey = "tls.crt"
	ExternalPrivateKeyKey  = "tls.key"
)

// ExternalKeys are all of them.
func ExternalKeys() []string {
	return []string{
		ExternalCredsKey, ExternalUsernameKey, ExternalPasswordKey, ExternalTokenKey, ExternalCertificateKey,
		ExternalPrivateKeyKey,
	}
}

// The keys of a Secret with credentials for an object store, and the files that an agent reads. They are no other
// Secret's, for the same reason. The session token is optional.
const (
	ObjectStoreAccessKeyIDKey     = "lighterage-s3-access-key-id"     //nolint:gosec // It is the name of a key.
	ObjectStoreSecretAccessKeyKey = "lighterage-s3-secret-access-key" //nolint:gosec // It is the name of a key.
	ObjectStoreSessionTokenKey    = "lighterage-s3-session-token"     //nolint:gosec // It is the name of a key.
)

// AgeIdentitiesKey is the key of a Secret with identities of age, and the file that an agent reads. It is no other
// Secret's.
const AgeIdentitiesKey = "lighterage-age-identities"

// ArchiveKey is the key of the Secret of an attempt with what its agent reads indexes with that are encrypted, and the
// file of it.
const ArchiveKey = "archive.key"

// ObjectStoreKeys are all of them.
func ObjectStoreKeys() []string {
	return []string{ObjectStoreAccessKeyIDKey, ObjectStoreSecretAccessKeyKey, ObjectStoreSessionTokenKey}
}
