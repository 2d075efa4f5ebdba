// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard()) // as main does
	klog.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

func TestArguments(t *testing.T) {
	for line, says := range map[string]string{
		"":                                     "say what to do",
		"describe transfer/a":                  `unknown command "describe"`,
		"explain":                              "say of which Transfer",
		"explain queue/a":                      `Transfers only, not of "queue"`,
		"explain transfer":                     "the name of the Transfer is missing",
		"explain transfer/":                    "the name of the Transfer is missing",
		"explain transfer/a/b":                 "the name of the Transfer is missing",
		"explain transfer/a b":                 `unexpected argument "b"`,
		"explain transfer/a -o yaml":           `--output must be text or json, not "yaml"`,
		"explain transfer/a --nonsense":        "--help lists the flags",
		"explain transfer/a -n":                "--help lists the flags",
		"explain transfer/a -n bank":           "",
		"-n bank explain Transfer a":           "",
		"explain transfers.lighterage.dev/a":   "",
		"explain transfer/a -o json --context": "--help lists the flags",
		"trial":                                "trial knows the command report",
		"trial explain a":                      "trial knows the command report",
		"trial report":                         "the name of the CompressionTrial is missing",
		"trial report trial/":                  "the name of the CompressionTrial is missing",
		"trial report transfer/a":              `CompressionTrials only, not of "transfer"`,
		"trial report a b":                     `unexpected argument "b"`,
		"trial report a -o json":               `--output must be html, svg or text, not "json"`,
		"trial report a":                       "",
		"trial report trial/a -o svg":          "",
		"-n bank trial report a --output text": "",
		"explain transfer/a --key k":           "--key is a flag of kubectl lighterage queue",
		"trial report a --count 2":             "--count is a flag of kubectl lighterage queue",
	} {
		s, err := parse(strings.Fields(line), &bytes.Buffer{})
		switch {
		case says == "" && (err != nil || s.transfer+s.trial != "a" || s.output == ""):
			t.Errorf("%q: %q, %v", line, s.transfer, err)
		case says != "" && (err == nil || !strings.Contains(err.Error(), says)):
			t.Errorf("%q: %v, want %q", line, err, says)
		}
	}
	var help bytes.Buffer
	if _, err := parse([]string{"--help"}, &help); !errors.Is(err, pflag.ErrHelp) || !strings.Contains(help.String(), "--kubeconfig") {
		t.Errorf("%v: %s", err, help.String())
	}
}

// TestVersion needs no cluster.
func TestVersion(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), []string{"--version"}, streams{out: &out}); err != nil || strings.TrimSpace(out.String()) == "" {
		t.Errorf("%v: %q", err, out.String())
	}
}

// TestRefusals: what a cluster without the kinds, or one that does not know the user, leads to.
func TestRefusals(t *testing.T) {
	for name, test := range map[string]struct {
		handler http.HandlerFunc
		says    string
	}{
		"not installed": {func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/api" || r.URL.Path == "/apis" {
				w.Header().Set("Content-Type", "application/json")
				_, _ = fmt.Fprint(w, map[string]string{
					"/api":  `{"kind":"APIVersions","versions":["v1"]}`,
					"/apis": `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`,
				}[r.URL.Path])
				return
			}
			http.NotFound(w, r)
		}, "install the operator"},
		"logged out": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Unauthorized","code":401}`)
		}, "log in anew"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(test.handler)
			defer server.Close()
			err := run(t.Context(), []string{"explain", "transfer/a", "--kubeconfig", kubeconfig(t, server.URL)}, streams{out: &bytes.Buffer{}})
			if err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %v, want %q", err, test.says)
			}
		})
	}
}

func TestKubeconfig(t *testing.T) {
	path := kubeconfig(t, "http://127.0.0.1:1")
	for name, arguments := range map[string][]string{
		"no such file":    {"--kubeconfig", filepath.Join(t.TempDir(), "none")},
		"no such context": {"--kubeconfig", path, "--context", "elsewhere"},
	} {
		err := run(t.Context(), append(arguments, "explain", "transfer/a"), streams{out: &bytes.Buffer{}})
		if err == nil || !strings.Contains(err.Error(), "reading the kubeconfig") {
			t.Errorf("%s: %v", name, err)
		}
	}
	s, err := parse([]string{"explain", "transfer/a", "--kubeconfig", path}, &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	if _, namespace, err := connect(s); err != nil || namespace != "bank" {
		t.Errorf("namespace %q, %v; want that of the context", namespace, err)
	}
	s.namespace = "other"
	if _, namespace, err := connect(s); err != nil || namespace != "other" {
		t.Errorf("namespace %q, %v; want that of the flag", namespace, err)
	}
}

func TestNoKubeconfig(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	t.Setenv("KUBERNETES_SERVICE_HOST", "") // not in a pod either
	err := run(t.Context(), []string{"explain", "transfer/a"}, streams{out: &bytes.Buffer{}})
	if err == nil || !strings.Contains(err.Error(), "name one with --kubeconfig") {
		t.Errorf("%v", err)
	}
}

// kubeconfig writes one with a context whose namespace is bank.
func kubeconfig(t *testing.T, server string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: east
clusters: [{name: east, cluster: {server: %q}}]
contexts: [{name: east, context: {cluster: east, user: me, namespace: bank}}]
users: [{name: me, user: {}}]
`, server)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
