// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pki holds a cluster's certificate authority, the certificates that it issues and the names in them.
//
// Every certificate names its holder by one URI, spiffe://<cluster>/<path>. The cluster's name is information only:
// whom to believe is decided by which CA verifies a certificate, never by what the certificate says of its cluster.
package pki
