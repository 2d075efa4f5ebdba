// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package gatewaycost_test

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/lighterage/lighterage/controllers/gatewaycost"
)

const gib = 1 << 30

func configMap(data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: gatewaycost.Name}, Data: data,
	}
}

func TestSecondsPerGiB(t *testing.T) {
	for name, c := range map[string]struct {
		totals gatewaycost.Totals
		want   float64
	}{
		"nothing":    {gatewaycost.Totals{}, 0},
		"too little": {gatewaycost.Totals{CPU: time.Second, Bytes: 1 << 20}, 0},
		"a rate":     {gatewaycost.Totals{CPU: 3 * time.Second, Bytes: 2 * gib}, 1.5},
		"absurd":     {gatewaycost.Totals{CPU: 1000 * time.Hour, Bytes: gib}, 0},
		"older is less": {
			gatewaycost.Totals{CPU: 1 << 40, Bytes: 1 << 40}.Plus(gatewaycost.Totals{Bytes: 1 << 40}), 0.5 * gib / 1e9,
		},
	} {
		if got := c.totals.SecondsPerGiB(); got < c.want*0.999 || got > c.want*1.001 {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// TestAdd: gateways add to what others have written, and what cannot be true is forgotten.
func TestAdd(t *testing.T) {
	for name, c := range map[string]struct {
		before   map[string]string
		cpu, got string
	}{
		"the first":  {nil, "1000", "67108864"},
		"more":       {map[string]string{"cpuNanoseconds": "500", "passedBytes": "1"}, "1500", "67108865"},
		"not a sum":  {map[string]string{"cpuNanoseconds": "x", "passedBytes": "1"}, "1000", "67108864"},
		"negative":   {map[string]string{"cpuNanoseconds": "1", "passedBytes": "-1"}, "1000", "67108864"},
		"impossible": {map[string]string{"cpuNanoseconds": "1", "passedBytes": "9223372036854775807"}, "1000", "67108864"},
	} {
		c1 := fake.NewClientBuilder().WithObjects(configMap(c.before)).Build()
		spent := gatewaycost.Totals{CPU: 1000, Bytes: 64 << 20}
		if err := gatewaycost.Add(context.Background(), c1, c1, "system", spent); err != nil {
			t.Fatal(err)
		}
		after := configMap(nil)
		if err := c1.Get(context.Background(), client.ObjectKeyFromObject(after), after); err != nil {
			t.Fatal(err)
		}
		if after.Data["cpuNanoseconds"] != c.cpu || after.Data["passedBytes"] != c.got {
			t.Errorf("%s: %v", name, after.Data)
		}
	}
}

// TestAddAtOnce: what another gateway writes meanwhile is not lost.
func TestAddAtOnce(t *testing.T) {
	ctx, spent := context.Background(), gatewaycost.Totals{CPU: 1000, Bytes: 10}
	base := fake.NewClientBuilder().WithObjects(configMap(nil)).Build()
	other := interceptor.NewClient(base, interceptor.Funcs{
		Get: func(
			ctx context.Context, c client.WithWatch, key client.ObjectKey, into client.Object, o ...client.GetOption,
		) error {
			if err := c.Get(ctx, key, into, o...); err != nil {
				return err
			}
			return gatewaycost.Add(ctx, base, base, "system", spent)
		},
	})
	if err := gatewaycost.Add(ctx, base, other, "system", spent); !apierrors.IsConflict(err) {
		t.Errorf("no conflict: %v", err)
	}
	if err := gatewaycost.Add(ctx, base, base, "elsewhere", spent); !apierrors.IsNotFound(err) {
		t.Errorf("without a ConfigMap: %v", err)
	}
}

// TestWatch: the manager hears of each change once.
func TestWatch(t *testing.T) {
	c := fake.NewClientBuilder().Build()
	clock := clocktesting.NewFakeClock(time.Now())
	told := make(chan float64)
	ctx, cancel := context.WithCancel(context.Background())
	w := &gatewaycost.Watch{Reader: c, Namespace: "system", Clock: clock, Tell: func(rate float64) { told <- rate }}
	done := make(chan error, 1)
	go func() { done <- w.Start(ctx) }()
	first := configMap(map[string]string{"cpuNanoseconds": "2000000000", "passedBytes": "1073741824"})
	if err := c.Create(ctx, first); err != nil {
		t.Fatal(err)
	}
	rate := func() float64 {
		for {
			select {
			case r := <-told:
				return r
			case <-time.After(time.Millisecond): // it may not wait for the clock yet
				clock.Step(gatewaycost.Interval)
			}
		}
	}
	if got := rate(); got != 2 {
		t.Errorf("%v s", got)
	}
	if err := gatewaycost.Add(ctx, c, c, "system", gatewaycost.Totals{Bytes: gib}); err != nil {
		t.Fatal(err)
	}
	if got := rate(); got != 1 {
		t.Errorf("%v s after more has passed", got)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
