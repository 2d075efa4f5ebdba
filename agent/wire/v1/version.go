// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package wirev1

// Version of this build, set by the linker.
var Version = "dev"
