// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package front

import "time"

// SetLeaving changes for how long a client has to be quiet to be sent away, and when one that is not is. It is for
// before Drain. Answers are then waited for as long as the server is there.
func (f *Front) SetLeaving(quiet, most time.Duration) {
	f.leaving = leaving{quiet: quiet, most: most, settled: quiet, mostSettled: most, introduced: quiet}
	if most == 0 {
		f.leaving.settled, f.leaving.mostSettled = time.Minute, time.Minute
	}
}

// SetSlow changes how long a client may take nothing, and how many bytes the server holds for all clients. The first
// counts for clients that come after it.
func (f *Front) SetSlow(patience time.Duration, pending int) {
	f.slow.Store(&slowClients{patience: patience, pending: pending, look: time.Millisecond})
}
