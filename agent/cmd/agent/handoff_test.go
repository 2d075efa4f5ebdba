// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lighterage/lighterage/agent/journal"
	"github.com/lighterage/lighterage/agent/objectstore/objectstoretest"
	"github.com/lighterage/lighterage/agent/transport"
	"github.com/lighterage/lighterage/agent/transport/transporttest"
	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// handOffRun is a Transfer through a bucket: the agents of two clusters that know nothing of each other's addresses.
type handOffRun struct {
	server              *objectstoretest.Server
	east, west          *transporttest.Authority
	source, destination string
	content             []byte
	send                *wirev1.HandOffConfig
	relay               *wirev1.RelayConfig
	receiveAddress      string
	gateway             string
}

func newHandOffRun(t *testing.T, size int) *handOffRun {
	t.Helper()
	r := &handOffRun{
		server: objectstoretest.New(t, "me"),
		east:   transporttest.NewAuthority(t, "east"), west: transporttest.NewAuthority(t, "west"),
		source: t.TempDir(), destination: t.TempDir(), content: make([]byte, size), receiveAddress: freeAddress(t),
	}
	random := rand.New(rand.NewPCG(1, 2))
	for i := range r.content {
		r.content[i] = byte(random.Uint32())
	}
	if err := os.WriteFile(filepath.Join(r.source, "file"), r.content, 0o600); err != nil {
		t.Fatal(err)
	}
	r.gateway = startGateway(
		t, r.west.Directory(t, r.east, "/gateway", transport.GatewayServerName), receiveName, r.receiveAddress,
	)
	r.relay = &wirev1.RelayConfig{Store: storeEnd(t, r.server), GatewayAddress: r.gateway}
	r.send = &wirev1.HandOffConfig{Via: storeEnd(t, r.server), Send: &wirev1.SendConfig{
		RunId: "abcde", Attempt: 1, Volume: r.source, Path: ".", Verify: true, Privileged: true, Mirror: true,
		ControlAddress: freeAddress(t), Streams: 2, CheckpointInterval: 1 << 20,
		Compression: &wirev1.CompressionSettings{
			Mode: wirev1.CompressionMode_COMPRESSION_MODE_ALWAYS, Level: wirev1.CompressionLevel_COMPRESSION_LEVEL_FAST,
			Codecs: []string{"deflate"}, SoftwareEngines: []string{"go"},
		},
	}}
	return r
}

// agent runs a mode with a configuration in a directory until it ends, and returns its exit code and report.
func runAgent(ctx context.Context, t *testing.T, mode, directory string) (code int, report *wirev1.Report) {
	log := filepath.Join(t.TempDir(), "termination")
	var said lines
	code = run(ctx, []string{mode, "--config-dir", directory, "--termination-log", log}, &said, &said)
	report = final(t, log)
	if code != exitOK {
		t.Logf("%s ends with %d: %s", mode, code, said.String())
	}
	return code, report
}

// relayDirectory has what the relay has mounted.
func (r *handOffRun) relayDirectory(t *testing.T) string {
	t.Helper()
	directory := r.west.Directory(t, r.west, "/ns/bank/objectstore/cargo", sendName)
	configure(t, directory, r.relay)
	return directory
}

// startRelay runs a relay until the function that it returns is called, or the test ends.
func (r *handOffRun) startRelay(t *testing.T) (stop func()) {
	t.Helper()
	directory := r.relayDirectory(t)
	ctx, cancel := context.WithCancelCause(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = runAgent(ctx, t, "relay", directory)
	}()
	stop = func() {
		cancel(errStopped)
		<-ended
	}
	t.Cleanup(stop)
	return stop
}

// prepare returns what the agents of an attempt have mounted.
func (r *handOffRun) prepare(t *testing.T, number uint32) (receive, send string) {
	t.Helper()
	receive = r.west.Directory(t, r.east, "/ns/bank/delivery/ledger", receiveName)
	configure(t, receive, &wirev1.ReceiveConfig{
		RunId: "abcde", Attempt: number, SenderNamespace: "bank", SenderName: "ledger", Volume: r.destination, Path: "copy",
		ControlAddress: freeAddress(t), DataAddress: r.receiveAddress, AllowDelete: true,
	})
	r.send.Send.Attempt = number
	send = r.east.ForRun("abcde").Directory(t, r.west, "/ns/bank/transfer/ledger", sendName)
	configure(t, send, r.send)
	return receive, send
}

// attempt runs a receiving and a sending agent and returns the report of the latter.
func (r *handOffRun) attempt(ctx context.Context, t *testing.T, number uint32) (int, *wirev1.Report) {
	t.Helper()
	directory, sender := r.prepare(t, number)
	receiving, stop := context.WithCancelCause(context.Background())
	received := make(chan struct{})
	go func() {
		defer close(received)
		_, _ = runAgent(receiving, t, "receive", directory)
	}()
	code, report := runAgent(ctx, t, "handoff", sender)
	if code != exitOK {
		stop(errStopped) // as the manager of the other cluster does when the next attempt opens
	}
	<-received
	stop(nil)
	return code, report
}

func (r *handOffRun) arrived(t *testing.T) {
	t.Helper()
	got, err := os.ReadFile(filepath.Join(r.destination, "copy/file"))
	if err != nil || !bytes.Equal(got, r.content) {
		t.Errorf("%d bytes of %d arrived, or others: %v", len(got), len(r.content), err)
	}
	for end := time.Now().Add(30 * time.Second); len(r.server.Keys()) > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("left behind: %v", r.server.Keys())
		}
	}
}

// TestHandOff: agents of both clusters meet in the bucket. The sender is there before the relay.
func TestHandOff(t *testing.T) {
	r := newHandOffRun(t, 3<<20)
	var once atomic.Bool
	offered := make(chan struct{})
	r.server.Intercept(func(_ http.ResponseWriter, request *http.Request) bool {
		if request.Method == http.MethodPut && strings.Contains(request.URL.Path, "/offers/") && !once.Swap(true) {
			close(offered)
		}
		return false
	})
	go func() {
		<-offered
		r.startRelay(t)
	}()
	code, report := r.attempt(t.Context(), t, 1)
	if code != exitOK || report.GetState() != wirev1.AgentState_AGENT_STATE_SUCCEEDED ||
		report.GetWireBytes() < uint64(len(r.content)) {
		t.Fatalf("exit code %d, %v", code, report)
	}
	r.arrived(t)
}

// inTheMiddle calls stop once the receiver of the first attempt has made something safe.
func (r *handOffRun) inTheMiddle(ctx context.Context, stop func()) {
	var size int64
	for grown := 0; grown < 2; time.Sleep(time.Millisecond) {
		if ctx.Err() != nil {
			return
		}
		found, _ := filepath.Glob(filepath.Join(r.destination, "copy", tree.StagingName, "*", journal.Name))
		if len(found) == 0 {
			continue
		}
		if info, err := os.Stat(found[0]); err == nil && info.Size() > size {
			if size > 0 {
				grown++
			}
			size = info.Size()
		}
	}
	stop()
}

// TestHandOffGoesOn: the sender, and then the relay, is stopped in the middle. Each next attempt goes on from what is
// safe, and nothing is left in the bucket, which has never had the content as it is.
func TestHandOffGoesOn(t *testing.T) {
	r := newHandOffRun(t, 48<<20)
	stopRelay := r.startRelay(t)
	var plain atomic.Bool
	var large sync.Map // paths of segments with data
	read := make(chan struct{}, 1)
	r.server.Intercept(func(_ http.ResponseWriter, request *http.Request) bool {
		if _, has := large.Load(request.URL.Path); has && request.Method == http.MethodDelete {
			select {
			case read <- struct{}{}: // by the relay
			default:
			}
		}
		if request.Method != http.MethodPut || !strings.Contains(request.URL.Path, "/d/") {
			return false
		}
		if request.ContentLength > 512<<10 {
			large.Store(request.URL.Path, nil)
		}
		segment, _ := io.ReadAll(request.Body)
		request.Body = io.NopCloser(bytes.NewReader(segment))
		for at := 0; at < len(r.content); at += 4 << 20 {
			if bytes.Contains(segment, r.content[at+5000:at+5032]) {
				plain.Store(true)
			}
		}
		return false
	})
	ctx, cancel := context.WithCancelCause(t.Context())
	go r.inTheMiddle(ctx, func() { cancel(errStopped) })
	if code, report := r.attempt(ctx, t, 1); code != exitFailed ||
		report.GetFailure().GetReason() != wirev1.FailureReason_FAILURE_REASON_ABORTED {
		t.Fatalf("the sender that was stopped: exit code %d, %v", code, report)
	}
	large.Clear()
	select {
	case <-read: // of the first attempt
	default:
	}
	go func() {
		<-read
		stopRelay()
	}()
	if code, report := r.attempt(t.Context(), t, 2); code != exitFailed {
		t.Fatalf("without a relay: exit code %d, %v", code, report)
	}
	r.startRelay(t)
	code, report := r.attempt(t.Context(), t, 3)
	if code != exitOK || report.GetProgress().GetResumedBytes() == 0 {
		t.Errorf("exit code %d, %v", code, report)
	}
	if plain.Load() {
		t.Error("the bucket got what the file has")
	}
	r.arrived(t)
}

// TestHandOffDenied: both agents end with what the store says, not with a lost connection.
func TestHandOffDenied(t *testing.T) {
	r := newHandOffRun(t, 24<<20)
	directory := r.west.Directory(t, r.west, "/ns/bank/objectstore/cargo", sendName)
	configure(t, directory, r.relay)
	relayed := make(chan *wirev1.Report, 1)
	go func() {
		_, report := runAgent(context.Background(), t, "relay", directory)
		relayed <- report
	}()
	var put atomic.Int64
	var rotated atomic.Bool
	r.server.Intercept(func(_ http.ResponseWriter, request *http.Request) bool {
		if request.Method == http.MethodPut && put.Add(request.ContentLength) > 6<<20 && !rotated.Swap(true) {
			go r.server.Set(objectstoretest.Faults{}, "somebody else")
		}
		return false
	})
	denied := wirev1.FailureReason_FAILURE_REASON_STORE_DENIED
	if code, report := r.attempt(t.Context(), t, 1); code != exitFailed || report.GetFailure().GetReason() != denied {
		t.Errorf("the sender: exit code %d, %v", code, report)
	}
	if report := <-relayed; report.GetFailure().GetReason() != denied {
		t.Errorf("the relay: %v", report)
	}
}

// TestHandOffConfig: neither begins with a configuration that lacks something.
func TestHandOffConfig(t *testing.T) {
	for name, change := range map[string]func(r *handOffRun){
		"the store":           func(r *handOffRun) { r.send.Via, r.relay.Store = nil, nil },
		"the policy of dials": func(r *handOffRun) { r.send.Via.DialPolicy, r.relay.Store.DialPolicy = nil, nil },
		"a claim": func(r *handOffRun) {
			r.send.Send.Volume, r.relay.GatewayAddress = "/etc/lighterage-store", ""
		},
		"the rest": func(r *handOffRun) { r.send.Send, r.relay.GatewayAddress = nil, "" },
	} {
		r := newHandOffRun(t, 1)
		change(r)
		directory := r.west.Directory(t, r.west, "/ns/bank/objectstore/cargo", sendName)
		var said lines
		configure(t, directory, r.relay)
		if code := run(t.Context(), []string{"relay", "--config-dir", directory}, &said, &said); code != exitConfig {
			t.Errorf("without %s the relay exits with %d: %s", name, code, said.String())
		}
		configure(t, directory, r.send)
		if code := run(t.Context(), []string{"handoff", "--config-dir", directory}, &said, &said); code != exitConfig {
			t.Errorf("without %s the sender exits with %d: %s", name, code, said.String())
		}
	}
}
