// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package claimstore keeps objects as files in a directory of a claim, so that package bucket writes archives there as
// it does in an object store. Objects have the names that package bucket gives them, all below .lighterage: what else
// is in the directory is nobody's object, and is neither listed nor touched.
//
//	.lighterage/NAME               an object
//	.lighterage/writing/ID         what is there of an upload, or of an object that is being put
//	.lighterage/writing/ID.parts   the name of the upload's object, and its parts
//
// An object appears whole or not at all: it is synced before it gets its name, and its directory afterwards. A part of
// an upload is safe when PutPart returns.
//
// Whoever writes to the claim may put anything in the place of any of these. Nothing outside of the directory is
// opened, links included, and what is no regular file is no object.
package claimstore
