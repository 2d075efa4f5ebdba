// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"fmt"

	"github.com/nats-io/nats-server/v2/server"
)

// Held is how many messages this member itself has, whatever others do.
func (s *Store) Held() (uint64, error) {
	account, err := s.server.JszAccount(&server.JSzOptions{Account: server.DEFAULT_GLOBAL_ACCOUNT, Streams: true})
	if err != nil {
		return 0, err
	}
	for i := range account.Streams {
		if account.Streams[i].Name == s.options.Queue {
			return account.Streams[i].State.Msgs, nil
		}
	}
	return 0, fmt.Errorf("there is no stream %s", s.options.Queue)
}
