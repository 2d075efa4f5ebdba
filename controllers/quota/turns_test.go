// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package quota_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/lighterage/lighterage/controllers/quota"
)

// ledger is a namespace as the API server has it, and a cache of it that never learns anything.
type ledger struct {
	mu   sync.Mutex
	held []quota.Held
	most int
}

func (l *ledger) view(hard quota.Amounts) (quota.View, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return quota.View{Limits: []quota.Limits{limits("q", hard)}, Held: append([]quota.Held(nil), l.held...)}, nil
}

func (l *ledger) hold(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = append(l.held, run(id, 1))
	l.most = max(l.most, len(l.held))
}

// TestTurns: many that ask at once, each by a cache in which nothing is held, are never granted more than there is; in
// two namespaces at a time.
func TestTurns(t *testing.T) {
	var turns quota.Turns
	var all sync.WaitGroup
	hard := quota.Amounts{quota.RunningTransfers: 7}
	ledgers := map[string]*ledger{"east": {}, "west": {}}
	for namespace, l := range ledgers {
		for i := range 100 {
			all.Go(func() {
				id := fmt.Sprint(i)
				answer, done, err := turns.Admit(namespace, asks(id, 1),
					func() (quota.View, error) { return (&ledger{}).view(hard) }, func() (quota.View, error) { return l.view(hard) })
				defer done()
				if err != nil {
					t.Error(err)
				}
				if answer.Exceeded == nil {
					l.hold(id)
				}
				done()
			})
		}
	}
	all.Wait()
	for namespace, l := range ledgers {
		if l.most != 7 {
			t.Errorf("%s: %d were granted, and 7 allowed", namespace, l.most)
		}
	}
}

// TestTurnIsGivenBack: after an error, a refusal or a grant that is given up, others are admitted.
func TestTurnIsGivenBack(t *testing.T) {
	var turns quota.Turns
	hard := quota.Amounts{quota.RunningTransfers: 1}
	full := &ledger{held: []quota.Held{run("x", 1)}}
	empty := func() (quota.View, error) { return (&ledger{}).view(hard) }
	failure := errors.New("the API server is away")
	fails := func() (quota.View, error) { return quota.View{}, failure }
	for name, c := range map[string]struct {
		current  func() (quota.View, error)
		exceeded bool
		err      error
	}{
		"error":   {fails, false, failure},
		"refusal": {func() (quota.View, error) { return full.view(hard) }, true, nil},
		"grant":   {empty, false, nil},
	} {
		answer, done, err := turns.Admit("east", asks("a", 1), empty, c.current)
		if !errors.Is(err, c.err) || (answer.Exceeded != nil) != c.exceeded {
			t.Errorf("%s: %+v, %v", name, answer, err)
		}
		done()
		done()
	}
	if _, _, err := turns.Admit("east", asks("a", 1), fails, empty); !errors.Is(err, failure) {
		t.Error(err)
	}
	if _, done, err := turns.Admit("east", asks("a", 1), empty, empty); err != nil {
		t.Error(err)
	} else {
		done()
	}
}
