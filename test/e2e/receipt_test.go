// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e_test

import (
	"os"
	"path/filepath"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// checkReceipt waits for the receipt of the last run of a Transfer from east to west, verifies it as an auditor
// does, and returns the digest of its contents.
func checkReceipt(t *testing.T, transfer *v1alpha1.Transfer) string {
	t.Helper()
	waitFor(t, transfer, v1alpha1.ConditionReceiptSigned, metav1.ConditionTrue, "")
	run, directory := transfer.Status.Run.ID, t.TempDir()
	write := func(name string, c *cluster, args ...string) string {
		file := filepath.Join(directory, name)
		if err := os.WriteFile(file, []byte(c.says(t, args)), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	file := write("receipt.json", east, "receipt", "show", "transfer/"+transfer.Name, "-n", transfer.Namespace, "-o",
		"envelope")
	sender, receiver := write("east.json", east, "receipt", "keys"), write("west.json", west, "receipt", "keys")
	of := []string{"receipt", "verify", file, "--transfer", transfer.Namespace + "/" + transfer.Name, "--run", run}
	digest := transfer.Status.Receipt.ContentsSHA256
	east.says(t, append(of, "--sender-keys", sender, "--receiver-keys", receiver), "Verified", digest, run)
	if out, _, err := east.plugin(t, append(of, "--sender-keys", receiver, "--receiver-keys", sender)...); err == nil {
		t.Errorf("with the keys of the other side:\n%s", out)
	}
	return digest
}
