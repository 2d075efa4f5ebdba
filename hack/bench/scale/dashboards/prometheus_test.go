// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build prometheus

package dashboards_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/controllers/pki"
	"github.com/lighterage/lighterage/hack/bench/scale/bed"
	"github.com/lighterage/lighterage/hack/bench/scale/controlplane"
	"github.com/lighterage/lighterage/test/dashboards"
	"github.com/lighterage/lighterage/test/render"
)

// address of Prometheus, in the sandbox.
const address = "127.0.0.1:9090"

// configuration scrapes as the PodMonitors do, but more often.
const configuration = `
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [rules.yaml]
scrape_configs:
`

const job = `
  - job_name: lighterage-%[1]s
    scheme: https
    honor_labels: true
    authorization: {credentials_file: token}
    tls_config: {ca_file: ca.crt, server_name: %[2]s}
    static_configs: [{targets: ["%[3]s"], labels: {cluster: east}}]
`

// prometheus runs until the test ends.
type prometheus struct {
	command *exec.Cmd
	log     string
	ended   chan struct{}
}

func startPrometheus(t *testing.T, b *bed.Bed) *prometheus {
	t.Helper()
	directory := t.TempDir()
	published := &corev1.ConfigMap{}
	if err := b.Cluster.Client.Get(t.Context(), client.ObjectKey{Namespace: render.Namespace, Name: pki.CAName},
		published); err != nil {
		t.Fatal(err)
	}
	_, rules, err := dashboards.ReadRules()
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"token": b.Cluster.MetricsToken(), "ca.crt": published.Data[pki.CAKey], "rules.yaml": string(rules),
		"prometheus.yaml": configuration +
			fmt.Sprintf(job, "manager", pki.ManagerServerName, controlplane.ManagerMetrics) +
			fmt.Sprintf(job, "gateway", pki.GatewayServerName, controlplane.GatewayMetrics),
	} {
		if err := os.WriteFile(filepath.Join(directory, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := &prometheus{log: filepath.Join(directory, "log"), ended: make(chan struct{})}
	log, err := os.Create(p.log)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	p.command = exec.Command("prometheus", "--config.file="+filepath.Join(directory, "prometheus.yaml"),
		"--storage.tsdb.path="+filepath.Join(directory, "data"), "--web.listen-address="+address)
	p.command.Stdout, p.command.Stderr = log, log
	if err := p.command.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.command.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() {
		_ = p.command.Process.Signal(syscall.SIGTERM)
		<-p.ended
		if text, err := os.ReadFile(p.log); err == nil && t.Failed() {
			t.Logf("the log of Prometheus: %s", text)
		}
	})
	return p
}

// sample is one value of a series.
type sample struct {
	At    float64
	Value string
}

// UnmarshalJSON reads a pair.
func (s *sample) UnmarshalJSON(content []byte) error {
	return json.Unmarshal(content, &[]any{&s.At, &s.Value})
}

// number is false where there is none, as of a division by zero.
func (s sample) number() (float64, bool) {
	value, err := strconv.ParseFloat(s.Value, 64)
	return value, err == nil && value == value //nolint:gocritic // NaN
}

// series as the API returns them.
type series struct {
	Metric map[string]string
	Value  sample
	Values []sample
}

// ask asks the API; into gets what is in data.
func (p *prometheus) ask(ctx context.Context, path string, values url.Values, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/api/v1/"+path+"?"+values.Encode(),
		http.NoBody)
	if err != nil {
		return fmt.Errorf("ask Prometheus: %w", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("ask Prometheus: %w", err)
	}
	defer response.Body.Close()
	var answer struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return fmt.Errorf("read the answer of Prometheus: %w", err)
	}
	if answer.Status != "success" {
		return fmt.Errorf("Prometheus: %s", answer.Error) //nolint:staticcheck // a name
	}
	return json.Unmarshal(answer.Data, into)
}

// query returns the series of an expression now.
func (p *prometheus) query(ctx context.Context, expr string) ([]series, error) {
	var data struct{ Result []series }
	err := p.ask(ctx, "query", url.Values{"query": {expr}}, &data)
	return data.Result, err
}

// history returns the series of an expression over a time that ends now.
func (p *prometheus) history(ctx context.Context, expr string, length, step time.Duration) ([]series, error) {
	var data struct{ Result []series }
	now := time.Now()
	at := func(t time.Time) string { return strconv.FormatFloat(float64(t.UnixMilli())/1000, 'f', 3, 64) }
	err := p.ask(ctx, "query_range", url.Values{
		"query": {expr}, "start": {at(now.Add(-length))}, "end": {at(now)}, "step": {step.String()},
	}, &data)
	return data.Result, err
}

// until waits for an expression to have series.
func (p *prometheus) until(t *testing.T, expr string) {
	t.Helper()
	var last error
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		found, err := p.query(t.Context(), expr)
		if err == nil && len(found) > 0 {
			return
		}
		last = err
		select {
		case <-p.ended:
			t.Fatal("Prometheus has ended")
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		case <-time.After(pause):
		}
	}
	t.Fatalf("after %s there is no %s: %v", patience, expr, errors.Join(last))
}

// chosen is a query as Grafana sends it when all is chosen.
func chosen(expr string, length time.Duration) string {
	seconds := strconv.Itoa(int(length.Seconds()))
	return strings.NewReplacer(
		"$__rate_interval", "10s", "$__range_s", seconds, "$__range", seconds+"s", "$cluster", ".*", "$namespace", ".*",
	).Replace(expr)
}
