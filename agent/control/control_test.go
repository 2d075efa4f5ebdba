// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package control_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/lighterage/lighterage/agent/control"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

type reporter struct{}

func (reporter) Report() *wirev1.Report { return &wirev1.Report{Version: "one"} }

// TestPatience: a question waits for the end of the run, for as long as it says and no longer than a server allows.
func TestPatience(t *testing.T) {
	for name, test := range map[string]struct {
		patience *durationpb.Duration
		// ends is when the run does, gone when who asks is not there any more; 0: never.
		ends, gone time.Duration
		endless    bool
		want       time.Duration
		code       codes.Code
	}{
		"an earlier manager":  {nil, 0, 0, false, 0, codes.OK},
		"in vain":             {durationpb.New(2 * time.Second), 0, 0, false, 2 * time.Second, codes.OK},
		"the run ends":        {durationpb.New(2 * time.Second), time.Second, 0, false, time.Second, codes.OK},
		"nobody listens":      {durationpb.New(2 * time.Second), 0, time.Second, false, time.Second, codes.Canceled},
		"far too long":        {durationpb.New(time.Hour), 0, 0, false, 10 * time.Second, codes.OK},
		"no time at all":      {durationpb.New(-time.Hour), 0, 0, false, 0, codes.OK},
		"no time":             {&durationpb.Duration{Seconds: 1 << 62, Nanos: -1}, 0, 0, false, 10 * time.Second, codes.OK},
		"a run with no ended": {durationpb.New(2 * time.Second), 0, 0, true, 0, codes.OK},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				options, ended := control.Options{Reporter: reporter{}}, make(chan struct{})
				if !test.endless {
					options.Ended = ended
				}
				if test.ends > 0 {
					time.AfterFunc(test.ends, func() { close(ended) })
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if test.gone > 0 {
					time.AfterFunc(test.gone, cancel)
				}
				begun := time.Now()
				got, err := control.NewServer(options).GetReport(ctx, &wirev1.GetReportRequest{Patience: test.patience})
				if status.Code(err) != test.code || err == nil && got.GetReport().GetVersion() != "one" {
					t.Errorf("%v, %v", got, err)
				}
				if waited := time.Since(begun); waited != test.want {
					t.Errorf("it waited %s, want %s", waited, test.want)
				}
			})
		})
	}
}
