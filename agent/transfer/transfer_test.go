// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

func same(t *testing.T, source, destination string) {
	t.Helper()
	if diff := cmp.Diff(listing(t, source), listing(t, destination)); diff != "" {
		t.Errorf("source (-) and destination (+) differ:\n%s", diff)
	}
}

func TestTreeArrivesWhole(t *testing.T) {
	t.Parallel()
	source, destination := t.TempDir(), t.TempDir()
	files := mixedTree(t, source)
	sent, received := move(t, source, destination)
	same(t, source, destination)

	if sent.State != wirev1.AgentState_AGENT_STATE_SUCCEEDED || received.State != wirev1.AgentState_AGENT_STATE_SUCCEEDED {
		t.Errorf("states are %v and %v", sent.State, received.State)
	}
	for side, p := range map[string]*wirev1.Progress{"sender": sent.Progress, "receiver": received.Progress} {
		if p.Files != uint64(files) || p.FilesTotal != uint64(files) || p.Bytes != p.BytesTotal || p.Bytes == 0 ||
			!p.Scanned || p.UnchangedFiles != 0 {
			t.Errorf("%s: progress is %v", side, p)
		}
	}
	c := sent.Compression
	if c.Codec != "deflate" || c.Engine == "" || c.Reason != "SoftwareUsed" ||
		c.UncompressedBytes != sent.Progress.Bytes ||
		c.CompressedBytes >= c.UncompressedBytes || c.Skipped["Incompressible"] < 3 {
		t.Errorf("compression is %v", c)
	}
	if d := sent.Decompression; d.GetSoftware().GetOperations() != c.Software.Operations ||
		d.GetFallback().GetOperations() != 0 {
		t.Errorf("decompression is %v, compression %v", d, c)
	}
	if sent.WireBytes < c.CompressedBytes || sent.WireBytes > c.CompressedBytes+1<<20 || received.WireBytes == 0 {
		t.Errorf("wire bytes are %d and %d, compressed %d", sent.WireBytes, received.WireBytes, c.CompressedBytes)
	}
	came, peer := received.GetTraffic(), sent.GetPeerTraffic()
	if came.GetReceivedBytes() < c.CompressedBytes || came.GetDataSegments() == 0 || peer.GetDataSegments() == 0 ||
		peer.GetReceivedBytes() > came.GetReceivedBytes() || sent.GetTraffic().GetAcknowledgements() == 0 ||
		sent.GetTraffic().GetReceivedBytes() > 1<<20 {
		t.Errorf("arrived at the receiver: %v, it says %v; at the sender: %v", came, peer, sent.GetTraffic())
	}
	if cpu := sent.Cpu; cpu.SendNanos == 0 || cpu.ReceiveNanos == 0 || cpu.CompressNanos == 0 ||
		cpu.DecompressNanos == 0 ||
		cpu.ReadNanos == 0 || cpu.WriteNanos == 0 || cpu.CompressNanos+cpu.ReadNanos > cpu.SendNanos {
		t.Errorf("CPU is %v", cpu)
	}
	if got := received.Compression; got.GetCodec() != "deflate" || got.GetUncompressedBytes() != c.UncompressedBytes ||
		got.GetCompressedBytes() != c.CompressedBytes || got.GetSoftware().GetBytes() != c.Software.GetBytes() ||
		got.GetStored().GetBytes() != c.Stored.GetBytes() || got.GetEngine() != "" {
		t.Errorf("the receiver says %v, the sender %v", got, c)
	}

	t.Run("SecondRunSendsNothing", func(t *testing.T) {
		sent, _ := move(t, source, destination)
		same(t, source, destination)
		if p := sent.Progress; p.UnchangedFiles != uint64(files) || p.UnchangedBytes != p.BytesTotal ||
			p.Files != p.FilesTotal || p.Bytes != p.BytesTotal {
			t.Errorf("progress is %v", p)
		}
		if c := sent.Compression; c.Codec != "none" || c.Engine != "none" || c.Reason != "NothingToSend" ||
			c.UncompressedBytes != 0 {
			t.Errorf("compression is %v", c)
		}
	})

	t.Run("OnlyWhatChangedIsSent", func(t *testing.T) {
		file(t, source, "src/3/3/file-3.txt", text(99, 5000), 0o640)
		if err := os.Chmod(filepath.Join(source, "large"), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(filepath.Join(source, "dangling")); err != nil {
			t.Fatal(err)
		}
		link(t, source, "dangling", "elsewhere")
		sent, _ := move(t, source, destination)
		same(t, source, destination)
		if c := sent.Compression; c.UncompressedBytes != 5000 {
			t.Errorf("compression is %v", c)
		}
		if p := sent.Progress; p.UnchangedFiles != uint64(files)-1 || p.Files != p.FilesTotal {
			t.Errorf("progress is %v", p)
		}
	})
}
