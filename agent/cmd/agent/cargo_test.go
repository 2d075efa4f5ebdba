// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/agent/objectstore/objectstoretest"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// rests makes a file of a claim rest in form Gzip, and returns its bytes and those of its index by name.
func (r *localRun) rests(t *testing.T) map[string][]byte {
	t.Helper()
	var rest bytes.Buffer
	index, err := cargo.Pack(t.Context(), &rest, strings.NewReader(r.content), cargo.PackOptions{
		Form: cargo.Gzip, Engines: engines.Default(),
	})
	if err == nil {
		err = os.Remove(filepath.Join(r.source, "data/sub/file"))
	}
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{"sub/file.gz": rest.Bytes(), "sub/.file.gz.lgci": index.Append(nil)}
	for name, b := range files {
		if err := os.WriteFile(filepath.Join(r.source, "data", name), b, 0o640); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// through has a claim put into a store, and that into another claim, and returns both reports.
func (r *localRun) through(t *testing.T, from, in, to wirev1.Form) (put, restored *wirev1.Report) {
	t.Helper()
	server, both := objectstoretest.New(t, "me"), r.config
	defer func() { r.config = both }()
	send := proto.CloneOf(both.GetSend())
	send.SourceForm, send.Form = from, in
	r.config = &wirev1.LocalConfig{
		Send: send, Receive: &wirev1.ReceiveConfig{
			RunId: "abcde", Attempt: 1, SenderNamespace: "bank", SenderName: "ledger",
		},
		DestinationStore: storeEnd(t, server), Transfer: "bank/ledger (1)",
	}
	code, put, log := r.run(t.Context(), t)
	if code != exitOK {
		t.Fatalf("the agent exits with %d:\n%s", code, log)
	}
	send = proto.CloneOf(both.GetSend())
	send.Volume, send.Path, send.Form = "", "", to
	if to == wirev1.Form_FORM_UNSPECIFIED { // as the manager does
		send.Compression.Mode = wirev1.CompressionMode_COMPRESSION_MODE_AUTO
	}
	r.destination = t.TempDir()
	receive := proto.CloneOf(both.GetReceive())
	receive.Volume = r.destination
	r.config = &wirev1.LocalConfig{Send: send, Receive: receive, SourceStore: storeEnd(t, server)}
	code, restored, log = r.run(t.Context(), t)
	if code != exitOK {
		t.Fatalf("the agent exits with %d:\n%s", code, log)
	}
	return put, restored
}

// What rests in a claim goes into a store and from there into another claim as it rests, and nobody inflates or
// compresses it. Where a form is another one, it is inflated and compressed once, and the report counts it.
func TestCargoThroughAStore(t *testing.T) {
	const files, gzip, zstd = wirev1.Form_FORM_UNSPECIFIED, wirev1.Form_FORM_GZIP, wirev1.Form_FORM_ZSTD
	for _, mode := range []wirev1.CompressionMode{
		wirev1.CompressionMode_COMPRESSION_MODE_ALWAYS, wirev1.CompressionMode_COMPRESSION_MODE_NEVER,
	} {
		r := newLocalRun(t, mode)
		rests := r.rests(t)
		put, restored := r.through(t, gzip, gzip, gzip)
		for what, report := range map[string]*wirev1.Report{"into": put, "out of": restored} {
			c, d := report.GetCompression(), report.GetDecompression()
			if c.GetSkipped()["AlreadyCompressed"] != 2 || c.GetReason() != "AlreadyCompressed" ||
				c.GetSoftware().GetOperations()+c.GetHardware().GetOperations() != 0 ||
				c.GetUncompressedBytes() != uint64(len(r.content)) || c.GetCompressedBytes() >= c.GetUncompressedBytes() {
				t.Errorf("%v, %s the store: compression %v", mode, what, c)
			}
			if d.GetSoftware().GetOperations()+d.GetHardware().GetOperations() != 0 || report.GetCpu().GetDecompressNanos() != 0 {
				t.Errorf("%v, %s the store: decompression %v", mode, what, d)
			}
		}
		for name, want := range rests {
			got, err := os.ReadFile(filepath.Join(r.destination, "copy", name))
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%v: %s is not what rested at first: %v", mode, name, err)
			}
		}
	}

	r := newLocalRun(t, wirev1.CompressionMode_COMPRESSION_MODE_ALWAYS)
	r.rests(t)
	for _, forms := range [][2]wirev1.Form{{files, files}, {zstd, files}, {gzip, zstd}} {
		put, restored := r.through(t, gzip, forms[0], forms[1])
		if n := put.GetDecompression().GetSoftware().GetBytes(); forms[0] != gzip && n != uint64(len(r.content)) ||
			forms[0] == gzip && n != 0 {
			t.Errorf("%v: %d bytes were inflated into the store", forms, n)
		}
		if n := restored.GetDecompression().GetSoftware().GetBytes(); forms[0] != files && n != uint64(len(r.content)) {
			t.Errorf("%v: %d bytes were inflated out of the store", forms, n)
		}
		if forms[1] == files {
			r.arrived(t)
		} else if _, err := os.Stat(filepath.Join(r.destination, "copy/sub/file.zst")); err != nil {
			t.Errorf("%v: %v", forms, err)
		}
	}
}

// Indexes know the records that the configuration names, in a store and in the claim that it is restored into. An agent
// does not start with records that no index could know.
func TestRecordsThroughAStore(t *testing.T) {
	const gzip = wirev1.Form_FORM_GZIP
	r := newLocalRun(t, wirev1.CompressionMode_COMPRESSION_MODE_ALWAYS)
	r.config.GetSend().Records = &wirev1.Records{Layout: wirev1.RecordLayout_RECORD_LAYOUT_LINES}
	put, restored := r.through(t, wirev1.Form_FORM_UNSPECIFIED, gzip, gzip)
	if n := restored.GetCompression().GetSkipped()["AlreadyCompressed"]; n == 0 || len(put.GetOmissions()) > 0 {
		t.Errorf("%d blocks were restored as they rest; omissions %v", n, put.GetOmissions())
	}
	b, err := os.ReadFile(filepath.Join(r.destination, "copy/sub/.file.gz.lgci"))
	if err != nil {
		t.Fatal(err)
	}
	index, err := cargo.ParseIndex(b)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Count(r.content, "\n")
	if !strings.HasSuffix(r.content, "\n") {
		want++
	}
	if index.Records().Layout != cargo.Lines || index.RecordCount() != int64(want) {
		t.Errorf("%d records %v instead of %d lines", index.RecordCount(), index.Records(), want)
	}
	for name, form := range map[string]wirev1.Form{"files": 0, "archives": wirev1.Form_FORM_ARCHIVE} {
		r.config.GetSend().Form = form
		if code, _, log := r.run(t.Context(), t); code != exitConfig {
			t.Errorf("%s: the agent exits with %d:\n%s", name, code, log)
		}
	}
}
