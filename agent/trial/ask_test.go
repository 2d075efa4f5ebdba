// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package trial_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/lighterage/lighterage/agent/calibrate"
	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/goflate"
	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/sampling"
	"github.com/lighterage/lighterage/agent/trial"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// giver gives the same items to everybody; nil: it fails.
type giver []sampling.Item

func (g giver) Sample(_ context.Context, _ sampling.Request, give func(sampling.Item) error) (sampling.Seen, error) {
	if g == nil {
		return sampling.Seen{}, sampling.ErrNotReady
	}
	for _, item := range g {
		if err := give(item); err != nil {
			return sampling.Seen{}, err
		}
	}
	return sampling.Seen{Items: 10, Bytes: 1000, Unreadable: 1}, nil
}

// agents serves givers.
func agents(t *testing.T, unit wirev1.TrialUnit, givers ...giver) trial.Agents {
	t.Helper()
	a := trial.Agents{Unit: unit, Duration: time.Second}
	for _, g := range givers {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		server := grpc.NewServer()
		wirev1.RegisterSamplerServer(
			server, sampling.NewServer(g, sampling.Limits{Bytes: 1 << 20, Items: 100, Duration: time.Minute}),
		)
		go func() { _ = server.Serve(listener) }()
		t.Cleanup(server.Stop)
		a.Addresses = append(a.Addresses, listener.Addr().String())
	}
	a.Connect = func(_ context.Context, n int) (grpc.ClientConnInterface, func(), error) {
		if givers[n] != nil && len(givers[n]) == 0 {
			return nil, nil, errors.New("no route")
		}
		conn, err := grpc.NewClient(
			"passthrough:///"+a.Addresses[n], grpc.WithTransportCredentials(insecure.NewCredentials()),
		)
		return conn, func() { _ = conn.Close() }, err
	}
	return a
}

const bodies, messages = wirev1.TrialUnit_TRIAL_UNIT_BODY, wirev1.TrialUnit_TRIAL_UNIT_MESSAGE

func TestAsk(t *testing.T) {
	one, two := giver{{Content: []byte("one"), Length: 3}}, giver{
		{Content: []byte("two"), Length: 9},
		{Content: []byte("three"), Length: 5},
	}
	for name, test := range map[string]struct {
		agents                   trial.Agents
		items, total, cut, wrong int
		gave, silent             int64
		says                     string
	}{
		"all replicas":         {agents(t, bodies, one, two), 3, 20, 1, 2, 2, 0, ""},
		"replicas that answer": {agents(t, bodies, two, giver{}, nil), 2, 10, 1, 1, 1, 2, "no route"},
		"one member":           {agents(t, messages, two, one), 2, 10, 1, 1, 1, 0, ""},
		"the first one that answers": {
			agents(t, messages, nil, giver{}, one, giver{}), 1, 10, 0, 1, 1, 2, sampling.ErrNotReady.Error(),
		},
	} {
		s, err := trial.Ask(t.Context(), test.agents, 1<<20, 1)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if len(s.Items) != test.items || s.TotalItems != int64(test.total) || s.CutItems != int64(test.cut) ||
			s.UnreadableItems != int64(test.wrong) || s.TotalBytes != int64(100*test.total) {
			t.Errorf("%s: %+v", name, s)
		}
		if s.Agents != test.gave || s.SilentAgents != test.silent || (s.Silence == nil) != (test.says == "") ||
			s.Silence != nil && !strings.Contains(s.Silence.Error(), test.says) {
			t.Errorf("%s: %d gave, %d did not: %v", name, s.Agents, s.SilentAgents, s.Silence)
		}
	}
}

type empty struct{}

func (empty) Sample(context.Context, sampling.Request, func(sampling.Item) error) (sampling.Seen, error) {
	return sampling.Seen{}, nil
}

func TestAskFails(t *testing.T) {
	for name, test := range map[string]struct {
		agents trial.Agents
		reason wirev1.FailureReason
		says   string
	}{
		"nobody answers": {
			agents(t, bodies, nil, giver{}), wirev1.FailureReason_FAILURE_REASON_CONNECTION_LOST,
			"none of 2 agents gave a sample",
		},
		"no member answers": {
			agents(t, messages, giver{}), wirev1.FailureReason_FAILURE_REASON_CONNECTION_LOST, "no route",
		},
		"there is none to ask": {agents(t, messages), wirev1.FailureReason_FAILURE_REASON_CONNECTION_LOST, "none of 0"},
	} {
		if _, err := trial.Ask(t.Context(), test.agents, 1<<20, 1); !failure.Is(err, test.reason) ||
			!strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := trial.Ask(t.Context(), agents(t, wirev1.TrialUnit_TRIAL_UNIT_UNSPECIFIED), 1<<20, 1); err == nil {
		t.Error("a sample of nothing in particular")
	}
	for unit, says := range map[wirev1.TrialUnit]string{bodies: "passed within 1s", messages: "holds no message"} {
		a := agents(t, unit, giver{})
		server := grpc.NewServer()
		wirev1.RegisterSamplerServer(
			server, sampling.NewServer(empty{}, sampling.Limits{Bytes: 1, Items: 1, Duration: time.Minute}),
		)
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go func() { _ = server.Serve(listener) }()
		t.Cleanup(server.Stop)
		a.Connect = func(context.Context, int) (grpc.ClientConnInterface, func(), error) {
			conn, err := grpc.NewClient(
				"passthrough:///"+listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()),
			)
			return conn, func() { _ = conn.Close() }, err
		}
		if _, err := trial.Ask(t.Context(), a, 1<<20, 1); !failure.Is(
			err, wirev1.FailureReason_FAILURE_REASON_SOURCE_EMPTY,
		) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v: %v", unit, err)
		}
	}
}

// TestMeasureItems: bodies are measured one by one: what joined would shrink much shrinks less alone, and not at all
// where what carries the form of each takes more than is won.
func TestMeasureItems(t *testing.T) {
	text := calibrate.Sample(16 << 10)
	var items [][]byte
	for at := 0; at < len(text); at += 512 {
		items = append(items, text[at:at+512])
	}
	wire := func(s *trial.Sample) uint64 {
		t.Helper()
		r, err := trial.Measure(t.Context(), trial.Options{
			Sample: s, Software: []codec.Engine{goflate.New()}, Setting: policy.Setting{Objective: policy.Bytes},
			Links: []float64{1e6},
		})
		if err != nil {
			t.Fatal(err)
		}
		if r.Rows[0].WireBytes != uint64(len(text)) || r.Sample.Bytes != uint64(len(text)) ||
			r.Sample.Items != uint64(len(s.Items)) {
			t.Errorf("%v", r.Sample)
		}
		for _, row := range r.Rows {
			if row.Problem != "" {
				t.Errorf("%v", row)
			}
		}
		return r.Rows[1].WireBytes
	}
	joined := wire(&trial.Sample{Bytes: text})
	alone := wire(&trial.Sample{Items: items, Unit: bodies})
	const overhead = 18
	carried := wire(&trial.Sample{Items: items, Unit: bodies, Overhead: func(codec.ID) int { return overhead }})
	if alone <= joined*5/4 || alone >= uint64(len(text)) || carried <= alone ||
		carried > alone+overhead*uint64(len(items)) {
		t.Errorf("joined %d bytes, alone %d, with what carries them %d", joined, alone, carried)
	}
	if hopeless := wire(&trial.Sample{Items: items, Unit: messages, Overhead: func(codec.ID) int {
		return 512
	}}); hopeless != uint64(len(text)) {
		t.Errorf("%d bytes, want them as they are", hopeless)
	}
}
