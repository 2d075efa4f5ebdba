// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/lighterage/lighterage/agent/compression"
	"github.com/lighterage/lighterage/agent/transport"
	"github.com/lighterage/lighterage/agent/transport/transporttest"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// severalRun is a claim and destinations in one cluster.
type severalRun struct {
	own          *transporttest.Authority
	source       string
	destinations []string
	config       *wirev1.SendConfig
	directory    string
	forms        map[int]wirev1.Form // of receivers
}

func newSeveralRun(t *testing.T, receivers int) *severalRun {
	t.Helper()
	r := &severalRun{own: transporttest.NewAuthority(t, "east"), source: t.TempDir()}
	for range receivers {
		r.destinations = append(r.destinations, t.TempDir())
	}
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 40 {
		var text strings.Builder
		for text.Len() < 1<<(10+i%11) {
			fmt.Fprintf(&text, "%d: a line of file %d\n", random.IntN(1000), i)
		}
		if err := os.WriteFile(filepath.Join(r.source, fmt.Sprint("file", i)), []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func receiverNamed(i int) string { return fmt.Sprintf("d%d", i) }

// attempt has agents receive and one send. runs are what receivers take the run for. It returns what the manager was
// told at the end of each receiver, and the termination message.
func (r *severalRun) attempt(
	t *testing.T, number uint32, runs ...string,
) (code int, heard map[string]*wirev1.Report, left *wirev1.Report) {
	t.Helper()
	r.directory = t.TempDir()
	r.config = &wirev1.SendConfig{
		Volume: r.source, Path: ".", Verify: true, ControlAddress: freeAddress(t), CheckpointInterval: 1 << 20,
		Compression: &wirev1.CompressionSettings{
			Mode: wirev1.CompressionMode_COMPRESSION_MODE_ALWAYS, Level: wirev1.CompressionLevel_COMPRESSION_LEVEL_FAST,
			Codecs: []string{"deflate"},
		},
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ended := make(chan struct{}, len(runs))
	for i, run := range runs {
		r.receive(ctx, t, i, number, run, ended)
	}
	configure(t, r.directory, r.config)
	log := filepath.Join(t.TempDir(), "termination")
	done := make(chan int, 1)
	var lines lines
	go func() {
		done <- run(ctx, []string{"send", "--config-dir", r.directory, "--termination-log", log}, &lines, &lines)
	}()
	heard = map[string]*wirev1.Report{}
	for i := range runs {
		heard[receiverNamed(i)] = r.ask(ctx, t, i)
	}
	select {
	case code = <-done:
	case <-ctx.Done():
		t.Fatalf("the sender does not end:\n%s", lines.String())
	}
	cancel()
	for range runs {
		<-ended
	}
	return code, heard, final(t, log)
}

// receive starts an agent that receives, and has the sender send to it.
func (r *severalRun) receive(
	ctx context.Context, t *testing.T, i int, number uint32, expected string, ended chan<- struct{},
) {
	t.Helper()
	name := receiverNamed(i)
	serverName := name + ".receive.test"
	directory := r.own.Directory(t, r.own, "/ns/vault/delivery/"+name, serverName)
	receive := &wirev1.ReceiveConfig{
		RunId: expected, Attempt: number, SenderNamespace: "bank", SenderName: name, Volume: r.destinations[i], Path: ".",
		ControlAddress: freeAddress(t), DataAddress: freeAddress(t),
	}
	configure(t, directory, receive)
	go func() {
		var lines lines
		run(ctx, []string{"receive", "--config-dir", directory}, &lines, &lines)
		ended <- struct{}{}
	}()
	certificates := r.own.ForRun("run"+name).Directory(t, r.own, "/ns/bank/transfer/"+name, name+".send.test")
	for _, file := range []string{"tls.crt", "tls.key", transport.PeerCA, transport.ClusterCA} {
		b, err := os.ReadFile(filepath.Join(certificates, file))
		if err != nil {
			t.Fatal(err)
		}
		to := name + "." + file
		if file == transport.ClusterCA {
			to = file
		}
		if err := os.WriteFile(filepath.Join(r.directory, to), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r.config.Receivers = append(r.config.Receivers, &wirev1.SendReceiver{
		Name: name, RunId: "run" + name, Attempt: number, ReceiverEndpoint: receive.DataAddress,
		ReceiverServerName: serverName, Form: r.forms[i],
	})
	r.manager(ctx, t, receive.ControlAddress, serverName)
}

// manager is a connection of the manager's to an agent.
func (r *severalRun) manager(ctx context.Context, t *testing.T, address, serverName string) *transport.Client {
	t.Helper()
	client, err := (&transport.Dialer{
		Address: address, Files: transport.NewFiles(r.own.Directory(t, r.own, "/manager", "")),
	}).Dial(serverName)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	if err := client.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	return client
}

// ask asks for the report of a receiver until it is final.
func (r *severalRun) ask(ctx context.Context, t *testing.T, i int) *wirev1.Report {
	t.Helper()
	client := wirev1.NewAgentClient(r.manager(ctx, t, r.config.ControlAddress, receiverNamed(i)+".send.test"))
	for {
		response, err := client.GetReport(ctx, &wirev1.GetReportRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if response.GetReport().GetEndTime() != nil {
			return response.GetReport()
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (r *severalRun) arrived(t *testing.T, i int) {
	t.Helper()
	entries, err := os.ReadDir(r.source)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		want, err := os.ReadFile(filepath.Join(r.source, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(r.destinations[i], entry.Name()))
		if err != nil || string(got) != string(want) {
			t.Errorf("%s at %d: %d bytes, %v", entry.Name(), i, len(got), err)
		}
	}
}

// Engines are measured for one form after the other.
func TestSeveralFormsAreMeasuredApart(t *testing.T) {
	receivers := map[string]*receiver{}
	for name, form := range map[string]wirev1.Form{
		"a": wirev1.Form_FORM_GZIP, "b": wirev1.Form_FORM_ZSTD, "c": wirev1.Form_FORM_ZSTD,
	} {
		receivers[name] = &receiver{config: &wirev1.SendConfig{Form: form}}
	}
	var now, most, calls atomic.Int32
	forms := byForm(receivers, func(compression.Settings) encoders {
		if n := now.Add(1); n > most.Load() {
			most.Store(n)
		}
		calls.Add(1)
		time.Sleep(50 * time.Millisecond)
		now.Add(-1)
		return encoders{}
	})
	var all sync.WaitGroup
	for range 2 {
		for _, measure := range forms {
			all.Go(func() { measure() })
		}
	}
	all.Wait()
	if len(forms) != 2 || calls.Load() != 2 || most.Load() != 1 {
		t.Errorf("%d forms, measured %d times, %d at once", len(forms), calls.Load(), most.Load())
	}
}

// One sender, two receivers: each gets everything, and the next run writes nothing.
func TestSendToSeveral(t *testing.T) {
	r := newSeveralRun(t, 2)
	code, heard, left := r.attempt(t, 1, "rund0", "rund1")
	if code != exitOK || left.GetState() != wirev1.AgentState_AGENT_STATE_SUCCEEDED {
		t.Fatalf("exit code %d, report %v", code, left)
	}
	for i := range 2 {
		r.arrived(t, i)
		name := receiverNamed(i)
		one := &wirev1.Report{}
		if err := proto.Unmarshal(left.GetReceivers()[name], one); err != nil {
			t.Fatal(err)
		}
		for _, report := range []*wirev1.Report{heard[name], one} {
			if report.GetState() != wirev1.AgentState_AGENT_STATE_SUCCEEDED || report.GetProgress().GetFiles() != 40 ||
				report.GetCompression().GetUncompressedBytes() == 0 || report.GetCpu().GetReceiveNanos() == 0 {
				t.Errorf("%s: the report is %v", name, report)
			}
		}
	}
	code, heard, _ = r.attempt(t, 2, "rund0", "rund1")
	for name, report := range heard {
		if code != exitOK || report.GetCompression().GetUncompressedBytes() != 0 ||
			report.GetProgress().GetUnchangedFiles() != 40 {
			t.Errorf("%s: exit code %d, the report of the second attempt is %v", name, code, report)
		}
	}
}

// Each receiver keeps files in its form.
func TestSendToSeveralInForms(t *testing.T) {
	r := newSeveralRun(t, 2)
	r.forms = map[int]wirev1.Form{1: wirev1.Form_FORM_GZIP}
	if code, _, left := r.attempt(t, 1, "rund0", "rund1"); code != exitOK {
		t.Fatalf("exit code %d, report %v", code, left)
	}
	r.arrived(t, 0)
	for i := range 40 {
		name := fmt.Sprint("file", i)
		want, err := os.ReadFile(filepath.Join(r.source, name))
		if err != nil {
			t.Fatal(err)
		}
		rests, err := os.Open(filepath.Join(r.destinations[1], name+".gz"))
		if err != nil {
			t.Fatal(err)
		}
		inflated, err := gzip.NewReader(rests)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(inflated); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s.gz: %d bytes, want %d: %v", name, len(got), len(want), err)
		}
		_ = rests.Close()
	}
}

// A receiver that rejects the run keeps nobody from going on, and its report says so.
func TestOneOfSeveralFails(t *testing.T) {
	r := newSeveralRun(t, 3)
	code, heard, left := r.attempt(t, 1, "rund0", "another", "rund2")
	if code != exitFailed || left.GetState() != wirev1.AgentState_AGENT_STATE_FAILED {
		t.Errorf("exit code %d, report %v", code, left)
	}
	r.arrived(t, 0)
	r.arrived(t, 2)
	for name, want := range map[string]wirev1.AgentState{
		"d0": wirev1.AgentState_AGENT_STATE_SUCCEEDED, "d1": wirev1.AgentState_AGENT_STATE_FAILED,
		"d2": wirev1.AgentState_AGENT_STATE_SUCCEEDED,
	} {
		if got := heard[name]; got.GetState() != want {
			t.Errorf("%s: the report is %v", name, got)
		}
	}
}

// TestNoModeReadsSecrets: whatever a volume is called, and whatever it leads to, what is mounted in /etc is no data.
func TestNoModeReadsSecrets(t *testing.T) {
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink("/proc/self/root/etc", link); err != nil {
		t.Fatal(err)
	}
	receivers := []*wirev1.SendReceiver{
		{Name: "a", RunId: "abcde", ReceiverEndpoint: "127.0.0.1:1", ReceiverServerName: "r"},
	}
	compression := &wirev1.CompressionSettings{
		Mode: wirev1.CompressionMode_COMPRESSION_MODE_NEVER, Level: wirev1.CompressionLevel_COMPRESSION_LEVEL_FAST,
	}
	for _, volume := range []string{
		"/etc", "/etc/ssl", "/tmp/..", "/proc/self/root/etc", "/sys", "/dev/fd/..", link, filepath.Join(link, "ssl"),
	} {
		one := &wirev1.SendConfig{
			RunId: "abcde", Attempt: 1, Volume: volume, Path: ".", ControlAddress: "127.0.0.1:0",
			ReceiverEndpoint: "127.0.0.1:1", ReceiverServerName: "r", Compression: compression,
		}
		several := proto.CloneOf(one)
		several.Receivers = receivers
		local := newLocalRun(t, wirev1.CompressionMode_COMPRESSION_MODE_AUTO)
		scrubbed := proto.CloneOf(local.config)
		local.config.Send.Volume = volume
		scrubbed.Send.Volume, scrubbed.Send.SourceForm = volume, wirev1.Form_FORM_GZIP
		scrubbed.Scrub = &wirev1.Scrub{}
		for what, c := range map[string]struct {
			mode   string
			config proto.Message
		}{
			"a sender":   {"send", one},
			"of several": {"send", several},
			"a trial":    {"trial", trialConfig(t, volume)},
			"in one pod": {"local", local.config},
			"verifying":  {"local", scrubbed},
		} {
			configure(t, local.directory, c.config)
			var lines lines
			code := run(t.Context(), []string{c.mode, "--config-dir", local.directory}, &lines, &lines)
			if code != exitConfig || !strings.Contains(lines.String(), volume) {
				t.Errorf("%s, %s: exit code %d:\n%s", what, volume, code, lines.String())
			}
		}
	}
}

func TestSeveralReceiversAreChecked(t *testing.T) {
	valid := func(name string) *wirev1.SendReceiver {
		return &wirev1.SendReceiver{Name: name, RunId: "abcde", ReceiverEndpoint: "127.0.0.1:1", ReceiverServerName: "r"}
	}
	many := make([]*wirev1.SendReceiver, 65)
	for i := range many {
		many[i] = valid(receiverNamed(i))
	}
	for what, receivers := range map[string][]*wirev1.SendReceiver{
		"Twice":   {valid("a"), valid("a")},
		"Outside": {valid("../a")},
		"TooMany": many,
		"Archives": {{
			Name: "a", RunId: "abcde", ReceiverEndpoint: "127.0.0.1:1", ReceiverServerName: "r",
			Form: wirev1.Form_FORM_ARCHIVE,
		}},
		"Unreachable": {{Name: "a", RunId: "abcde"}},
		"NoRun":       {{Name: "a", ReceiverEndpoint: "127.0.0.1:1", ReceiverServerName: "r"}},
	} {
		t.Run(what, func(t *testing.T) {
			directory := t.TempDir()
			configure(t, directory, &wirev1.SendConfig{
				Volume: t.TempDir(), Path: ".", ControlAddress: freeAddress(t), Receivers: receivers,
				Compression: &wirev1.CompressionSettings{
					Mode: wirev1.CompressionMode_COMPRESSION_MODE_NEVER, Level: wirev1.CompressionLevel_COMPRESSION_LEVEL_FAST,
				},
			})
			var lines lines
			if code := run(t.Context(), []string{"send", "--config-dir", directory}, &lines, &lines); code != exitConfig {
				t.Errorf("exit code %d:\n%s", code, lines.String())
			}
		})
	}
}
