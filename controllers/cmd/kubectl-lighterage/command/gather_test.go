// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// planted is what a bundle must not have, in any place.
const planted = "Plant3dS3cret"

// leakyCluster is an API server whose every object and log holds a secret.
type leakyCluster struct {
	mu    sync.Mutex
	asked []string
	// stop is called when logs are asked for.
	stop func()
}

// ServeHTTP implements http.Handler.
func (l *leakyCluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	l.asked = append(l.asked, r.URL.Path)
	l.mu.Unlock()
	switch {
	case strings.HasSuffix(r.URL.Path, "/log"):
		if l.stop != nil {
			l.stop()
		}
		if r.URL.Query().Get("container") == "other" {
			http.Error(w, "password="+planted, http.StatusBadRequest)
			return
		}
		_, _ = fmt.Fprintf(w, "started\x1b[2J\n{\"msg\":\"said\",\"password\":\"%s\"}\nAuthorization: Bearer %s\n"+
			"https://u:%s@host/\n-----BEGIN PRIVATE KEY-----\n%s\n-----END PRIVATE KEY-----\nended\n", planted, planted, planted,
			planted)
	case strings.HasSuffix(r.URL.Path, "/peergrants"):
		http.Error(w, "password="+planted, http.StatusForbidden)
	case strings.HasSuffix(r.URL.Path, "/pods"):
		l.list(w, "v1", "Pod", map[string]any{
			"metadata": map[string]any{"namespace": "lighterage-system", "name": "lighterage-manager-0"},
			"spec": map[string]any{"containers": []any{
				map[string]any{"name": "manager", "env": []any{map[string]any{"name": "A", "value": planted}}},
				map[string]any{"name": "other", "args": []any{"--token=" + planted}},
			}},
			"status": map[string]any{"containerStatuses": []any{map[string]any{"name": "manager", "restartCount": 2}}},
		})
	case strings.Contains(r.URL.Path, "/apis/lighterage.dev/v1alpha1/") || strings.HasSuffix(r.URL.Path, "/deployments"):
		l.list(w, "lighterage.dev/v1alpha1", "Thing", map[string]any{
			"metadata": map[string]any{
				"namespace": "bank", "name": "ledger", "managedFields": []any{map[string]any{"manager": planted}},
				"annotations": map[string]any{"kubectl.kubernetes.io/last-applied-configuration": planted},
			},
			"spec":   map[string]any{"password": planted, "keep": "kept", "url": "s3://u:" + planted + "@host"},
			"status": map[string]any{"message": "failed: token=" + planted},
		})
	default:
		http.NotFound(w, r)
	}
}

func (l *leakyCluster) list(w http.ResponseWriter, version, kind string, item map[string]any) {
	item["apiVersion"], item["kind"] = version, kind
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{
		"apiVersion": version, "kind": kind + "List", "metadata": map[string]any{}, "items": []any{item},
	})
}

// TestGather plants secrets in all that a bundle is made of, and finds none of them in it.
func TestGather(t *testing.T) {
	cluster := &leakyCluster{}
	server := httptest.NewServer(cluster)
	defer server.Close()
	bundle := filepath.Join(t.TempDir(), "bundle.tar.gz")
	arguments := []string{"gather", "--file", bundle, "--kubeconfig", kubeconfig(t, server.URL)}
	out, said, err := try(t, "", arguments...)
	if err != nil || strings.TrimSpace(out) != bundle || strings.Contains(said, planted) {
		t.Fatalf("%v\n%s%s", err, out, said)
	}
	info, err := os.Stat(bundle)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	files := unpack(t, bundle)
	for name, text := range files {
		if strings.Contains(text, planted) {
			t.Errorf("%s holds a planted secret:\n%s", name, text)
		}
	}
	for name, want := range map[string]string{
		"index.yaml":                                     "not read:",
		"check.yaml":                                     "category: Versions",
		"objects/transfers.yaml":                         "keep: kept",
		"objects/statements.yaml":                        "failed: token=(removed)",
		"operator/deployments.yaml":                      "keep: kept",
		"operator/pods.yaml":                             "value: (removed)",
		"agents/pods.yaml":                               "value: (removed)",
		"logs/lighterage-manager-0/manager.log":          "started [2J\n",
		"logs/lighterage-manager-0/manager.previous.log": "ended\n",
	} {
		if !strings.Contains(files[name], want) {
			t.Errorf("%s has no %q:\n%s", name, want, files[name])
		}
	}
	for _, missing := range []string{"objects/peergrants", "logs/lighterage-manager-0/other.log"} {
		if !strings.Contains(files["index.yaml"], missing) || files[missing+".yaml"] != "" {
			t.Errorf("the index does not say that %s is missing:\n%s", missing, files["index.yaml"])
		}
	}
	for _, path := range cluster.asked {
		if strings.Contains(path, "/secrets") || strings.Contains(path, "/configmaps") &&
			!strings.HasSuffix(path, "/lighterage-ca") {
			t.Errorf("it read %s", path)
		}
	}
	if _, _, err := try(t, "", arguments...); err == nil || !strings.Contains(err.Error(), "--file") {
		t.Errorf("over an older bundle: %v", err)
	}
}

// TestGatherInterrupted leaves no half of a bundle.
func TestGatherInterrupted(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	server := httptest.NewServer(&leakyCluster{stop: stop})
	defer server.Close()
	bundle := filepath.Join(t.TempDir(), "bundle.tar.gz")
	streams := genericiooptions.NewTestIOStreamsDiscard()
	err := Run(ctx, []string{"gather", "--file", bundle, "--kubeconfig", kubeconfig(t, server.URL)}, streams)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(bundle); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the bundle is left: %v", err)
	}
}

// TestArchive: names from a cluster lead to no place outside the bundle.
func TestArchive(t *testing.T) {
	var packed bytes.Buffer
	a := newArchive(&packed, "root", time.Unix(0, 0))
	if err := errors.Join(a.add(gathered{File: "logs/../../../x"}, []byte("x")), a.finish(), a.close()); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "a.tar.gz")
	if err := os.WriteFile(path, packed.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if files := unpack(t, path); files["x"] != "x" || len(files) != 2 {
		t.Errorf("%q", files)
	}
}

// unpack returns the files of a bundle, without the directory that holds them.
func unpack(t *testing.T, path string) map[string]string {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	packed, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for reader := tar.NewReader(packed); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(reader)
		if err != nil {
			t.Fatal(err)
		}
		_, name, _ := strings.Cut(header.Name, "/")
		files[name] = string(content)
	}
}
