// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package jetstreamerror_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lighterage/lighterage/agent/queue/jetstreamerror"
)

func TestMeanings(t *testing.T) {
	full, overtaken, other := []jetstream.ErrorCode{
		10002, 10023, 10028, 10047, 10077,
	}, []jetstream.ErrorCode{10071, 10164}, []jetstream.ErrorCode{10099, 10100}
	for name, meaning := range map[string]struct {
		is    func(error) bool
		codes []jetstream.ErrorCode
	}{
		"full": {jetstreamerror.Full, full}, "overtaken": {jetstreamerror.Overtaken, overtaken},
		"other consumer": {jetstreamerror.OtherConsumer, other},
	} {
		means := map[jetstream.ErrorCode]bool{}
		for _, code := range meaning.codes {
			means[code] = true
		}
		for code := jetstream.ErrorCode(10000); code < 10300; code++ {
			err := fmt.Errorf("put: %w", &jetstream.APIError{ErrorCode: code})
			if meaning.is(err) != means[code] {
				t.Errorf("%s: %d", name, code)
			}
		}
		if meaning.is(nil) || meaning.is(errors.New("10077")) {
			t.Errorf("%s: what JetStream did not say", name)
		}
	}
}
