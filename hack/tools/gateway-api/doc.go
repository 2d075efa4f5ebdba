// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gatewayapi keeps the module that holds the definitions of Gateway API's kinds among what this one needs.
// Nothing is called.
package gatewayapi

import _ "sigs.k8s.io/gateway-api/pkg/consts"
