// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package chart_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/lighterage/lighterage/test/render"
)

// monitoring are the values that switch all of it on.
var monitoring = []string{
	registry, withoutCRDs, "monitoring.podMonitors.enabled=true", "monitoring.rules.enabled=true",
	"monitoring.dashboards.enabled=true",
}

// TestMonitoring: the chart makes by values what config/prometheus has, beside what it makes anyway.
func TestMonitoring(t *testing.T) {
	t.Parallel()
	plain, err := template(t, registry, withoutCRDs)
	if err != nil {
		t.Fatal(err)
	}
	all, err := template(t, monitoring...)
	if err != nil {
		t.Fatal(err)
	}
	byKustomize, err := render.Kustomized("config/prometheus")
	if err != nil {
		t.Fatal(err)
	}
	got := essentials(all)
	for key := range essentials(plain) {
		delete(got, key)
	}
	if diff := cmp.Diff(essentials(byKustomize), got); diff != "" {
		t.Errorf("config/prometheus (-) and the chart (+) differ:\n%s", diff)
	}
	for _, objects := range [][]unstructured.Unstructured{byKustomize, all} {
		found := 0
		for _, o := range objects {
			if o.GetLabels()["grafana_dashboard"] == "1" && o.GetKind() == "ConfigMap" {
				found++
			}
		}
		if found != 6 {
			t.Errorf("%d ConfigMaps have the label of Grafana's sidecar, want 6", found)
		}
	}
	for _, o := range all {
		if data, ok := at(o.Object, "data").(map[string]any); ok && strings.HasPrefix(o.GetName(), "lighterage-dashboard-") {
			for name, content := range data {
				if !json.Valid([]byte(content.(string))) {
					t.Errorf("%s of %s is not JSON", name, o.GetName())
				}
			}
		}
	}
}

// TestMonitoringByItself: nothing is made that was not asked for, and none of it depends on the cluster.
func TestMonitoringByItself(t *testing.T) {
	t.Parallel()
	plain, err := template(t, registry, withoutCRDs)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range plain {
		if strings.HasPrefix(o.GetAPIVersion(), "monitoring.coreos.com/") || o.GetName() == "lighterage-metrics" {
			t.Errorf("%s %s is made by default", o.GetKind(), o.GetName())
		}
	}
	content, err := os.ReadFile(filepath.Join(root, chartDir, "templates/monitoring.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(content), ".Capabilities") || strings.Contains(string(content), "lookup ") {
		t.Error("what is rendered depends on the cluster")
	}
}

func TestMonitoringValues(t *testing.T) {
	t.Parallel()
	objects, err := template(t, append([]string{
		"monitoring.podMonitors.tokenSecret.name=mine", "monitoring.podMonitors.tokenSecret.key=t",
		"monitoring.podMonitors.labels.release=prometheus", "monitoring.podMonitors.interval=1m",
		"monitoring.podMonitors.cluster=east", "monitoring.rules.labels.release=prometheus",
	}, monitoring...)...)
	if err != nil {
		t.Fatal(err)
	}
	if find(objects, "ServiceAccount", "lighterage-metrics") != nil ||
		find(objects, "Secret", "lighterage-metrics-token") != nil ||
		find(objects, "ClusterRoleBinding", "lighterage-metrics") != nil {
		t.Error("a token is made beside the one that was named")
	}
	for _, component := range []string{"manager", "gateway"} {
		monitor := find(objects, "PodMonitor", "lighterage-"+component)
		if monitor == nil {
			t.Fatalf("there is no PodMonitor of the %s", component)
		}
		endpoint := at(monitor.Object, "spec", "podMetricsEndpoints", 0)
		want := map[string]any{
			"port": "metrics", "scheme": "https", "interval": "1m", "honorLabels": true,
			"authorization": map[string]any{"credentials": map[string]any{"name": "mine", "key": "t"}},
			"tlsConfig": map[string]any{
				"ca":         map[string]any{"configMap": map[string]any{"name": "lighterage-ca", "key": "ca.crt"}},
				"serverName": component + ".lighterage.internal",
			},
			"relabelings": []any{
				map[string]any{"targetLabel": "job", "replacement": "lighterage-" + component},
				map[string]any{"targetLabel": "cluster", "replacement": "east"},
			},
		}
		if diff := cmp.Diff(want, endpoint); diff != "" {
			t.Errorf("the endpoint of the PodMonitor of the %s differs:\n%s", component, diff)
		}
		if monitor.GetLabels()["release"] != "prometheus" {
			t.Errorf("the PodMonitor of the %s has the labels %v", component, monitor.GetLabels())
		}
		// It selects the pods that have this port, and no others.
		selector, _ := at(monitor.Object, "spec", "selector", "matchLabels").(map[string]any)
		for _, o := range objects {
			labels, _ := at(o.Object, "spec", "template", "metadata", "labels").(map[string]any)
			if labels != nil && selects(selector, labels) != (o.GetName() == "lighterage-"+component) {
				t.Errorf("the PodMonitor of the %s and the pods of %s: %v", component, o.GetName(), selector)
			}
		}
	}
	if rule := find(objects, "PrometheusRule", "lighterage"); rule == nil || rule.GetLabels()["release"] != "prometheus" {
		t.Error("the PrometheusRule has not the label")
	}
}
