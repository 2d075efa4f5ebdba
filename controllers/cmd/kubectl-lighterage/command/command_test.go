// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard()) // as main does
	klog.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

// try runs the program with an input, and returns what it wrote to its output and to its error output.
func try(t *testing.T, in string, arguments ...string) (out, said string, err error) {
	t.Helper()
	var written, saying bytes.Buffer
	err = Run(
		t.Context(), arguments, genericiooptions.IOStreams{In: strings.NewReader(in), Out: &written, ErrOut: &saying},
	)
	return written.String(), saying.String(), err
}

// walk calls visit with every command of the tree.
func walk(visit func(*cobra.Command)) {
	var down func(*cobra.Command)
	down = func(c *cobra.Command) {
		visit(c)
		for _, next := range c.Commands() {
			down(next)
		}
	}
	down(New(genericiooptions.NewTestIOStreamsDiscard()))
}

// TestTree holds all commands to the same shape, and the documented ones to their names.
func TestTree(t *testing.T) {
	var paths []string
	flags := map[string]*pflag.Flag{} // by name; of one name, all mean the same
	walk(func(c *cobra.Command) {
		paths = append(paths, c.CommandPath())
		if c.Short == "" || strings.HasSuffix(c.Short, ".") || strings.Contains(c.Short, "\n") {
			t.Errorf("%s: %q is no summary of one line", c.CommandPath(), c.Short)
		}
		if !c.HasSubCommands() && c.Args == nil {
			t.Errorf("%s takes any arguments", c.CommandPath())
		}
		for line := range strings.Lines(c.Long + "\n" + c.Example) {
			if len(line) > 121 {
				t.Errorf("%s: a line of its help is %d bytes long: %s", c.CommandPath(), len(line), line)
			}
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			other := flags[f.Name]
			if other != nil && (other.Shorthand != f.Shorthand || (f.Value.Type() == "bool") != (other.Value.Type() == "bool")) {
				t.Errorf("%s: --%s differs from that of another command", c.CommandPath(), f.Name)
			}
			flags[f.Name] = f
			if f.Usage == "" {
				t.Errorf("%s: --%s has no text", c.CommandPath(), f.Name)
			}
		})
	})
	want := []string{
		"", " check", " completion", " connect", " console", " cost", " disconnect", " explain", " gather", " link",
		" link accept", " link create", " link redeem", " logs", " pause", " prove", " queue",
		" queue get", " queue put", " queue stat", " receipt", " receipt keys", " receipt manifest", " receipt show",
		" receipt verify", " resume", " run", " status", " suspend", " tree", " trial", " trial report", " verify", " watch",
	}
	for i := range want {
		want[i] = "kubectl lighterage" + want[i]
	}
	if slices.Sort(paths); !slices.Equal(paths, want) {
		t.Errorf("commands %q", paths)
	}
	for _, name := range []string{"namespace", "kubeconfig", "context", "as", "request-timeout"} {
		if flags[name] == nil {
			t.Errorf("there is no --%s", name)
		}
	}
}

// TestHelp: help of every command shows its flags, and its examples are valid command lines.
func TestHelp(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none")
	walk(func(c *cobra.Command) {
		words := strings.Fields(c.CommandPath())[2:]
		out, _, err := try(t, "", append(words, "--help")...)
		if err != nil || !strings.Contains(out, c.UseLine()) && !c.HasSubCommands() || !strings.Contains(out, c.Example) ||
			!strings.Contains(out, "--kubeconfig") {
			t.Errorf("%s: %v\n%s", c.CommandPath(), err, out)
		}
		examples := 0
		for line := range strings.Lines(c.Example) {
			_, command, found := strings.Cut(line, "kubectl lighterage ")
			if !found || strings.Contains(line, "#") {
				continue
			}
			examples++
			command, _, _ = strings.Cut(command, ">")
			command, _, _ = strings.Cut(command, "<")
			arguments := strings.Fields(strings.TrimRight(command, ")\n"))
			// The cluster is missing; everything before that is right.
			if _, _, err := try(t, "", append(arguments, "--kubeconfig", path)...); err != nil && (ExitCode(err) != 1 ||
				!errors.Is(err, os.ErrNotExist)) {
				t.Errorf("%s: %v", line, err)
			}
		}
		if examples == 0 {
			t.Errorf("%s has no example", c.CommandPath())
		}
	})
}

// TestArguments: wrong command lines end with code 2, and name what is wrong or missing; right ones fail for want of a
// cluster.
func TestArguments(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none")
	for line, names := range map[string]string{
		"":                                                   "explain, trial, cost, queue",
		"describe transfer/a":                                `"describe"`,
		"explain":                                            "transfer/NAME",
		"explain secret/a":                                   `"secret/a"`,
		"explain peer a":                                     "",
		"explain node/a":                                     "nodeprofile/NAME",
		"logs peer/a":                                        "httpendpoint/NAME",
		"logs queue/a --pod b --previous":                    "",
		"logs queue/a --follow --previous":                   "[follow previous]",
		"explain transfer":                                   "transfer/NAME",
		"explain transfer/":                                  "transfer/NAME",
		"explain transfer/a/b":                               `"transfer/a/b"`,
		"explain transfer/a b":                               `"transfer/a b"`,
		"explain transfer/a -o table":                        "text, json, yaml",
		"explain transfer/a --nonsense":                      "--nonsense",
		"explain transfer/a -n":                              "-n",
		"explain transfer/a -o json --context":               "--context",
		"explain transfer/a --key k":                         "--key",
		"explain transfer/a -n bank":                         "",
		"-n bank explain Transfer a":                         "",
		"explain transfers.lighterage.dev/a":                 "",
		"explain transfer/a -oyaml":                          "",
		"explain transfer/a --request-timeout 3x":            "--request-timeout",
		"cost bank":                                          `"bank"`,
		"cost trial/a":                                       "transfer/NAME",
		"cost transfer/":                                     "transfer/NAME",
		"cost transfer/a --by kind":                          "--by",
		"cost queue/a -A":                                    "-A",
		"cost transfer ledger -o csv":                        "",
		"cost httpendpoint/api -n bank":                      "",
		"cost --month 2026-13":                               "2026-13",
		"cost --month 2026-11 --from 2026-11-01":             "both",
		"cost --to 2026-11-01":                               "YYYY-MM-DD",
		"cost --from 2026-11-02 --to 2026-11-01":             "2026-11-01",
		"cost --by object":                                   "nodeclass",
		"cost --by day,day":                                  "day",
		"cost -o yaml":                                       "csv, json",
		"cost --focus bills":                                 "--cluster-name",
		"cost --cluster-name east":                           "--focus",
		"cost --focus bills --cluster-name ../x":             "--cluster-name",
		"cost --focus bills --cluster-name east --provider=": "--provider",
		"cost --focus bills --cluster-name east -o csv":      "output",
		"cost --focus bills --cluster-name east --by day":    "by",
		"cost --focus bills --cluster-name east --focus-format xml": "parquet",
		"cost -A --from 2026-11-01 --by namespace,day -o json":      "",
		"cost -n bank --focus bills.csv --cluster-name east":        "",
		"connect":                                                      "--to",
		"connect west":                                                 `"west"`,
		"connect --to west --endpoint https://x":                       "host:port",
		"connect --to west --to-endpoint x":                            "--to-endpoint",
		"connect --to west --wait -1s":                                 "--wait",
		"connect --to west --manifests d -o json":                      "[manifests output]",
		"connect --to west --endpoint none":                            "",
		"connect --to west --to-endpoint [::1]:80":                     "",
		"disconnect":                                                   "--to",
		"disconnect --to west --force":                                 "",
		"check bank":                                                   `"bank"`,
		"check -o table":                                               "text, json, yaml",
		"check --operator-namespace x":                                 "",
		"connect --to west --grant a=":                                 "vault/ledger=bank",
		"connect --to west --manifests x --to-grant a/b/c":             "--to-grant",
		"connect --to west --to-grant a":                               "",
		"connect --to west --manifests x --grant a=b --to-grant a/b=c": "",
		"gather bank":                                                  `"bank"`,
		"gather -o json":                                               "-o",
		"verify":                                                       "--to",
		"verify --to west --size x":                                    "--size",
		"verify --to west --size 1":                                    "1Mi",
		"verify --to west --wait 0s":                                   "--wait",
		"verify --to west --size 1Gi":                                  "",
		"prove":                                                        "NODE",
		"prove a b":                                                    "NODE",
		"prove a/b":                                                    `"a/b"`,
		"prove a --wait -1s":                                           "--wait",
		"prove a -o html":                                              "text, json, yaml",
		"prove worker-1.example -o json":                               "",

		"trial":                                "report",
		"trial explain a":                      `"explain"`,
		"trial report":                         "NAME",
		"trial report trial/":                  "trial/NAME",
		"trial report transfer/a":              `"transfer/a"`,
		"trial report a b":                     `"a b"`,
		"trial report a -o json":               "html, svg, text",
		"trial report a --count 2":             "--count",
		"trial report a":                       "",
		"trial report trial/a -o svg":          "",
		"-n bank trial report a --output text": "",
		"completion":                           "bash, fish, powershell, zsh",
		"completion tcsh":                      `"tcsh"`,

		"queue":                                 "put, get, stat",
		"queue drop a":                          `"drop"`,
		"queue put":                             "NAME",
		"queue put queue/":                      "queue/NAME",
		"queue put transfer/a":                  `"transfer/a"`,
		"queue put a b":                         `"a b"`,
		"queue put a -o json":                   "-o",
		"queue put a --count 2":                 "--count",
		"queue stat a --lines":                  "--lines",
		"queue put a -f - -f -":                 "--filename",
		"queue put a -f x -f y --id 1":          "--id",
		"queue put a --lines --id 1":            "[id lines]",
		"queue put a --header x":                "NAME=VALUE",
		"queue put a --header x=1 --header x=2": `"x=2"`,
		"queue put a --server here":             "HOST:PORT",
		"queue put a --request-timeout soon":    `"soon"`,
		"queue put a --client-certificate c":    "[client-key]",
		"queue put a --client-certificate c --client-key k --token-file t": "token-file",
		"queue put a --token-name n --token-file t":                        "token-name",
		"queue get a --count -1":                                           "--count",
		"queue get a --wait 25h":                                           "--wait",
		"queue get a --visibility 10ms":                                    "--visibility",
		"queue get a --ack --no-ack":                                       "no-ack",
		"queue get a --no-ack --count 0":                                   "--count",
		"queue get a --ack=false --count 0":                                "--count",
		"queue get a --lines -o json":                                      "--lines",
		"queue get a --lines --directory d":                                "[lines directory]",
		"queue get a -o yaml":                                              "raw, json",
		"queue stat a -o html":                                             "text, json, yaml",
		"queue put a":                                                      "",
		"queue put queue":                                                  "",
		"queue put queue/a -f x -f - --header x=1=2 --key k":               "",
		"-n bank queue get queues.lighterage.dev/a --count 0 --wait 1m":    "",
		"queue get a --no-ack --count 5 -o json --dead --visibility 1m":    "",
		"--server h:1 queue stat a -o json":                                "",
	} {
		out, _, err := try(t, "", append([]string{"--kubeconfig", path}, strings.Fields(line)...)...)
		switch {
		case err == nil || out != "":
			t.Errorf("%q: %v: %s", line, err, out)
		case names == "" && (ExitCode(err) != 1 || !errors.Is(err, os.ErrNotExist)):
			t.Errorf("%q: %v", line, err)
		case names != "" && (ExitCode(err) != 2 || !strings.Contains(err.Error(), names) ||
			!strings.Contains(err.Error(), "--help")):
			t.Errorf("%q: code %d: %v; want %s", line, ExitCode(err), err, names)
		}
	}
}

func TestExitCode(t *testing.T) {
	for code, err := range map[int]error{
		1: failure{io.ErrUnexpectedEOF}, 2: usageError{io.ErrUnexpectedEOF}, 3: failure{errNoMessage},
	} {
		if got := ExitCode(err); got != code {
			t.Errorf("%v: %d, want %d", err, got, code)
		}
	}
}

// TestVersion needs no cluster.
func TestVersion(t *testing.T) {
	if out, _, err := try(t, "", "--version"); err != nil || len(strings.Fields(out)) != 1 {
		t.Errorf("%v: %q", err, out)
	}
}

// TestRefusals: what a cluster without the kinds, or one that does not know the user, leads to.
func TestRefusals(t *testing.T) {
	for name, test := range map[string]struct {
		handler http.HandlerFunc
		is      func(error) bool
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
		}, meta.IsNoMatchError},
		"logged out": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Unauthorized","code":401}`)
		}, apierrors.IsUnauthorized},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(test.handler)
			defer server.Close()
			_, _, err := try(t, "", "explain", "transfer/a", "--kubeconfig", kubeconfig(t, server.URL))
			var failed failure
			if !errors.As(err, &failed) || !test.is(errors.Unwrap(failed.error)) || ExitCode(err) != 1 {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestKubeconfig(t *testing.T) {
	path := kubeconfig(t, "http://127.0.0.1:1")
	for name, arguments := range map[string][]string{
		"none":      {"--kubeconfig", filepath.Join(t.TempDir(), "none")},
		"elsewhere": {"--kubeconfig", path, "--context", "elsewhere"},
	} {
		_, _, err := try(t, "", append(arguments, "explain", "transfer/a")...)
		if err == nil || ExitCode(err) != 1 || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for want, flags := range map[string][]string{"bank": nil, "other": {"--namespace", "other"}} {
		p := newPlugin(genericiooptions.NewTestIOStreamsDiscard())
		set := pflag.NewFlagSet("", pflag.ContinueOnError)
		p.flags.AddFlags(set)
		if err := set.Parse(append(flags, "--kubeconfig", path)); err != nil {
			t.Fatal(err)
		}
		if err := p.open(); err != nil || p.namespace != want || p.config.Timeout != requestTimeout {
			t.Errorf("namespace %q, %v; want %q", p.namespace, err, want)
		}
	}
}

// TestNoKubeconfig: without a kubeconfig there is no cluster, and none at http://localhost:8080 either.
func TestNoKubeconfig(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	t.Setenv("KUBERNETES_SERVICE_HOST", "") // not in a pod either
	for _, arguments := range [][]string{{"explain", "transfer/a"}, {"explain", "transfer/a", "--request-timeout", "1s"}} {
		_, _, err := try(t, "", arguments...)
		if err == nil || ExitCode(err) != 1 || !strings.Contains(err.Error(), "--kubeconfig") ||
			strings.Contains(err.Error(), "localhost") {
			t.Errorf("%v", err)
		}
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
