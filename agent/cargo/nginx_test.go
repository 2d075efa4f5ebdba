// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package cargo_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/lighterage/lighterage/agent/cargo"
)

// TestNginx: nginx serves a file of form Gzip as it rests (gzip_static), and clients expand it.
func TestNginx(t *testing.T) {
	nginx, err := exec.LookPath("nginx")
	if err != nil {
		missing(t, "nginx")
	}
	plain := bytes.Join(files["Small"], nil)
	file, _ := rest(t, cargo.Gzip, travel(t, cargo.Gzip, files["Small"]...))
	dir := t.TempDir()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	user := ""
	if os.Getuid() == 0 {
		user = "user root;" // another could not read the directory
	}
	config := fmt.Sprintf(`%s
daemon off; master_process off; pid %[2]s/pid; error_log stderr;
events {}
http {
	access_log off;
	client_body_temp_path %[2]s/body; proxy_temp_path %[2]s/proxy; fastcgi_temp_path %[2]s/fastcgi;
	uwsgi_temp_path %[2]s/uwsgi; scgi_temp_path %[2]s/scgi;
	server { listen %[3]s; root %[2]s; gzip_static on; }
}`, user, dir, address)
	for name, content := range map[string][]byte{"a.csv.gz": file, "nginx.conf": []byte(config)} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	server := exec.CommandContext(t.Context(), nginx, "-p", dir, "-e", "stderr", "-c", filepath.Join(dir, "nginx.conf"))
	server.Stderr = &stderr
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Wait() }()
	defer func() {
		_ = server.Process.Kill()
		<-ended
	}()
	for {
		c, err := net.Dial("tcp", address)
		if err == nil {
			c.Close()
			break
		}
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("nginx: %v: %s", err, &stderr)
		case <-time.After(10 * time.Millisecond):
		}
	}
	// Go's client asks for gzip and expands it by itself, unless it is told not to.
	for name, test := range map[string]struct {
		client http.Client
		want   []byte
	}{
		"expanded": {http.Client{}, plain},
		"as it is": {http.Client{Transport: &http.Transport{DisableCompression: true}}, file},
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/a.csv", nil)
		if err != nil {
			t.Fatal(err)
		}
		if name == "as it is" {
			request.Header.Set("Accept-Encoding", "gzip")
		}
		response, err := test.client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || response.StatusCode != http.StatusOK || !bytes.Equal(got, test.want) {
			t.Errorf("%s: status %d, %d bytes instead of %d, %v", name, response.StatusCode, len(got), len(test.want), err)
		}
	}
	if curl, err := exec.LookPath("curl"); err == nil {
		got, err := exec.CommandContext(t.Context(), curl, "-sS", "--compressed", "http://"+address+"/a.csv").Output()
		if err != nil || !bytes.Equal(got, plain) {
			t.Errorf("curl: %d bytes, %v", len(got), err)
		}
	}
}
