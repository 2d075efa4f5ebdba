// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/lighterage/lighterage/controllers/gatewaycost"
)

// TestSpending: what the gateway spends while nothing passes is not on the account of who passes bytes later.
func TestSpending(t *testing.T) {
	at := time.Unix(1e9, 0)
	var s spending
	look := func(seconds int, cpu time.Duration, bytes int64) {
		s.look(at.Add(time.Duration(seconds)*time.Second), cpu, bytes)
	}
	look(0, 5*time.Second, 0)
	look(60, 6*time.Second, 0) // it idles
	if s.unwritten != (gatewaycost.Totals{}) {
		t.Errorf("nothing has passed: %+v", s.unwritten)
	}
	look(120, 17*time.Second, 1000)
	if want := (gatewaycost.Totals{CPU: 10 * time.Second, Bytes: 1000}); s.unwritten.Bytes != want.Bytes ||
		(s.unwritten.CPU-want.CPU).Abs() > time.Millisecond {
		t.Errorf("%+v, want %+v", s.unwritten, want)
	}
	before := s.unwritten.CPU
	look(180, 17*time.Second+time.Millisecond, 2000) // as little as never before
	if s.unwritten.Bytes != 2000 || s.unwritten.CPU != before {
		t.Errorf("a window of which all is idle: %+v", s.unwritten)
	}
	look(180, 18*time.Second, 3000)
	look(170, 19*time.Second, 4000)
	if s.unwritten.Bytes != 2000 {
		t.Errorf("windows without a length: %+v", s.unwritten)
	}
}

// TestSpender: what could not be written is written later, once.
func TestSpender(t *testing.T) {
	ctx := context.Background()
	c := fake.NewClientBuilder().Build()
	var passed int64
	s := &spender{client: c, reader: c, namespace: "system", passed: func() int64 { return passed }, log: logr.Discard()}
	var all spending
	for range 3 { // the first window says nothing
		s.write(ctx, &all)
	}
	passed = 100
	s.write(ctx, &all) // there is no ConfigMap
	if all.unwritten.Bytes != 100 {
		t.Fatalf("kept: %+v", all.unwritten)
	}
	totals := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: gatewaycost.Name}}
	if err := c.Create(ctx, totals); err != nil {
		t.Fatal(err)
	}
	passed = 150
	s.write(ctx, &all)
	s.write(ctx, &all)
	if err := c.Get(ctx, client.ObjectKeyFromObject(totals), totals); err != nil {
		t.Fatal(err)
	}
	if totals.Data["passedBytes"] != "150" || all.unwritten.Bytes != 0 {
		t.Errorf("%v, %+v", totals.Data, all.unwritten)
	}
}
