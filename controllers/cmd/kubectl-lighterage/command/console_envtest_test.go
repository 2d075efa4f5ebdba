// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package command

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/controllertest"
)

// openConsole looks at pages with the rights that the help names, and with none, and has a Transfer run.
func openConsole(t *testing.T, cluster *controllertest.Cluster, nothing string) {
	kubeconfig := user(t, cluster, "engineer")
	group := []string{v1alpha1.GroupVersion.Group}
	cluster.Allow(
		t, "engineer",
		rbacv1.PolicyRule{APIGroups: group, Resources: []string{"*"}, Verbs: []string{"get", "list"}},
		rbacv1.PolicyRule{APIGroups: group, Resources: []string{"transfers"}, Verbs: []string{"patch"}},
	)
	get, post, another := serveConsole(t, kubeconfig)
	for path, wants := range map[string][]string{
		"":                                 {"bank/ledger", "NodeProfile"},
		"runs":                             {"bank/ledger"},
		"list/nodeprofiles":                {"worker-1"},
		"object/0/nodeprofiles/-/worker-1": {"isa-l"},
		"object/0/transfers/bank/ledger":   {"deflate by isa-l", "Alternatives", "/confirm/run/"},
		"object/0/queues/bank/orders":      {"Conditions"},
	} {
		status, page := get(path)
		for _, want := range wants {
			if status != http.StatusOK || !strings.Contains(page, want) {
				t.Errorf("%s: %d: %q is not in\n%s", path, status, want, page)
			}
		}
	}
	if status, _ := get("object/0/transfers/bank/none"); status != http.StatusNotFound {
		t.Errorf("no such object: %d", status)
	}
	_, page := get("confirm/suspend/0/transfers/bank/ledger")
	form := url.Values{}
	for _, field := range regexp.MustCompile(`name="(form|uid|value)" value="([^"]*)"`).FindAllStringSubmatch(page, -1) {
		form.Set(field[1], field[2])
	}
	var ledger v1alpha1.Transfer
	key := client.ObjectKey{Namespace: namespace, Name: "ledger"}
	suspended := func() bool {
		if err := cluster.Client.Get(t.Context(), key, &ledger); err != nil {
			t.Fatal(err)
		}
		return ledger.Spec.Suspend
	}
	real := form.Get("uid")
	form.Set("uid", "another")
	if status := post("act/suspend/0/transfers/bank/ledger", form); status != http.StatusConflict || suspended() {
		t.Errorf("another object: %d", status)
	}
	form.Set("uid", real)
	if status := post("act/suspend/0/transfers/bank/ledger", form); status != http.StatusOK || !suspended() {
		t.Errorf("suspending: %d", status)
	}
	if link := another(); !strings.HasPrefix(link, "http://127.0.0.1:") {
		t.Errorf("Enter prints %q", link)
	}

	get, _, _ = serveConsole(t, nothing)
	if status, page := get(""); status != http.StatusOK || !strings.Contains(page, "you may not list them") ||
		strings.Contains(page, "ledger") {
		t.Errorf("without rights: %d\n%s", status, page)
	}
	if status, _ := get("object/0/transfers/bank/ledger"); status != http.StatusForbidden {
		t.Errorf("without rights: %d", status)
	}
}

// serveConsole runs the command, and signs a client in. What it prints beside links fits a terminal of 40 columns, and
// has no colours.
func serveConsole(t *testing.T, kubeconfig string) (
	get func(path string) (int, string), post func(string, url.Values) int, another func() string,
) {
	t.Helper()
	in, enter := io.Pipe()
	out, said := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		err := Run(ctx, []string{"console", "--kubeconfig", kubeconfig}, genericiooptions.IOStreams{
			In: in, Out: said, ErrOut: said,
		})
		_ = said.Close()
		ended <- err
	}()
	links := make(chan string, 8)
	go func() {
		defer close(links)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			line := lines.Text()
			if link := strings.TrimSpace(line); strings.HasPrefix(link, "http://") {
				links <- link
			} else if len(line) > 40 || strings.Contains(line, "\x1b") {
				t.Errorf("%q", line)
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		_ = enter.Close()
		if err := <-ended; err != nil {
			t.Errorf("the console ended with %v", err)
		}
	})
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar}
	link := <-links
	base, _, _ := strings.Cut(link, "open?")
	get = func(path string) (int, string) {
		t.Helper()
		answer, err := browser.Get(base + path)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = answer.Body.Close() }()
		page, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(page)
	}
	post = func(path string, form url.Values) int {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+path, strings.NewReader(form.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		request.Header.Set("Origin", "http://"+request.URL.Host)
		answer, err := browser.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		return answer.StatusCode
	}
	_, after, _ := strings.Cut(link, base)
	if status, _ := get(after); status != http.StatusOK {
		t.Fatalf("the link: %d", status)
	}
	return get, post, func() string {
		if _, err := enter.Write([]byte("\n")); err != nil {
			t.Fatal(err)
		}
		return <-links
	}
}
