// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build security

package security

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/encoding/protojson"

	stored "github.com/lighterage/lighterage/agent/queue/message"
	"github.com/lighterage/lighterage/agent/queue/store"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	messagesv1 "github.com/lighterage/lighterage/api/messages/v1"
)

// memberVariable names the directory of a member that this test binary runs as a process of its own.
const memberVariable = "LIGHTERAGE_SECURITY_MEMBER"

// memberMemory is what the pod of a member may have by default.
const memberMemory = 512 << 20

// TestMemberProcess is no test but a member, whose memory can be measured apart from its clients'.
func TestMemberProcess(t *testing.T) {
	directory := os.Getenv(memberVariable)
	if directory == "" {
		t.Skip("it is for other tests")
	}
	text, err := os.ReadFile(filepath.Join(directory, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	c := new(wirev1.QueueConfig)
	if err := protojson.Unmarshal(text, c); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // which ends with who started it
		cancel()
	}()
	if err := newAgent(func() (*wirev1.QueueConfig, error) { return c, nil }, directory, io.Discard).Run(ctx); err != nil {
		t.Fatal(err)
	}
}

// startQueueProcess is startQueue for a member of its own process, of which memory returns the most that it had.
func startQueueProcess(t *testing.T, clients ...string) (m *queueMember, memory func() int64) {
	t.Helper()
	m = prepareQueue(t, nil, clients...)
	text, err := protojson.Marshal(m.config)
	if err != nil {
		t.Fatal(err)
	}
	m.write(filepath.Join(m.directory, "config.json"), string(text))
	process := exec.CommandContext(context.Background(), os.Args[0], "-test.run=^TestMemberProcess$")
	process.Env = append(os.Environ(), memberVariable+"="+m.directory, "GOMEMLIMIT="+strconv.Itoa(memberMemory/10*9))
	var out bytes.Buffer
	process.Stdout, process.Stderr = &out, &out
	in, err := process.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		if err := process.Wait(); err != nil {
			t.Logf("the member: %v: %s", err, out.String())
		}
	})
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		conn, err := net.Dial("tcp", m.config.GetServiceAddress())
		if err == nil {
			_ = conn.Close()
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the member does not listen: %s", out.String())
		}
	}
	return m, func() int64 { return peakMemory(t, process.Process.Pid) }
}

// peakMemory is the most that a process had resident, in bytes.
func peakMemory(t *testing.T, pid int) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "VmHWM:")
	fields := strings.Fields(rest)
	if !found || len(fields) < 2 {
		t.Fatalf("%s", text)
	}
	n, err := strconv.ParseInt(fields[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n << 10
}

// makeConsumers makes durable consumers with as much metadata as is taken, and returns how many are refused.
func (m *queueMember) makeConsumers(count, metadata int) (refused int) {
	m.Helper()
	conn, _ := m.nats("clerk")
	var failed atomic.Int64
	var group sync.WaitGroup
	next := make(chan int)
	for range 16 {
		group.Go(func() {
			for i := range next {
				body := fmt.Sprintf(`{"stream_name":"orders","config":{"durable_name":"c%d","ack_policy":"explicit","filter_subject":"orders.%d","metadata":{"a":%q}}}`,
					i, i, strings.Repeat("x", metadata))
				answer, err := conn.Request(fmt.Sprintf("$JS.API.CONSUMER.DURABLE.CREATE.orders.c%d", i), []byte(body), patience)
				if err != nil {
					m.Error(err)
					continue
				}
				var said struct {
					Error *jetstream.APIError `json:"error"`
				}
				if err := json.Unmarshal(answer.Data, &said); err != nil {
					m.Error(err)
				}
				if said.Error != nil {
					failed.Add(1)
				}
			}
		})
	}
	for i := range count {
		next <- i
	}
	close(next)
	group.Wait()
	return int(failed.Load())
}

// Low: 1,000 durable consumers with large metadata added 318 MiB to a member. What a request says, and how many there
// are, is bounded.
func TestConsumersMemory(t *testing.T) {
	const beyond, metadata = 16, 7900
	m, memory := startQueueProcess(t, "clerk")
	m.makeConsumers(1, 100)
	before := memory()
	if refused := m.makeConsumers(2, 60_000); refused != 2 {
		t.Errorf("%d of 2 consumers with metadata of 60,000 bytes are refused", refused)
	}
	start := time.Now()
	if refused := m.makeConsumers(store.MaxConsumers+beyond, metadata); refused < beyond {
		t.Errorf("%d of %d consumers are refused", refused, store.MaxConsumers+beyond)
	}
	grown := memory() - before
	t.Logf(
		"%d consumers with %d bytes of metadata took %d MiB and %v", store.MaxConsumers, metadata, grown>>20,
		time.Since(start),
	)
	if grown > 128<<20 {
		t.Errorf("they took %d MiB", grown>>20)
	}
}

// TestQueueMemoryBound: clients that authenticated put bombs, make as many consumers as they can, and do not take what
// they listen to, all at once. The member stays within what its pod may have, and an honest client is served.
func TestQueueMemoryBound(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes some seconds")
	}
	m, memory := startQueueProcess(t, "clerk", "honest")
	encoder, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	bomb := encoder.EncodeAll(make([]byte, 256<<20), nil)
	deadline := time.Now().Add(8 * time.Second)
	var group sync.WaitGroup
	var bombs atomic.Int64
	for i := range 8 {
		conn, _ := m.nats("clerk")
		caller, ctx := m.grpc("clerk")
		group.Go(func() {
			for time.Now().Before(deadline) {
				if i%2 == 0 {
					out := nats.NewMsg("orders.bomb")
					out.Data = bomb
					out.Header.Set(stored.CodecHeader, "zstd")
					out.Header.Set(stored.EngineHeader, "software")
					out.Header.Set(stored.LengthHeader, strconv.Itoa(1<<20))
					out.Header.Set(stored.ChecksumHeader, "0000000000000001")
					if _, err := conn.RequestMsg(out, patience); err != nil {
						t.Error(err)
						return
					}
				} else if _, err := caller.Put(ctx, &messagesv1.PutRequest{Messages: []*messagesv1.QueueMessage{{
					Payload:    bomb,
					StoredForm: &messagesv1.StoredForm{Codec: "zstd", EngineClass: "software", Length: 256 << 20, Checksum: 1},
				}}}); err != nil {
					t.Error(err)
					return
				}
				bombs.Add(1)
			}
		})
	}
	for range 4 { // They listen, and take nothing.
		m.raw("clerk").said("SUB orders.> 1\r\n")
	}
	group.Go(func() { m.makeConsumers(store.MaxConsumers, 7900) })
	_, js := m.nats("honest")
	long := bytes.Repeat([]byte("0123456789abcdef"), 1<<15)
	put := 0
	for time.Now().Before(deadline) {
		if _, err := js.Publish(t.Context(), "orders.new", long); err != nil {
			t.Errorf("an honest client: %v", err)
			break
		}
		put++
	}
	group.Wait()
	peak := memory()
	t.Logf("%d bombs, %d messages of an honest client: the member had %d MiB at most", bombs.Load(), put, peak>>20)
	if peak > memberMemory {
		t.Errorf("the member had %d MiB, and its pod has %d", peak>>20, memberMemory>>20)
	}
	if bombs.Load() == 0 || put == 0 {
		t.Error("nothing was tried")
	}
}
