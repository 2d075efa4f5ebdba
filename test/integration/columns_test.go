// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package integration_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/api/v1alpha1"
)

// TestNodeProfileColumns reads what kubectl get nodeprofiles -o wide prints of a node whose accelerator was proved and
// whose agent is silent since: each reason stands in the column of what it is the reason for.
func TestNodeProfileColumns(t *testing.T) {
	ctx := context.Background()
	profile := &v1alpha1.NodeProfile{ObjectMeta: metav1.ObjectMeta{Name: "columns"}}
	if err := k8s.Create(ctx, profile); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = k8s.Delete(ctx, profile) })
	before := profile.DeepCopy()
	profile.Status = v1alpha1.NodeProfileStatus{
		Architecture: "s390x",
		Accelerator: &v1alpha1.NodeAccelerator{
			AcceleratorProfile: v1alpha1.AcceleratorProfile{State: v1alpha1.AcceleratorVerified, Reason: "Proved"},
		},
		Conditions: []metav1.Condition{{
			Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonNodeAgentSilent,
			LastTransitionTime: metav1.Now(),
		}},
	}
	if err := k8s.Status().Patch(ctx, profile, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	row := columns(t, "nodeprofiles", profile.Name)
	for column, want := range map[string]string{
		"Architecture": "s390x", "Accelerator": "Verified", "Accelerator-Reason": "Proved", "Ready": "False",
		"Reason": v1alpha1.ReasonNodeAgentSilent,
	} {
		if got := row[column]; got != want {
			t.Errorf("column %s is %q, want %q; the row: %v", column, got, want, row)
		}
	}
}

// TestPeerGrantColumns reads what kubectl get peergrants -o wide prints: all that a grant allows.
func TestPeerGrantColumns(t *testing.T) {
	ctx := context.Background()
	grant := &v1alpha1.PeerGrant{
		ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "columns"},
		Spec: v1alpha1.PeerGrantSpec{
			From:           []v1alpha1.PeerGrantFrom{{Peer: "east", Namespaces: []string{"shop"}}},
			ExpirationTime: &metav1.Time{Time: time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC)},
			To: []v1alpha1.PeerGrantTo{
				{Kind: v1alpha1.GrantedPersistentVolumeClaim, Name: "ledger", Path: "/in", AllowDelete: true},
				{Kind: v1alpha1.GrantedPersistentVolumeClaim, Name: "books", Path: "/", AllowPrivileged: true},
				{Kind: v1alpha1.GrantedQueue, Name: "orders"},
			},
		},
	}
	if err := k8s.Create(ctx, grant); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = k8s.Delete(ctx, grant) })
	row := columns(t, "namespaces/bank/peergrants", grant.Name)
	if row["Expires"] != "2026-07-01T00:00:00Z" {
		t.Errorf("Expires is %q", row["Expires"])
	}
	var allows []v1alpha1.PeerGrantTo
	if err := json.Unmarshal([]byte(row["Allows"]), &allows); err != nil || !equality.Semantic.DeepEqual(allows, grant.Spec.To) {
		t.Errorf("Allows is %q (%v)", row["Allows"], err)
	}
}

// columns asks for an object as kubectl get does, and returns what it prints by the columns' names.
func columns(t *testing.T, resource, name string) map[string]string {
	t.Helper()
	server, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	address, err := url.JoinPath(config.Host, "apis", v1alpha1.GroupVersion.String(), resource, name)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
	response, err := server.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	var table metav1.Table
	if err := json.NewDecoder(response.Body).Decode(&table); err != nil {
		t.Fatal(err)
	}
	if len(table.Rows) != 1 || len(table.Rows[0].Cells) != len(table.ColumnDefinitions) {
		t.Fatalf("not one row with a cell for each column: %s, %v", response.Status, table)
	}
	row := map[string]string{}
	for i, definition := range table.ColumnDefinitions {
		if _, twice := row[definition.Name]; twice {
			t.Errorf("two columns are named %s", definition.Name)
		}
		row[definition.Name] = fmt.Sprint(table.Rows[0].Cells[i])
	}
	return row
}
