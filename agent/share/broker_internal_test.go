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

// FuzzBroker: whatever agents say, and however often, what they were told never exceeds what there is to share, and
// nobody is told what is no number.
func FuzzBroker(f *testing.F) {
	f.Add([]byte{0, 10, 1, 1, 200, 0, 2, 255, 1, 0, 3, 1, 1, 9, 0})
	f.Fuzz(func(t *testing.T, raw []byte) {
		now := time.Unix(1e9, 0)
		b, err := NewBroker(BrokerOptions{ReservedPercent: 10, Now: func() time.Time { return now }})
		if err != nil {
			t.Fatal(err)
		}
		b.SetWeights(map[string]uint32{"a": 0, "b": math.MaxUint32})
		for i := 0; i+2 < len(raw) && i < 3000; i += 3 {
			namespace := string('a' + rune(raw[i]%3))
			who := transport.ShareCaller{Namespace: namespace, Kind: "queue", Name: fmt.Sprint(raw[i] / 3 % 8)}
			used := uint64(raw[i+1]) << (raw[i+2] % 64)
			if _, _, err := b.draw(who, Drawn{used, uint64(raw[i+2])}); err != nil {
				t.Fatal(err)
			}
			told := 0.0
			for _, d := range b.agents {
				if d.rate < 0 || math.IsNaN(d.rate) || math.IsInf(d.rate, 0) {
					t.Fatalf("a rate of %v", d.rate)
				}
				told += d.rate
			}
			if told > b.capacity()*(1+1e-9) {
				t.Fatalf("told %v of %v", told, b.capacity())
			}
			now = now.Add(time.Duration(raw[i+1]) * 5 * time.Millisecond)
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
		_, _, err := b.draw(transport.ShareCaller{Namespace: namespace, Kind: "transfer", Name: fmt.Sprint(i)}, Drawn{})
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
