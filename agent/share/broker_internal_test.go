// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package share

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/lighterage/lighterage/agent/transport"
)

// FuzzBroker: whatever agents say, and however often, and whatever probes take, nobody is told what is no number or
// more than there is, and once what agents use is steady, all are told no more than there is together.
func FuzzBroker(f *testing.F) {
	f.Add([]byte{0, 10, 1, 1, 200, 0, 2, 255, 1, 0, 3, 1, 1, 9, 0, 0, 200, 9, 255, 1, 1})
	f.Fuzz(func(t *testing.T, raw []byte) {
		now := time.Unix(1e9, 0)
		b, err := NewBroker(BrokerOptions{ReservedPercent: 10, Now: func() time.Time { return now }})
		if err != nil {
			t.Fatal(err)
		}
		b.SetWeights(map[string]uint32{"a": 0, "b": math.MaxUint32})
		for i := 0; i+2 < len(raw) && i < 3000; i += 3 {
			who := transport.ShareCaller{
				Namespace: string('a' + rune(raw[i]%3)), Kind: "queue", Name: fmt.Sprint(raw[i] / 3 % 8),
			}
			b.probed(time.Duration(raw[i]) << (raw[i+2] % 64))
			rate, _, early, err := b.draw(who, Drawn{uint64(raw[i+1]) << (raw[i+2] % 64), uint64(raw[i+2])})
			if err != nil || early < 0 || early > leastInterval {
				t.Fatalf("held back for %v, %v", early, err)
			}
			if !(rate >= 0 && rate <= 0.9e9*(1+1e-9)) {
				t.Fatalf("a rate of %v", rate)
			}
			now = now.Add(time.Duration(raw[i+1]) * 5 * time.Millisecond)
		}
		for range 3 {
			now = now.Add(interval)
			b.expire(now)
			for who, d := range b.agents {
				if _, _, _, err := b.draw(who, d.said); err != nil {
					t.Fatal(err)
				}
			}
		}
		told := 0.0
		for _, d := range b.agents {
			told += d.rate
		}
		if told > b.capacity()*(1+1e-9) {
			t.Fatalf("told %v of %v", told, b.capacity())
		}
	})
}

// TestBounds: of a namespace, and in all, so many agents share and no more, until some are gone.
func TestBounds(t *testing.T) {
	now := time.Unix(1e9, 0)
	b, err := NewBroker(BrokerOptions{Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	draw := func(namespace string, i int) error {
		_, _, _, err := b.draw(transport.ShareCaller{Namespace: namespace, Kind: "transfer", Name: fmt.Sprint(i)}, Drawn{})
		return err
	}
	for n := range maxAgents / maxOfNamespace {
		namespace := fmt.Sprint("ns", n)
		for i := range maxOfNamespace {
			if err := draw(namespace, i); err != nil {
				t.Fatal(err)
			}
		}
		if err := draw(namespace, maxOfNamespace); !errors.Is(err, errTooMany) {
			t.Errorf("one more of a namespace: %v", err)
		}
	}
	if err := draw("other", 0); !errors.Is(err, errTooMany) {
		t.Errorf("one more in all: %v", err)
	}
	now = now.Add(lease + 1)
	if err := draw("other", 0); err != nil || len(b.agents) != 1 {
		t.Errorf("after all have gone: %v, %d agents", err, len(b.agents))
	}
}
