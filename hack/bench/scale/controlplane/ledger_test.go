// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const (
	managerUser = `"user":{"username":"system:serviceaccount:lighterage-system:lighterage-manager"}`
	gatewayUser = `"user":{"username":"system:serviceaccount:lighterage-system:lighterage-gateway"}`
	ledgerRun   = `"objectRef":{"resource":"transfers","namespace":"bank","name":"ledger","subresource":"status"}`
)

func patched(at, body string) string {
	return `{"stage":"ResponseComplete","verb":"patch",` + managerUser + `,` + ledgerRun +
		`,"responseStatus":{"code":200},"stageTimestamp":"` + at + `","requestObject":` + body + `}` + "\n"
}

func peerPatched(body string) string {
	return `{"stage":"ResponseComplete","verb":"patch",` + managerUser +
		`,"objectRef":{"resource":"peers","name":"bremen","subresource":"status"},"responseStatus":{"code":200},` +
		`"requestObject":` + body + `}` + "\n"
}

// TestLedger follows a log of which a line is cut in two when it is read first.
func TestLedger(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	first := `{"stage":"ResponseComplete","verb":"list",` + gatewayUser +
		`,"objectRef":{"resource":"deliveries"},"responseStatus":{"code":200}}` + "\n" +
		// A watch that has begun, and later ended.
		`{"stage":"ResponseStarted","verb":"watch",` + managerUser +
		`,"objectRef":{"resource":"jobs"},"responseStatus":{"code":200}}` + "\n" +
		`{"stage":"ResponseComplete","verb":"watch",` + managerUser +
		`,"objectRef":{"resource":"jobs"},"responseStatus":{"code":200}}` + "\n" +
		`{"stage":"ResponseComplete","verb":"update",` + managerUser +
		`,"objectRef":{"resource":"leases","name":"manager"},"responseStatus":{"code":200}}` + "\n" +
		`{"stage":"ResponseComplete","verb":"create",` + managerUser +
		`,"objectRef":{"resource":"jobs","namespace":"bank","name":"ledger-1"},"responseStatus":{"code":201}}` + "\n" +
		`{"stage":"ResponseComplete","verb":"create",` + managerUser +
		`,"objectRef":{"resource":"jobs","namespace":"bank","name":"ledger-2"},"responseStatus":{"code":409}}` + "\n" +
		patched("2026-01-01T00:00:00.000000Z", `{"status":{"phase":"Transferring","progress":{"bytes":1}}}`)
	second := patched("2026-01-01T00:00:10.000000Z", `{"status":{"progress":{"bytes":2}}}`) +
		patched("2026-01-01T00:00:12.000000Z", `{"status":{"progress":{"bytes":30}}}`) +
		`{"stage":"ResponseComplete","verb":"patch",` + managerUser +
		`,"objectRef":{"resource":"queues","namespace":"bank","name":"orders","subresource":"status"},"responseStatus":{"code":200},` +
		`"requestObject":{"status":{"statistics":{"depth":1}}}}` + "\n" +
		peerPatched(`{"status":{"sent":{"wireBytes":1}}}`) +
		peerPatched(`{"status":{"sent":{"wireBytes":1},"conditions":[]}}`) +
		`{"stage":"ResponseComplete","verb":"create",` + managerUser +
		`,"objectRef":{"resource":"statements","namespace":"bank","name":"2026-01"},"responseStatus":{"code":201}}` + "\n" +
		`{"stage":"ResponseComplete","verb":"patch",` + managerUser +
		`,"objectRef":{"resource":"statements","namespace":"bank","name":"2026-01","subresource":"status"},` +
		`"responseStatus":{"code":200},"requestObject":{"status":{"state":"Open"}}}` + "\n"
	if err := os.WriteFile(path, []byte(first+second[:40]), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := openLedger(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := l.close(); err != nil {
			t.Error(err)
		}
	}()
	before, err := l.Read()
	if err != nil {
		t.Fatal(err)
	}
	if before.State != 1 || before.Progress != 0 {
		t.Errorf("at first %d states and %d of progress", before.State, before.Progress)
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteString(second[40:]); err != nil {
		t.Fatal(err)
	}
	r, err := l.Read()
	if err != nil {
		t.Fatal(err)
	}
	for kind, want := range map[Kind]int64{
		{Gateway, "list", "deliveries"}: 1, {Manager, "watch", "jobs"}: 1, {Manager, "update", "leases"}: 1,
		{Manager, "create", "jobs"}:            2,
		{Manager, "patch", "transfers/status"}: 3, {Manager, "patch", "queues/status"}: 1,
	} {
		if got := r.Requests[kind]; got != want {
			t.Errorf("%d of %+v, want %d", got, kind, want)
		}
	}
	if refused := r.Failed[Kind{Manager, "create", "jobs"}]; refused != 1 {
		t.Errorf("%d Jobs were refused", refused)
	}
	peer := Object{"peers", "", "bremen"}
	if len(r.Written) != 3 || r.Written[peer] != 1 || r.Written[Object{"transfers", "bank", "ledger"}] != 1 ||
		r.Written[Object{"jobs", "bank", "ledger-1"}] != 1 {
		t.Errorf("written: %v", r.Written)
	}
	if r.Bookings["bank"] != 2 {
		t.Errorf("bookings: %v", r.Bookings)
	}
	long := int64(len(`{"status":{"progress":{"bytes":30}}}`))
	if r.State != 1 || r.Progress != 2 || r.Statistics != 2 || r.LongestProgress != long || r.ProgressBytes != 2*long-1 {
		t.Errorf("%+v", r)
	}
	run := r.Runs[Object{"transfers", "bank", "ledger"}]
	if run.Longest != 10*time.Second || run.Last.Second() != 12 {
		t.Errorf("progress %+v", run)
	}
	l.ForgetGaps()
	if r, err = l.Read(); err != nil || r.Runs[Object{"transfers", "bank", "ledger"}].Longest != 0 {
		t.Errorf("%+v %v", r.Runs, err)
	}
	if before.Progress != 0 || len(before.Written) != 2 {
		t.Errorf("what was read before has changed: %+v", before)
	}
}

func TestLedgerOfAnotherForm(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	if err := os.WriteFile(path, []byte("no JSON\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := openLedger(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Read(); err == nil {
		t.Error("no error")
	}
	if err := l.close(); err == nil {
		t.Error("no error in the end")
	}
}

func TestWrites(t *testing.T) {
	for kind, want := range map[Kind]bool{
		{Manager, "patch", "transfers/status"}: true, {Manager, "create", "events"}: true,
		{Manager, "delete", "jobs"}:   true,
		{Manager, "update", "leases"}: false, {Manager, "create", "subjectaccessreviews"}: false,
		{Manager, "get", "secrets"}: false, {Manager, "watch", "jobs"}: false,
	} {
		if kind.Writes() != want {
			t.Errorf("%+v: %v", kind, !want)
		}
	}
}

func TestAuditPolicyNamesThePrograms(t *testing.T) {
	for _, program := range []string{Manager, Gateway} {
		if !strings.Contains(auditPolicy, `"`+userName(program)+`"`) {
			t.Errorf("requests of %s are not logged", program)
		}
	}
}
