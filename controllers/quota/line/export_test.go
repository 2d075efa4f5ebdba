// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package line

import "sigs.k8s.io/controller-runtime/pkg/handler"

// Events is the handler of events of the kind.
func (l *Line[T]) Events() handler.EventHandler { return l.events() }
