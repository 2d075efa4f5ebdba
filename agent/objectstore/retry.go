// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package objectstore

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"
)

// Retry bounds how often a request is tried and how long to wait in between: between half and all of Base, doubled
// with each try up to Longest, or what the server asks for, up to Longest too.
type Retry struct {
	Tries         int
	Base, Longest time.Duration
}

// DefaultRetry waits 16 s in all at most.
var DefaultRetry = Retry{Tries: 6, Base: 500 * time.Millisecond, Longest: 10 * time.Second}

// wait is how long to wait after a try, counted from 1.
func (r Retry) wait(try int, header http.Header) time.Duration {
	longest := r.Base
	for range try - 1 {
		longest = min(2*longest, r.Longest)
	}
	wait := longest/2 + rand.N(longest/2+1)
	if seconds, err := strconv.ParseUint(header.Get("Retry-After"), 10, 16); err == nil {
		wait = max(wait, min(time.Duration(seconds)*time.Second, r.Longest))
	}
	return wait
}

// do tries a request until it is answered, and returns how often it was tried. Errors are explained.
func (s *Store) do(ctx context.Context, c call, what operation, try func(context.Context, *call) error) (int, error) {
	for n := 1; ; n++ {
		this := c
		err := try(withCall(ctx, &this), &this)
		if err == nil {
			return n, nil
		}
		err = s.explain(ctx, &this, what, err)
		if !errors.Is(err, ErrUnavailable) || n >= s.options.Retry.Tries {
			return n, err
		}
		if sleep(ctx, s.options.Retry.wait(n, this.header)) != nil {
			return n, err
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
