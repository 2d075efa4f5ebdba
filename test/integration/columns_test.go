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

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/api/v1alpha1"
)

// TestNodeProfileColumns reads what kubectl get nodeprofiles -o wide prints of a node whose accelerator was proved and whose agent is silent since:
// each reason stands in the column of what it is the reason for.
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
		Accelerator:  &v1alpha1.AcceleratorProfile{State: v1alpha1.AcceleratorVerified, Reason: "Proved"},
		Conditions: []metav1.Condition{{
			Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonNodeAgentSilent, LastTransitionTime: metav1.Now(),
		}},
	}
	if err := k8s.Status().Patch(ctx, profile, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	row := columns(t, "nodeprofiles", profile.Name)
	for column, want := range map[string]string{
		"Architecture": "s390x", "Accelerator": "Verified", "Accelerator-Reason": "Proved", "Ready": "False", "Reason": v1alpha1.ReasonNodeAgentSilent,
	} {
		if got := row[column]; got != want {
			t.Errorf("column %s is %q, want %q; the row: %v", column, got, want, row)
		}
	}
}

// columns asks for an object of the whole cluster as kubectl get does, and returns what it prints by the columns' names.
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
