// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// TestForwarded puts and gets through what forwards ports, in both of its ways.
func TestForwarded(t *testing.T) {
	for name, sockets := range map[string]bool{"WebSocket": true, "SPDY": false} {
		t.Run(name, func(t *testing.T) {
			service := startService(t)
			cluster := startCluster(t, service)
			cluster.sockets = sockets
			if out, _, err := try(
				t, strings.Repeat("a long message ", 100_000), "queue", "put", "orders", "--kubeconfig", cluster.kubeconfig,
			); err != nil || out != "1\n" {
				t.Fatalf("%q, %v", out, err)
			}
			out, said, err := try(t, "", "queue", "get", "orders", "--kubeconfig", cluster.kubeconfig)
			if err != nil || out != strings.Repeat("a long message ", 100_000) || countIn(said) != 1 {
				t.Errorf("%d bytes, %q, %v", len(out), said, err)
			}
			cluster.mu.Lock()
			defer cluster.mu.Unlock()
			if want := []string{"orders-2 8443", "orders-2 8443"}; !slices.Equal(cluster.forwarded, want) {
				t.Errorf("forwarded to %v; want the leader", cluster.forwarded)
			}
		})
	}
}

// TestAccess: without a cluster, by a certificate, and with a certificate of the Queue's own.
func TestAccess(t *testing.T) {
	service := startService(t)
	cluster := startCluster(t, service)
	own := startCluster(t, service)
	own.queue.Spec.TLS = &v1alpha1.QueueTLS{SecretName: "orders-tls"}
	own.secrets["orders-tls"] = map[string][]byte{"ca.crt": service.ca}
	own.ca = nil
	tenant := startCluster(t, service)
	tenant.publish("1234", service.ca)
	tenant.forbidden = []string{"/lighterage-system/"}
	neighbour := startCluster(t, service)
	neighbour.publish("of another object", []byte("nothing that concerns the Queue"))
	several := startCluster(t, service)
	several.secrets["orders-tokens"]["till"] = []byte("another")
	for name, arguments := range map[string][]string{
		"no cluster": service.direct("--kubeconfig", filepath.Join(t.TempDir(), "none")),
		"client certificate": {
			"--kubeconfig", cluster.kubeconfig, "--client-certificate", service.file("tls.crt"), "--client-key",
			service.file("tls.key"),
		},
		"own certificate":   {"--kubeconfig", own.kubeconfig},
		"CA beside it":      {"--kubeconfig", tenant.kubeconfig},
		"another's there":   {"--kubeconfig", neighbour.kubeconfig},
		"one of two tokens": {"--kubeconfig", several.kubeconfig, "--token-name", "shop"},
		"a server, the rest of the cluster": {
			"--kubeconfig", cluster.kubeconfig, "--server", service.address, "--server-name", "orders.bank.svc",
		},
	} {
		if out, _, err := try(t, name, append(arguments, "queue", "put", "orders")...); err != nil || out == "" {
			t.Errorf("%s: %q, %v", name, out, err)
		}
	}
}

// TestQueueRefusals: each says what to do about it.
func TestQueueRefusals(t *testing.T) {
	other := startService(t) // of another CA
	for name, test := range map[string]struct {
		change    func(*fakeCluster, *fakeService)
		arguments []string
		says      []string
	}{
		"no Queue": {
			func(c *fakeCluster, _ *fakeService) { c.queue = nil }, []string{"-n", "other"},
			[]string{`Queue "orders"`, `namespace "other"`},
		},
		"Queue forbidden": {
			func(c *fakeCluster, _ *fakeService) { c.forbidden = []string{"/queues/"} }, nil,
			[]string{`Queue "orders"`, "get on queues"},
		},
		"no token Secret": {
			func(c *fakeCluster, _ *fakeService) { clear(c.secrets) }, nil, []string{`Secret "orders-tokens"`, "--token-file"},
		},
		"Secret forbidden": {
			func(c *fakeCluster, _ *fakeService) { c.forbidden = []string{"/secrets/"} }, nil,
			[]string{`Secret "orders-tokens"`, "verb get", "--token-file"},
		},
		"empty Secret": {
			func(c *fakeCluster, _ *fakeService) { clear(c.secrets["orders-tokens"]) }, nil, []string{`Secret "orders-tokens"`},
		},
		"empty token": {
			func(c *fakeCluster, _ *fakeService) { c.secrets["orders-tokens"]["shop"] = []byte("\n") }, nil,
			[]string{`token "shop" of Secret "orders-tokens"`, "empty"},
		},
		"strange token": {
			func(c *fakeCluster, _ *fakeService) { c.secrets["orders-tokens"]["shop"] = []byte("a\nb") }, nil,
			[]string{`token "shop" of Secret "orders-tokens"`, "ASCII"},
		},
		"several tokens": {
			func(c *fakeCluster, _ *fakeService) { c.secrets["orders-tokens"]["till"] = []byte("x") }, nil,
			[]string{"--token-name", "shop, till"},
		},
		"no such token": {nil, []string{"--token-name", "bank"}, []string{`token "bank"`, "shop"}},
		"certificates only": {
			func(c *fakeCluster, _ *fakeService) { c.queue.Spec.Authentication.Tokens = nil }, nil,
			[]string{"--client-certificate"},
		},
		"endless token": {nil, []string{"--token-file", "/dev/zero"}, []string{"--token-file", "4096"}},
		"endless CA":    {nil, []string{"--ca-file", "/dev/zero"}, []string{"--ca-file", "4194304"}},
		"unknown token": {nil, []string{"--token-file", other.file("bad")}, []string{"token", "show a token"}},
		"no CA": {
			nil, []string{"--operator-namespace", "elsewhere"},
			[]string{`ConfigMap "lighterage-ca"`, `namespace "elsewhere"`, "--operator-namespace"},
		},
		"CA forbidden": {
			func(c *fakeCluster, _ *fakeService) { c.forbidden = []string{"/configmaps/"} }, nil,
			[]string{`ConfigMap "lighterage-ca"`, "verb get", "--ca-file"},
		},
		"CA without content": {
			func(c *fakeCluster, _ *fakeService) { c.ca = nil }, nil, []string{"lighterage-system/lighterage-ca", "--ca-file"},
		},
		"another CA": {nil, []string{"--ca-file", other.file("ca.crt")}, []string{"--ca-file", "x509"}},
		"the system's CAs": {func(c *fakeCluster, _ *fakeService) {
			c.queue.Spec.TLS = &v1alpha1.QueueTLS{SecretName: "orders-tls"}
			c.secrets["orders-tls"] = map[string][]byte{"tls.crt": c.ca}
		}, nil, []string{"--ca-file", "x509"}},
		"another name": {
			nil, []string{"--server-name", "orders.shop.svc"}, []string{`"orders.shop.svc"`, "orders.bank.svc", "--server-name"},
		},
		"no ready member": {func(c *fakeCluster, _ *fakeService) {
			for i := range c.pods {
				c.pods[i].Status.Conditions[0].Status = corev1.ConditionFalse
			}
			c.queue.Status.Conditions = []metav1.Condition{
				{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Message: "2 of 3 members are missing."},
			}
		}, nil, []string{"bank/orders", "2 of 3 members are missing", "describe queue orders"}},
		"members of old": {func(c *fakeCluster, _ *fakeService) {
			for i := range c.pods {
				c.pods[i].Spec.Containers[0].Ports = nil
			}
		}, nil, []string{"bank/orders", "version"}},
		"pods forbidden": {
			func(c *fakeCluster, _ *fakeService) { c.forbidden = []string{"/pods"} }, nil,
			[]string{"verb list on pods", "--server"},
		},
		"forwarding forbidden": {
			func(c *fakeCluster, _ *fakeService) { c.forbidden = []string{"/portforward"} }, nil,
			[]string{"get and create on pods/portforward", "--server"},
		},
		"port not served": {
			func(c *fakeCluster, _ *fakeService) { c.unreachable = "connection refused in pod" }, nil,
			[]string{"8443", "bank/orders-2", "connection refused in pod"},
		},
		"one reader": {func(_ *fakeCluster, s *fakeService) {
			s.failure = status.Error(
				codes.FailedPrecondition, "the queue's messages are read by a consumer of NATS or a channel: remove that one",
			)
		}, nil, []string{"getting messages", "remove that one"}},
		"not a service": {
			func(_ *fakeCluster, s *fakeService) { s.failure = status.Error(codes.Unimplemented, "unknown service") }, nil,
			[]string{"8443", "unknown service"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			service := startService(t)
			cluster := startCluster(t, service)
			if test.change != nil {
				test.change(cluster, service)
			}
			service.add("a message")
			_, _, err := try(t, "", append(test.arguments, "queue", "get", "orders", "--kubeconfig", cluster.kubeconfig)...)
			if err == nil {
				t.Fatal("it did not fail")
			}
			for _, says := range test.says {
				if !strings.Contains(err.Error(), says) {
					t.Errorf("%q is not in: %v", says, err)
				}
			}
			if strings.Contains(err.Error(), goodToken) {
				t.Errorf("a token is in: %v", err)
			}
			if ExitCode(err) != 1 || len(service.messages) != 1 {
				t.Errorf("code %d, %d messages", ExitCode(err), len(service.messages))
			}
		})
	}
}

func TestPut(t *testing.T) {
	directory := t.TempDir()
	long := filepath.Join(directory, "long")
	if err := os.WriteFile(long, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(long, maxMessage+1); err != nil {
		t.Fatal(err)
	}
	files := []string{"queue", "put", "orders"}
	for _, name := range []string{"x", "y"} {
		path := filepath.Join(directory, name)
		if err := os.WriteFile(path, []byte("file "+name+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		files = append(files, "-f", path)
	}
	put := []string{"queue", "put", "orders"}
	for name, test := range map[string]struct {
		arguments []string
		in        string
		puts      []int
		stored    []string
		out, says string
	}{
		"standard input": {put, "line\nline\n", []int{1}, []string{"line\nline\n"}, "1\n", ""},
		"an empty one":   {put, "", []int{1}, []string{""}, "1\n", ""},
		"files and input": {
			append(slices.Clone(files), "-f", "-"), "in", []int{3}, []string{"file x\n", "file y\n", "in"}, "1\n2\n3\n", "",
		},
		"lines": {
			append(slices.Clone(put), "--lines"), "a\n\nb", []int{3}, []string{"a", "", "b"}, "1\n2\n3\n", "",
		},
		"no lines": {append(slices.Clone(put), "--lines"), "", nil, nil, "", ""},
		"many lines": {
			append(slices.Clone(put), "--lines"), strings.Repeat("x\n", 600), []int{256, 256, 88}, nil, "", "",
		},
		"long lines": {
			append(slices.Clone(put), "--lines"), strings.Repeat(strings.Repeat("x", 400<<10)+"\n", 5), []int{2, 2, 1}, nil,
			"1\n2\n3\n4\n5\n", "",
		},
		"in order of a key": {
			append(slices.Clone(files), "--key", "k"), "", []int{1, 1}, []string{"file x\n", "file y\n"}, "1\n2\n", "",
		},
		"known":    {append(slices.Clone(put), "--id", "again"), "a", []int{1}, nil, "1 (stored before)\n", ""},
		"too long": {append(slices.Clone(put), "-f", long), "", nil, nil, "", "32 MiB"},
		"no such file": {
			append(slices.Clone(files), "-f", filepath.Join(directory, "none")), "", nil, nil, "", "none",
		},
		"refused": {
			append(slices.Clone(put), "--lines"), "a\nbad\nb\n", []int{3}, []string{"a", "b"}, "1\n2\n",
			"line 2 of standard input",
		},
		"refused, with a key": {
			append(slices.Clone(put), "--lines", "--key", "k"), "a\nbad\nb\n", []int{1, 1}, []string{"a"}, "1\n",
			"line 2 of standard input",
		},
	} {
		t.Run(name, func(t *testing.T) {
			service := startService(t)
			service.refuse = fullResult
			out, _, err := try(t, test.in, service.direct(append(test.arguments, "--header", "color=red")...)...)
			if (err == nil) != (test.says == "") || err != nil && !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %v, want %q", err, test.says)
			}
			if !slices.Equal(service.puts, test.puts) || test.out != "" && out != test.out {
				t.Errorf("put %v: %q", service.puts, out)
			}
			var stored []string
			for i, m := range service.messages {
				stored = append(stored, string(m.GetMessage().GetPayload()))
				if m.GetMessage().GetHeaders()["color"] != "red" {
					t.Errorf("message %d: %v", i, m.GetMessage().GetHeaders())
				}
			}
			if test.stored != nil && !slices.Equal(stored, test.stored) {
				t.Errorf("stored %q", stored)
			}
		})
	}
}
