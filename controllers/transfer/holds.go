// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// holdPatience is how long the cluster that is pulled from may take to end an attempt when the pull is paused or its
// window has closed. What is open then is ended here.
const holdPatience = time.Minute

// holds remembers since when pulls are held. The zero value is ready for use, also concurrent. A manager that starts
// again is patient again.
type holds struct {
	mu    sync.Mutex
	begun map[types.UID]time.Time
}

// since is how long a pull has been held.
func (h *holds) since(of types.UID, now time.Time) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	at, held := h.begun[of]
	if !held {
		if h.begun == nil {
			h.begun = map[types.UID]time.Time{}
		}
		h.begun[of], at = now, now
	}
	return now.Sub(at)
}

// end says that a pull is not held, or gone.
func (h *holds) end(of types.UID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.begun, of)
}
