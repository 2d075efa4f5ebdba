// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package dictionary

import (
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/lighterage/lighterage/agent/queue/store"
)

const (
	// heardAtOnce is how many messages that were put at other members are taken as samples after a look, at most.
	heardAtOnce = 64
	// fewOffered is how many clients put here from one look to the next where more need not be heard.
	fewOffered = 8
)

// hear takes some of the next messages as samples in the member that trains, where clients put next to none: all pass
// that member on their way to the volumes, and consumers may have them before Options.Sample finds them there.
func (k *Keeper) hear(trains bool) error {
	k.hearNothing() // Fewer may have come than it was to take.
	if offered := k.samples.offeredSince(); !trains || offered >= fewOffered || k.options.Plain == nil {
		return nil
	}
	for _, subject := range store.Subjects(k.options.Queue) {
		s, err := k.options.Conn.Subscribe(subject, func(m *nats.Msg) {
			if plain := k.options.Plain(m.Header, m.Data); plain != nil {
				k.samples.take(plain)
			}
		})
		if err == nil {
			k.hearing = append(k.hearing, s)
			err = s.AutoUnsubscribe(heardAtOnce)
		}
		if err != nil {
			return fmt.Errorf("listen to what is put into queue %s: %w", k.options.Queue, err)
		}
	}
	return nil
}

func (k *Keeper) hearNothing() {
	for _, s := range k.hearing {
		_ = s.Unsubscribe() // It may have ended, or the connection has.
	}
	k.hearing = nil
}
