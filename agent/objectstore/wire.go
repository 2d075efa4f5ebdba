// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package objectstore

import (
	"context"
	"net"

	"github.com/lighterage/lighterage/agent/egress"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// FromWire are the options of a store as the manager configures it, which dials only what a guard permits.
func FromWire(c *wirev1.ObjectStoreConfig, guard *egress.Guard) Options {
	return Options{
		Endpoint: c.GetEndpoint(), Bucket: c.GetBucket(), Prefix: c.GetPrefix(), Region: c.GetRegion(),
		VirtualHost: c.GetVirtualHost(), CABundle: c.GetCaBundle(), CredentialsDirectory: c.GetCredentialsDirectory(),
		StorageClass: c.GetStorageClass(),
		Encryption:   Encryption{S3: c.GetEncryptS3(), KMSKeyID: c.GetKmsKeyId()},
		Dial: func(ctx context.Context, address string) (net.Conn, error) {
			return guard.Dial(ctx, dialTimeout, address)
		},
	}
}
