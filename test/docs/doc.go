// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package docs holds tests of what the documentation says.
package docs
