// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/api/v1alpha1"
)

// TestQueueService puts and gets by HTTP through the Service, as a client that knows nothing but what is in its
// namespace, and by the kubectl plugin.
func TestQueueService(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	queue, clerk := east.newQueue(t, namespace, "letters", func(*v1alpha1.QueueSpec) {})
	east.waitForQueue(t, queue, v1alpha1.ConditionReady, v1alpha1.ReasonServing)
	public := &corev1.ConfigMap{}
	eventually(t, time.Minute, "the CA to be published beside the Queue", func() (bool, string) {
		err := east.Get(context.Background(), client.ObjectKey{Namespace: namespace, Name: "letters-ca"}, public)
		return err == nil, "nothing is there"
	})
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(public.Data["ca.crt"])) {
		t.Fatalf("no certificate is in %v", public.Data)
	}
	address := east.forward(t, namespace, "service/letters", 8443)
	visitor := &http.Client{Timeout: 2 * patience, Transport: &http.Transport{TLSClientConfig: &tls.Config{
		MinVersion: tls.VersionTLS13, RootCAs: roots, ServerName: "letters." + namespace + ".svc",
	}}}
	t.Cleanup(visitor.CloseIdleConnections)
	say := func(method, path, token string, body []byte, header ...string) (int, http.Header, []byte) {
		t.Helper()
		request, err := http.NewRequestWithContext(
			context.Background(), method, "https://"+address+path, bytes.NewReader(body),
		)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+token)
		for i := 0; i < len(header); i += 2 {
			request.Header.Set(header[i], header[i+1])
		}
		response, err := visitor.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		answer, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, response.Header, answer
	}

	letter := document("xml", 1)
	if code, _, answer := say(http.MethodPost, "/v1/message", "let anybody in", letter); code != http.StatusUnauthorized {
		t.Errorf("with a token that is none of the Secret's: %d %s", code, answer)
	}
	for _, want := range []int{http.StatusCreated, http.StatusOK} {
		if code, _, answer := say(
			http.MethodPost, "/v1/message", clerk.token, letter, "Lighterage-Message-Id", "1", "Lighterage-Key", "a",
		); code != want {
			t.Fatalf("put: %d %s; want %d", code, answer, want)
		}
	}
	code, header, answer := say(http.MethodPost, "/v1/message/next?wait=60s&visibility=10m", clerk.token, nil)
	if code != http.StatusOK || !bytes.Equal(answer, letter) || header.Get("Lighterage-Message-Id") != "1" {
		t.Fatalf("get: %d, %d bytes of %d, %v", code, len(answer), len(letter), header)
	}
	if code, _, answer := say(
		http.MethodDelete, "/v1/message/"+header.Get("Lighterage-Receipt"), clerk.token, nil,
	); code >= http.StatusBadRequest {
		t.Errorf("acknowledge: %d %s", code, answer)
	}

	run := func(arguments ...string) (string, error) {
		t.Helper()
		out, complaint, err := east.plugin(t, append(arguments, "-n", namespace)...)
		t.Logf("kubectl lighterage %s: %v\n%s", strings.Join(arguments, " "), err, complaint)
		return out, err
	}
	file := filepath.Join(t.TempDir(), "letter")
	if err := os.WriteFile(file, letter, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := run("queue", "put", "letters", "-f", file, "--key", "a"); err != nil || strings.TrimSpace(out) == "" {
		t.Fatalf("put: %q, %v", out, err)
	}
	out, err := run("queue", "stat", "letters", "-o", "json")
	var stat struct {
		Service struct {
			Serves bool `json:"serves"`
		} `json:"service"`
	}
	if err == nil {
		err = json.Unmarshal([]byte(out), &stat)
	}
	if err != nil || !stat.Service.Serves {
		t.Errorf("stat: %v\n%s", err, out)
	}
	if out, err = run("queue", "get", "letters", "--wait", "60s"); err != nil || out != string(letter) {
		t.Errorf("get: %d bytes of %d, %v", len(out), len(letter), err)
	}
	var exit *exec.ExitError
	if _, err = run("queue", "get", "letters", "--wait", "1s"); !errors.As(err, &exit) || exit.ExitCode() != 3 {
		t.Errorf("get of what is acknowledged: %v, want code 3", err)
	}
}
