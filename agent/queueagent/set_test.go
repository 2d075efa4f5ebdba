// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queueagent_test

import (
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// TestSetQueueConfig: a member does what the manager sent, and rejects what no file could ask for.
func TestSetQueueConfig(t *testing.T) {
	m := newMember(t)
	m.certify()
	m.run()
	m.await("it serves", serves)
	set := func(generation uint64, revision string, f func(*wirev1.QueueConfig)) codes.Code {
		c, _ := m.read()
		c.Generation, c.Revision = generation, revision
		f(c)
		encoded, err := wirev1.MarshalConfig(c)
		if err != nil {
			t.Fatal(err)
		}
		_, err = m.SetQueueConfig(t.Context(), &wirev1.SetQueueConfigRequest{Config: encoded})
		return status.Code(err)
	}
	if code := set(7, "2", func(c *wirev1.QueueConfig) { c.ResetStatistics = "now" }); code != codes.OK {
		t.Fatal(code)
	}
	if r := m.Report(t.Context()); r.GetRevision() != "2" || r.GetStatistics().GetReset_() != "now" ||
		r.GetConfiguration().GetGeneration() != 7 {
		t.Errorf("%v", r)
	}
	code := set(8, "3", func(c *wirev1.QueueConfig) { c.ListenAddress = "127.0.0.1:1" })
	if code != codes.InvalidArgument {
		t.Error(code)
	}
	if r := m.Report(t.Context()); r.GetRevision() != "2" || r.GetConfigError() == "" ||
		r.GetConfiguration().GetRejected() != 8 {
		t.Errorf("%v", r)
	}
}
