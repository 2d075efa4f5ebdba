// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package backend

// Write is write, for tests.
var Write = write
