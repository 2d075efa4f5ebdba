// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/explain"
)

// buildPlugin builds kubectl-lighterage, as make build does, and returns the directory that it is in.
var buildPlugin = sync.OnceValues(func() (string, error) {
	directory, err := filepath.Abs(filepath.Join(root, ".cluster", "plugin"))
	if err != nil {
		return "", err
	}
	build := exec.Command("go", "build", "-o", directory+"/", "./controllers/cmd/kubectl-lighterage")
	build.Dir = root
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build kubectl-lighterage: %w\n%s", err, out)
	}
	return directory, nil
})

// plugin runs kubectl lighterage with arguments, and returns what it wrote and what it complained of.
func (c *cluster) plugin(t *testing.T, args ...string) (out, complaint string, err error) {
	t.Helper()
	directory, err := buildPlugin()
	if err != nil {
		t.Fatal(err)
	}
	command := c.Plugin(directory, append([]string{"lighterage"}, args...)...)
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	err = command.Run()
	return stdout.String(), stderr.String(), err
}

// says runs kubectl lighterage, which must write all of the words, and returns what it wrote.
func (c *cluster) says(t *testing.T, args []string, words ...string) string {
	t.Helper()
	out, complaint, err := c.plugin(t, args...)
	if err != nil {
		t.Fatalf("kubectl lighterage %s: %v\n%s", strings.Join(args, " "), err, complaint)
	}
	for _, word := range words {
		if !strings.Contains(out, word) {
			t.Errorf("kubectl lighterage %s does not say %q:\n%s", strings.Join(args, " "), word, out)
		}
	}
	return out
}

// TestExplain: the plugin says of a Transfer that has run where its agent was and why, what compressed and why, and
// what other choices would have cost.
func TestExplain(t *testing.T) {
	for _, c := range []*cluster{east, west} {
		c.profiled(t) // other choices are estimated by what was measured on the node
	}
	t.Parallel()
	ctx := context.Background()
	namespace := newNamespace(t)
	east.claim(t, namespace, "source", "", "100Mi")
	west.claim(t, namespace, "copy", "", "100Mi")
	east.sh(t, namespace, "source", fill)
	grant(t, namespace, "copy")
	policy := &v1alpha1.CompressionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Spec: v1alpha1.CompressionPolicySpec{
			Mode: v1alpha1.CompressionAlways, Prices: &v1alpha1.Prices{Currency: "XTS", CPUHour: "0.031", NetworkGiB: "0.05"},
		},
	}
	if err := east.Create(ctx, policy); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = east.Delete(ctx, policy) })
	transfer := newTransfer(namespace, "ledger")
	transfer.Spec.Compression = &v1alpha1.Compression{PolicyName: policy.Name}
	create(t, transfer)
	waitFor(t, transfer, v1alpha1.ConditionComplete, metav1.ConditionTrue, "")

	s := transfer.Status
	if s.Run == nil || s.Placement == nil || s.Compression == nil || s.Cost == nil {
		t.Fatalf("parts of the status are missing: %+v", s)
	}
	args := []string{"explain", "transfer/ledger", "-n", namespace}
	t.Log(east.says(t, args,
		"Transfer "+namespace+"/ledger: Complete",
		s.Run.Node+" ("+s.Run.Architecture+")",
		s.Placement.Reason+": ",
		fmt.Sprintf("CompressionPolicy %q, named by the Transfer", policy.Name),
		"Decision: "+s.Compression.Codec+" by "+s.Compression.Engine+" at level ",
		s.Compression.Reason+": ",
		"XTS", "Alternatives", "this run", "libzstd", "Estimates assume",
	))
	var e explain.Explanation
	if err := json.Unmarshal([]byte(east.says(t, append(args, "-o", "json"))), &e); err != nil {
		t.Fatal(err)
	}
	if e.Running || e.Run.Node != s.Run.Node || e.Placement == nil || e.Placement.Node != s.Placement.Node ||
		e.Placement.Reason != s.Placement.Reason ||
		e.Decision == nil || e.Decision.Engine != s.Compression.Engine || e.Decision.Reason != s.Compression.Reason ||
		e.Decision.Sentence == "" ||
		e.Measured == nil || e.Measured.UncompressedBytes != s.Compression.UncompressedBytes ||
		e.Measured.CompressedBytes != s.Compression.CompressedBytes {
		t.Errorf("the explanation differs from status %+v:\n%+v", s, e)
	}
	codecs := map[string]int{}
	for _, choice := range e.Choices {
		codecs[choice.Codec]++
		if choice.Bytes == nil || *choice.Bytes <= 0 {
			t.Errorf("%s by %s has no estimate: %+v", choice.Codec, choice.Engine, choice)
		}
	}
	if codecs["none"] != 1 || codecs["deflate"] == 0 || codecs["zstd"] == 0 {
		t.Errorf("choices %v", codecs)
	}

	if out, complaint, err := east.plugin(t, "explain", "transfer/leger", "-n", namespace); err == nil || out != "" ||
		!strings.Contains(complaint, `there is no Transfer "leger" in namespace "`+namespace+`"`) {
		t.Errorf("of a Transfer that does not exist: %v, %s%s", err, out, complaint)
	}
}
