// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package explain_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/canary"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/explain"
)

// hostile is what a tenant or another cluster may write into status.
const hostile = "evil\x1b]0;title\x07\x1b[2J\r\nStalled True \u202eforged"

// everyKind calls a test with an empty object of each kind of the API.
func everyKind(t *testing.T, test func(*testing.T, explain.Object)) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	n := 0
	for kind, of := range scheme.KnownTypes(v1alpha1.GroupVersion) {
		object, ok := reflect.New(of).Interface().(explain.Object)
		if !ok || of.PkgPath() != reflect.TypeFor[v1alpha1.Peer]().PkgPath() {
			continue // lists, options
		}
		n++
		t.Run(kind, func(t *testing.T) { test(t, object) })
	}
	if n < 13 {
		t.Fatalf("found %d kinds: the search is broken", n)
	}
}

func explainObject(t *testing.T, object explain.Object) (*explain.Report, string) {
	t.Helper()
	in := explain.Input{SenderUnknown: "x", ReceiverUnknown: "x", Now: time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)}
	in.Transfer, _ = object.(*v1alpha1.Transfer)
	r, err := explain.Of(object, in)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := r.WriteText(&out); err != nil {
		t.Fatal(err)
	}
	return r, out.String()
}

// TestEveryKind: each kind of the API is explained, as long as nothing is known of it and when status is full of what
// commands a terminal.
func TestEveryKind(t *testing.T) {
	everyKind(t, func(t *testing.T, object explain.Object) {
		object.SetName("one")
		if r, text := explainObject(t, object); len(r.Next) == 0 || r.Conditions == nil ||
			!strings.Contains(text, "one: waiting") {
			t.Errorf("%+v\n%s", r, text)
		}
	})
	everyKind(t, func(t *testing.T, object explain.Object) {
		fill(reflect.ValueOf(object).Elem(), 0)
		object.SetDeletionTimestamp(nil)
		r, text := explainObject(t, object)
		if len(r.Sections) == 0 || len(r.Conditions) == 0 {
			t.Errorf("%+v", r)
		}
		for line := range strings.Lines(text) {
			line = strings.TrimSuffix(line, "\n")
			if strings.HasPrefix(strings.TrimSpace(line), "Stalled True") ||
				strings.ContainsFunc(line, func(r rune) bool { return !strconv.IsPrint(r) }) {
				t.Errorf("%q", line)
			}
		}
		encoded, err := json.Marshal(r)
		if err != nil || !json.Valid(encoded) {
			t.Error(err)
		}
	})
}

// fill sets everything that can be set, one element of each list and map.
func fill(v reflect.Value, depth int) {
	if depth > 12 || !v.CanSet() {
		return
	}
	switch value := v.Addr().Interface().(type) {
	case *metav1.Time:
		*value = metav1.NewTime(time.Unix(1767000000, 0))
		return
	case *resource.Quantity:
		*value = resource.MustParse("10Mi")
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), depth+1)
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), depth+1)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), depth+1)
	case reflect.Map:
		key, element := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, depth+1)
		fill(element, depth+1)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, element)
	case reflect.String:
		v.SetString(hostile)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(7)
	case reflect.Bool:
		v.SetBool(true)
	}
}

// TestReport: what each kind decided, why, what it cost and what else there is, and what to do.
func TestReport(t *testing.T) {
	full := func(change func(*v1alpha1.Queue)) explain.Object {
		q := &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "orders", Generation: 2}}
		q.Status.ObservedGeneration = 2
		q.Status.Conditions = conditions.Ready("Serving", "all serve")
		change(q)
		return q
	}
	peer := &v1alpha1.Peer{ObjectMeta: metav1.ObjectMeta{Name: "west"}}
	peer.Spec.Endpoint = "gateway.west.example:8443"
	peer.Status.Conditions = conditions.Stalled(v1alpha1.ReasonPeerUntrusted, "its certificate does not verify")
	quota := &v1alpha1.DataQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "small"}}
	quota.Spec.Hard.RunningTransfers = new(int32(3))
	quota.Status.Used = &v1alpha1.DataQuotaResources{RunningTransfers: new(int32(2))}
	policy := &v1alpha1.CompressionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "priced"}}
	policy.Spec.TariffName, policy.Spec.Level = "datacentre", v1alpha1.CompressionHigh
	tried := policy.DeepCopy()
	tried.Spec.Canary = &v1alpha1.CompressionCanary{Settings: v1alpha1.CanarySettings{Mode: v1alpha1.CompressionAlways}}
	tried.Status.Canary = &v1alpha1.CanaryStatus{
		State: v1alpha1.CanaryRolledBack, Objective: v1alpha1.ObjectiveCost, Currency: "EUR",
		Inside:  v1alpha1.CanarySide{Objects: 4, Namespaces: 3, UncompressedBytes: 1 << 30, CostPerGiB: "0.2000"},
		Outside: v1alpha1.CanarySide{Objects: 36, Namespaces: 9}, ChangePercent: "25.0", LowPercent: "20.0",
		HighPercent: "30.0",
	}
	tried.Status.Conditions = []metav1.Condition{{
		Type: v1alpha1.ConditionCanaryFinished, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonCanaryRolledBack,
	}}
	won := tried.DeepCopy()
	won.Status.Canary.State, won.Status.Canary.Revision = v1alpha1.CanaryPromoted, canary.Revision(won)
	local := &v1alpha1.LocalCompressionPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "small"}}
	local.Spec.Codecs = []v1alpha1.Codec{v1alpha1.CodecZstd}
	tariff := &v1alpha1.Tariff{ObjectMeta: metav1.ObjectMeta{Name: "datacentre"}}
	tariff.Spec = v1alpha1.TariffSpec{
		Currency: "EUR", TimeZone: "Etc/UTC",
		CPUHour: v1alpha1.CPUHourPrice{Price: "0.04", Rules: []v1alpha1.CPUHourRule{
			{Price: "0.01", Windows: []v1alpha1.TariffWindow{{Start: "20:00", End: "06:00"}}},
		}},
		NetworkGiB: v1alpha1.NetworkGiBPrice{Price: "0", Rules: []v1alpha1.NetworkGiBRule{
			{Price: "0.09", Peers: []string{"west"}, Direction: v1alpha1.DirectionSend},
		}},
	}
	trial := &v1alpha1.CompressionTrial{ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "files"}}
	trial.Status.Conditions = append(conditions.Stalled("SourceEmpty", "no files"),
		conditions.New(v1alpha1.ConditionFailed, true, "SourceEmpty", "no files"))
	// As of a trial without links.
	trial.Status.Results = []v1alpha1.TrialResult{{Codec: "zstd", Engine: "libzstd", Level: "Fast", Ratio: "3.14"}}
	delivery := &v1alpha1.Delivery{ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "ledger-1"}}
	delivery.Spec.Peer, delivery.Spec.Transfer = "east", v1alpha1.TransferReference{Namespace: "bank", Name: "ledger"}
	delivery.Status.Compression = &v1alpha1.CompressionStatus{Codec: "deflate"}
	statement := &v1alpha1.Statement{ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "statement-2026-01"}}
	statement.Spec.Month = "2026-01"
	statement.Status.Totals = []v1alpha1.StatementTotal{{Currency: "EUR", Cost: "1.25", PlainBytes: 1 << 30}}
	grant := &v1alpha1.PeerGrant{ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "east"}}
	grant.Spec.From = []v1alpha1.PeerGrantFrom{{Peer: "east", Namespaces: []string{"bank"}}}
	grant.Spec.To = []v1alpha1.PeerGrantTo{{Kind: v1alpha1.GrantedPersistentVolumeClaim, Name: "copy", Path: "/in"}}
	endpoint := &v1alpha1.HTTPEndpoint{ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "front"}}
	endpoint.Status.Decisions = &v1alpha1.DecisionsStatus{
		Objective: v1alpha1.ObjectiveElapsed, LinkBytesPerSecond: 125e6, SendCPUSecondsPerGiB: "1.500",
		RegretPercent: "3.4", RegretMarginPercent: "0.7", RegretSamples: 1234, BestAlternative: "zstd Balanced",
		Classes: []v1alpha1.ClassDecision{{
			Content: "json", Size: "<64Ki", Codec: "deflate", Choice: v1alpha1.ClassUncompressed,
			Reason: v1alpha1.CompressionNetworkFaster, Operations: 40, Bytes: 5000, OtherPercent: "12.5",
		}, {Content: "css", Choice: v1alpha1.ClassCompressed, OtherPercent: "-3.0"}},
	}
	set := &v1alpha1.TransferSet{ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "move"}}
	set.Status.Members = &v1alpha1.TransferSetMembers{Selected: 3, Complete: 1, Running: 1, Failed: 1}
	set.Status.Bytes, set.Status.BytesTotal = 1<<30, 2<<30
	set.Status.Costs = []v1alpha1.CurrencyCost{{Currency: "EUR", CPU: "0.1", Network: "0.2", Saved: "0.3"}}
	set.Status.Group = &v1alpha1.TransferSetGroupStatus{Name: "lighterage-0123", State: v1alpha1.GroupReady}
	set.Status.Failures = []v1alpha1.TransferSetFailure{{
		ClaimName: "ledger", TransferName: "move-ledger", Reason: v1alpha1.ReasonNotGranted, Message: "no PeerGrant",
	}}
	several := set.DeepCopy()
	several.Namespace, several.Spec.NamespaceSelector = "lighterage-system", &metav1.LabelSelector{}
	several.Status.Namespaces, several.Status.Failures[0].Namespace = 2, "bank"
	several.Status.Failures = append(several.Status.Failures, v1alpha1.TransferSetFailure{
		Namespace: "far", Reason: v1alpha1.ReasonNamespaceNotWatched, Message: "add it",
	})
	drill := &v1alpha1.Drill{ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "ledger"}}
	drill.Spec.Source.ObjectStore = v1alpha1.ObjectStorePath{Name: "vault", Path: "/ledger"}
	drill.Spec.Inflate = v1alpha1.InflateSoftware
	drill.Spec.Objective = &v1alpha1.DrillObjective{MaxAge: &metav1.Duration{Duration: 26 * time.Hour}}
	drill.Status.Conditions = conditions.Stalled(v1alpha1.ReasonCopyTooOld, "the copy is old")
	drill.Status.Run = &v1alpha1.DrillRecord{
		ID: "abcde", StartTime: *at(0), CompletionTime: at(30), Reason: v1alpha1.ReasonCopyTooOld, Files: 3, Bytes: 1 << 30,
		BytesPerSecond: 100e6, Attempts: 2, CPU: &v1alpha1.CPUStatus{SecondsPerGiB: "1.50"},
	}
	drill.Status.History = []v1alpha1.DrillRecord{*drill.Status.Run, {ID: "before", Reason: v1alpha1.ReasonRecovered}}
	scrubbed := drill.DeepCopy()
	scrubbed.Spec.Source = v1alpha1.DrillSource{
		PersistentVolumeClaim: v1alpha1.PersistentVolumeClaimPath{ClaimName: "cargo"}, Form: v1alpha1.RestingGzip,
	}
	scrubbed.Spec.Scrub = v1alpha1.ScrubChecksums
	scrubbed.Status.Conditions = conditions.Stalled(v1alpha1.ReasonDataDamaged, "it is damaged")
	scrubbed.Status.Run.Findings = []v1alpha1.Omission{{What: "Damaged", Count: 7, Examples: []string{"a.gz"}}}
	for name, test := range map[string]struct {
		object explain.Object
		says   []string
	}{
		"TransferSet": {set, []string{
			"3 selected: 1 complete, 1 running, 0 waiting, 1 failed", "1.00 GiB of 2.00 GiB", "lighterage-0123: Ready",
			"EUR 0.1 for CPU",
			"Transfer move-ledger: NotGranted: no PeerGrant", "explain transfer/move-ledger -n bank",
			"-l lighterage.dev/transfer-set=move",
		}},
		"a TransferSet of several namespaces": {several, []string{
			"bank/ledger", "explain transfer/move-ledger -n bank", "NamespaceNotWatched: add it",
			"transfers -A -l lighterage.dev/transfer-set=move",
		}},
		"an HTTPEndpoint in mode Auto": {endpoint, []string{
			"Elapsed", "125.0 MB/s", "1.500 CPU seconds", "json", "<64Ki", "NetworkFaster", "+12.5 %", "-3.0 %",
			"3.4 %", "0.7", "1234", "zstd Balanced",
		}},
		"a Queue in mode Auto": {full(func(q *v1alpha1.Queue) {
			decisions := endpoint.Status.Decisions.DeepCopy()
			decisions.LinkBytesPerSecond, decisions.DiskBytesPerSecond, decisions.InflateCPUSecondsPerGiB = 0, 300e6, "0.700"
			decisions.Classes[0].Reason = v1alpha1.CompressionDiskFaster
			q.Status.Decisions = decisions
			q.Status.Channel = &v1alpha1.QueueChannelStatus{
				Decisions: endpoint.Status.Decisions,
				DataPath:  &v1alpha1.DataPath{Type: v1alpha1.DataPathTCP, Reason: v1alpha1.DataPathFellBack},
			}
		}), []string{
			"about messages\n", "300.0 MB/s", "0.700 CPU seconds", "DiskFaster", "messages of the channel", "125.0 MB/s to the peer",
			"TCP (FellBack)",
		}},
		"a Queue with dictionaries": {full(func(q *v1alpha1.Queue) {
			q.Status.Dictionaries = &v1alpha1.QueueDictionariesStatus{
				Message: "dictionary 70000 is in use", Kept: 13, KeptDeflate: 7, Messages: 1234,
				Current: &v1alpha1.QueueDictionary{
					Number: 70000, Codec: v1alpha1.CodecZstd, TrainedTime: new(metav1.Unix(1700000000, 0)), Bytes: 65000,
					TrainingMessages: 1500, MeasuredMessages: 499, SavedPercent: "78.1", SavedPercentWithout: "45.2",
					CPURatio: "0.83",
				},
			}
			q.Status.Channel = &v1alpha1.QueueChannelStatus{Destination: "west/bank/orders", Dictionaries: 21}
			q.Status.Received = []v1alpha1.ReceivedChannel{{Source: "north/bank/a"}, {Source: "north/bank/b", Dictionaries: 34}}
		}), []string{
			"Dictionaries", "in use", "70000 of zstd", "65000", "1500", "499", "1234", "78.1", "45.2", "0.83", "13, 7 of them",
			"dictionaries sent  21", "Channel from north/bank/b", "dictionaries received  34",
		}},
		"a Queue that serves": {full(func(q *v1alpha1.Queue) {
			q.Status.Compression = &v1alpha1.CompressionStatus{
				Codec: "deflate", Engine: "isa-l", Level: "Fast", Reason: v1alpha1.CompressionNoAccelerator, Ratio: "3.00",
				Skipped: map[string]int64{v1alpha1.CompressionBelowMinimum: 12},
			}
			q.Status.Cost = &v1alpha1.CostStatus{Currency: "EUR", CPU: "0.5", Network: "0", Saved: "0", Idle: "0.4"}
			q.Status.Placement = &v1alpha1.PlacementStatus{
				Node: "worker-1", Reason: v1alpha1.PlacementReasonNoRoom, Alternatives: []v1alpha1.PlacementAlternative{
					{Node: "z15-a", Reason: v1alpha1.PlacementReasonCordoned},
				},
			}
		}), []string{
			"Queue bank/orders: ready", "deflate by isa-l at level Fast", "no accelerator that is known to", "12 x BelowMinimum",
			"EUR 0.5 for CPU", "0.4 of that", "not on z15-a", "takes no new pods", "CompressionTrial",
		}},
		"a Queue whose spec changed": {full(func(q *v1alpha1.Queue) { q.Generation = 3 }), []string{
			"about generation 2 of the spec, and the present one is 3",
		}},
		"a Queue that is deleted": {full(func(q *v1alpha1.Queue) {
			q.DeletionTimestamp, q.Finalizers = new(metav1.Now()), []string{"lighterage.dev/queue"}
			q.Status.Conditions = conditions.Stalled(v1alpha1.ReasonMessagesRemain, "3 messages")
		}), []string{"being deleted", "lighterage.dev/queue", "What it means: the Queue is being deleted and has messages"}},
		"Peer": {peer, []string{
			"Peer west: stalled", "PeerUntrusted: its certificate", "Exchange the CAs again", "gateway.west.example:8443",
			"troubleshooting.md",
		}},
		"DataQuota":         {quota, []string{"running Transfers  2 of 3"}},
		"CompressionPolicy": {policy, []string{"High", "from spec", "Cost", "of Tariff datacentre", "PreferHardware"}},
		"CompressionPolicy with a canary": {tried, []string{
			"Always", "RolledBack", "0.2000 EUR per GiB", "4 objects in 3 namespaces", "1.00 GiB", "36 objects",
			"25.0 %, 95 % interval 20.0 to 30.0 %", "CanaryRolledBack",
		}},
		"CompressionPolicy with a promoted canary": {won, []string{"mode               Always                 from spec"}},
		"LocalCompressionPolicy": {local, []string{
			"LocalCompressionPolicy bank/small", "zstd", "from spec", "of the default CompressionPolicy",
		}},
		"Tariff": {tariff, []string{
			"EUR 0.01 per CPU hour, 0 per GiB", "send, Peer west  EUR 0.01 per CPU hour, 0.09 per GiB",
		}},
		"CompressionTrial": {trial, []string{
			"CompressionTrial bank/files: failed", "libzstd", "3.14", "kubectl lighterage run compressiontrial/files -n bank",
		}},
		"Delivery":  {delivery, []string{"Transfer bank/ledger of east", "codec", "explain transfer/ledger -n bank"}},
		"Statement": {statement, []string{"EUR 1.25 for 1.00 GiB moved", "cost -n bank --month 2026-01"}},
		"PeerGrant": {grant, []string{"namespaces bank of east", "PersistentVolumeClaim copy, directory /in", "never"}},
		"Drill": {drill, []string{
			"Drill bank/ledger: stalled", "CopyTooOld: the copy is old", "ObjectStore vault, path /ledger", "by software only",
			"copy at most  26h0m0s old", "3 files, 1.00 GiB", "100.0 MB/s, 2 attempts", "1.50", "run drill/ledger -n bank",
			"before  Recovered",
		}},
		"a Drill that scrubs": {scrubbed, []string{
			"DataDamaged: it is damaged", "claim cargo, path /, form Gzip", "nothing is inflated", "7, for example a.gz",
			"3 files, 1.00 GiB",
		}},
		"ObjectStore": {&v1alpha1.ObjectStore{Status: v1alpha1.ObjectStoreStatus{Promises: []v1alpha1.StorePromise{
			{Type: v1alpha1.StoreList, Kept: new(true)}, {Type: v1alpha1.StoreDelete, Message: "403"},
		}}}, []string{"List    yes", "Delete  no: 403"}},
		"NodeProfile": {worker("worker-1"), []string{
			"isa-l", "to compress, to inflate", "not verified", "500.0 MB/s", "MPTCP", "0.8125", "17",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			_, text := explainObject(t, test.object)
			for _, want := range test.says {
				if !strings.Contains(text, want) {
					t.Errorf("%q is not in\n%s", want, text)
				}
			}
		})
	}
}

// TestTransferReport: a Transfer has what Explain tells, and all that other kinds have; one that has not run as well.
func TestTransferReport(t *testing.T) {
	in := base()
	in.Transfer.Status.Conditions = conditions.Ready(v1alpha1.ReasonSucceeded, "run 7f3c is complete")
	in.Transfer.Status.Deadline = &v1alpha1.DeadlineStatus{RunID: "7f3c", Time: *at(60)}
	r, err := explain.Of(in.Transfer, in)
	if err != nil || r.Explanation == nil || r.Decision.Engine != "isa-l" {
		t.Fatalf("%v: %+v", err, r)
	}
	var out bytes.Buffer
	if err := r.WriteText(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"Transfer bank/ledger: Complete", "run 7f3c attempt 1", "ConnectionLost", "Ready True", "2026-01-02T02:01:00Z",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
	encoded, err := json.Marshal(r)
	var got explain.Report
	if err == nil {
		err = json.Unmarshal(encoded, &got)
	}
	if err != nil || got.Kind != "Transfer" || got.Explanation == nil || got.Transfer != "bank/ledger" ||
		len(got.Choices) != len(r.Choices) {
		t.Errorf("%v\n%s", err, encoded)
	}
	in.Transfer.Status = v1alpha1.TransferStatus{
		Phase: v1alpha1.TransferPending, Conditions: conditions.Stalled(v1alpha1.ReasonPeerNotFound, "there is no Peer west"),
	}
	_, text := explainObject(t, in.Transfer)
	if !strings.Contains(text, "Transfer bank/ledger: stalled") || !strings.Contains(text, "there is no Peer west") ||
		!strings.Contains(text, "Create it.") {
		t.Error(text)
	}
}

// TestTemplate: what claim is created is told of a Transfer, of its Delivery, and of the grant that allows it.
func TestHistoryReport(t *testing.T) {
	in := base()
	_, text := explainObject(t, in.Transfer)
	if strings.Contains(text, "VolumeSnapshots") {
		t.Errorf("nothing keeps history:\n%s", text)
	}
	in.Transfer.Spec.Destination.Snapshot = &v1alpha1.DestinationSnapshot{}
	in.Transfer.Status.Snapshots = []v1alpha1.SnapshotStatus{
		{Name: "c", State: v1alpha1.SnapshotTaken}, {Name: "b", State: v1alpha1.SnapshotReady},
		{Name: "a", State: v1alpha1.SnapshotFailed},
	}
	in.Transfer.Status.Conditions = append(in.Transfer.Status.Conditions, conditions.New(
		v1alpha1.ConditionHistoryKept, false, v1alpha1.ReasonSnapshotNotReady, "it cannot be restored yet"))
	_, text = explainObject(t, in.Transfer)
	for _, want := range []string{
		"3 VolumeSnapshots of the destination: 1 ready, 1 failed", v1alpha1.ReasonSnapshotNotReady, "it cannot be restored yet",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
}

func TestTemplate(t *testing.T) {
	transfer, size := &v1alpha1.Transfer{}, resource.MustParse("12Gi")
	transfer.Spec.Destination.PersistentVolumeClaim.ClaimName = "copy"
	transfer.Spec.Destination.PersistentVolumeClaim.Template = &v1alpha1.ClaimTemplate{StorageClassName: "fast"}
	transfer.Status.Run = &v1alpha1.RunStatus{ClaimSize: &size}
	delivery := &v1alpha1.Delivery{}
	delivery.Spec.Destination.Template = &v1alpha1.ClaimRequest{Size: size}
	grant := &v1alpha1.PeerGrant{Spec: v1alpha1.PeerGrantSpec{To: []v1alpha1.PeerGrantTo{{
		Kind: v1alpha1.GrantedPersistentVolumeClaim, Name: "copy",
		Create: &v1alpha1.PeerGrantCreate{MaxSize: size, StorageClassNames: []string{"fast"}},
	}}}}
	for object, want := range map[explain.Object][]string{
		transfer: {"created if there is none  copy", "fast", "12Gi"},
		delivery: {"12Gi of class (default)"},
		grant:    {"create up to 12Gi of class (default) or fast"},
	} {
		_, text := explainObject(t, object)
		for _, words := range want {
			if !strings.Contains(text, words) {
				t.Errorf("%q is not in\n%s", words, text)
			}
		}
	}
}

func TestUnknownKind(t *testing.T) {
	if _, err := explain.Of(&unknownKind{}, explain.Input{}); err == nil {
		t.Error("it is explained")
	}
}

type unknownKind struct{ v1alpha1.Queue }

// TestSourceAtRest: it is told whether what rests is inflated, and where.
func TestSourceAtRest(t *testing.T) {
	vault := &v1alpha1.ObjectStorePath{Name: "vault"}
	claim := v1alpha1.TransferSource{Form: v1alpha1.RestingGzip}
	claim.PersistentVolumeClaim.ClaimName = "cargo"
	store := v1alpha1.TransferSource{Form: v1alpha1.RestingGzip, ObjectStore: vault}
	archives := v1alpha1.TransferSource{Form: v1alpha1.RestingArchive}
	for name, c := range map[string]struct {
		from v1alpha1.TransferSource
		to   v1alpha1.TransferDestination
		says string
	}{
		"the same":        {claim, v1alpha1.TransferDestination{ObjectStore: vault, Form: v1alpha1.RestingGzip}, "nobody"},
		"from a store":    {store, v1alpha1.TransferDestination{Form: v1alpha1.RestingGzip}, "nobody"},
		"another":         {claim, v1alpha1.TransferDestination{Form: v1alpha1.RestingZstd}, "another one"},
		"as objects":      {claim, v1alpha1.TransferDestination{ObjectStore: vault}, "another one"},
		"as plain files":  {claim, v1alpha1.TransferDestination{}, "at the destination"},
		"restored":        {store, v1alpha1.TransferDestination{}, "restored"},
		"verified":        {claim, v1alpha1.TransferDestination{Scrub: v1alpha1.ScrubChecksums}, "verified where"},
		"out of archives": {archives, v1alpha1.TransferDestination{}, "archives"},
	} {
		transfer := &v1alpha1.Transfer{}
		transfer.Spec.Source, transfer.Spec.Destination = c.from, c.to
		if _, text := explainObject(t, transfer); !strings.Contains(text, c.says) {
			t.Errorf("%s: no %q in\n%s", name, c.says, text)
		}
	}
}

// TestEncryption: for how many archives are encrypted is told, and where identities are.
func TestEncryption(t *testing.T) {
	to, from, drill := &v1alpha1.Transfer{}, &v1alpha1.Transfer{}, &v1alpha1.Drill{}
	to.Spec.Destination.Form = v1alpha1.RestingArchive
	to.Spec.Destination.Encryption = &v1alpha1.ArchiveEncryption{Recipients: make([]v1alpha1.AgeRecipient, 3)}
	from.Spec.Source.Encryption = &v1alpha1.ArchiveDecryption{IdentitySecretName: "ledger-identity"}
	drill.Spec.Source.Encryption = from.Spec.Source.Encryption
	for want, object := range map[string]explain.Object{"3 recipients": to, "ledger-identity": from} {
		if _, text := explainObject(t, object); !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if _, text := explainObject(t, drill); !strings.Contains(text, "ledger-identity") {
		t.Errorf("no Secret in\n%s", text)
	}
}

// TestRecords: what files consist of is told.
func TestRecords(t *testing.T) {
	for want, records := range map[string]v1alpha1.FileRecords{
		"RDW": {Format: v1alpha1.RecordRDW}, "80 bytes": {Format: v1alpha1.RecordFixed, Length: 80},
	} {
		transfer := &v1alpha1.Transfer{}
		transfer.Spec.Destination.Form, transfer.Spec.Destination.Records = v1alpha1.RestingZstd, &records
		if _, text := explainObject(t, transfer); !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}
