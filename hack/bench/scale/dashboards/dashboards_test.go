// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build prometheus

package dashboards_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/hack/bench/scale/bed"
	"github.com/lighterage/lighterage/hack/bench/scale/controlplane"
	"github.com/lighterage/lighterage/hack/bench/scale/fleet"
	"github.com/lighterage/lighterage/test/dashboards"
)

const (
	// patience is for a busy machine.
	patience = 4 * time.Minute
	pause    = time.Second
	// shown is how long a time the queries are about.
	shown = time.Minute
	// outVariable names a directory into which the series of all panels are written, for who wants to draw them.
	outVariable = "DASHBOARDS_OUT"
)

// empty are panels, or a series of one, that have nothing to show in this bed, and why.
var empty = map[string]string{
	"queues: Alerts":                                             "no alert of Queues fires",
	"endpoints: Alerts":                                          "no alert of HTTPEndpoints fires",
	"cost: Alerts":                                               "no alert of cost fires",
	"fleet: Bytes passed":                                        "senders of the fleet send nothing",
	"fleet: Rejections":                                          "nobody asks for what is not granted",
	"transfers: Probes of ObjectStores":                          "there is no ObjectStore",
	"transfers: Relays that ended":                               "there is no ObjectStore",
	"transfers: Relays not ready":                                "there is no ObjectStore",
	"queues: Time of a sync of the volume":                       "members of the fleet have no volumes",
	"queues: Bytes stored: files":                                "members of the fleet have no volumes",
	"queues: Bytes stored: memory":                               "members of the fleet have no volumes",
	"queues: Archives":                                           "no Queue has an archive",
	"queues: Regret of mode Auto":                                "agents of the fleet compress nothing",
	"endpoints: Regret of mode Auto":                             "agents of the fleet compress nothing",
	"transfers: Regret of mode Auto":                             "agents of the fleet compress nothing",
	"queues: Why stored as they were":                            "reasons of the fleet are those of Transfers",
	"transfers: Age of the oldest recovery point":                "no Transfer of the fleet has a schedule",
	"transfers: Copies of sources":                               "Transfers of the fleet read their claims",
	"transfers: Age of the oldest copy":                          "Transfers of the fleet read their claims",
	"transfers: Claims that are populated":                       "no claim of the fleet names a Transfer",
	"transfers: Snapshots of destinations":                       "no destination of the fleet keeps history",
	"transfers: Time since the newest snapshot of a destination": "no destination of the fleet keeps history",
	"transfers: Transfers without a snapshot":                    "no destination of the fleet keeps history",
	"transfers: Outside their deadline":                          "no Transfer of the fleet has a deadline",
	"transfers: Hooks by outcome":                                "no Transfer of the fleet has hooks",
	"transfers: Time that a hook takes":                          "no Transfer of the fleet has hooks",
	"transfers: Attempts by data path":                           "agents of the fleet report no path",
	"fleet: Control connections":                                 "every cluster of the fleet can be dialled",
	"fleet: Tunnels by result":                                   "every cluster of the fleet can be dialled",
	"fleet: Data connections by result":                          "senders of the fleet connect to nothing",
	"fleet: Configurations sent to agents":                       "no configuration of the fleet changes",
	"nodes: Busy accelerators":                                   "nodes of the fleet have no counters over five minutes",
	"nodes: Contention for accelerators":                         "nodes of the fleet have no counters over five minutes",
}

var directory string

func TestMain(m *testing.M) {
	var inside bool
	if directory, inside = controlplane.Inside(); inside {
		ctrl.SetLogger(logr.Discard())
		klog.SetLogger(logr.Discard())
		if err := controlplane.Enter(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(m.Run())
	}
	code, err := controlplane.RunInside(context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// TestDashboards: every query and every rule works on what a manager and a gateway export, and has series where the
// fleet gives it cause to.
func TestDashboards(t *testing.T) {
	// So many objects that the canary has some in each half whatever their UIDs are.
	world := fleet.World{
		Namespaces: 4, Nodes: 10, Volumes: 60, Queues: 12, Endpoints: 12, Peers: 2, Transfers: 120, Limited: true,
	}
	b, err := bed.Start(t.Context(), world, directory, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, object := range priced() {
		if err := b.Cluster.Client.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	p := startPrometheus(t, b)
	if err := b.StartManager(); err != nil {
		t.Fatal(err)
	}
	missing := ""
	took, err := b.Until(t.Context(), patience, func() (bool, error) {
		missing, err = b.Missing(t.Context())
		return missing == "", err
	})
	if err != nil || took == 0 {
		t.Fatalf("%s: %v", missing, err)
	}
	if err := b.Fleet.Open(t.Context(), controlplane.GatewayAddress, world.Namespaces, patience); err != nil {
		t.Fatal(err)
	}
	p.until(t, `lighterage_transfer_runs_total == 0`)
	p.until(t, `lighterage_deliveries_total == 0`)
	p.until(t, `lighterage_compressionpolicy_canary_cost_change_ratio`)
	if err := b.Fleet.End(t.Context(), world.Admitted()); err != nil {
		t.Fatal(err)
	}
	p.until(t, `sum(lighterage_transfer_runs_total{outcome="Succeeded"}) >= `+fmt.Sprint(world.Admitted()))
	p.until(t, `sum(lighterage_deliveries_total{outcome="Succeeded"}) >= `+fmt.Sprint(world.Admitted()))
	p.until(t, `ALERTS{alertname="LighterageFallbackDecompression",alertstate="firing"}`)
	p.until(t, `lighterage:avoided_cost:per_second{kind="HTTPEndpoint"} != 0`)
	checkRules(t, p)
	all, err := dashboards.Read()
	if err != nil {
		t.Fatal(err)
	}
	for name, d := range all {
		checkDashboard(t, p, name, d)
	}
	if err := b.Fleet.Err(); err != nil {
		t.Error(err)
	}
}

// priced are a Tariff, and a DataQuota with limits.
func priced() []client.Object {
	return []client.Object{
		&v1alpha1.Tariff{
			ObjectMeta: metav1.ObjectMeta{Name: "list",
				Annotations: map[string]string{v1alpha1.DefaultTariffAnnotation: "true"}},
			Spec: v1alpha1.TariffSpec{
				Currency: "EUR", StorageGiBMonth: "0.07", CPUHour: v1alpha1.CPUHourPrice{Price: "0.031"},
				NetworkGiB: v1alpha1.NetworkGiBPrice{Price: "0.05", Rules: []v1alpha1.NetworkGiBRule{
					{Price: "0", Direction: v1alpha1.DirectionReceive},
				}},
			},
		},
		&v1alpha1.DataQuota{
			ObjectMeta: metav1.ObjectMeta{Namespace: "team-000", Name: "limits"},
			Spec: v1alpha1.DataQuotaSpec{Hard: v1alpha1.DataQuotaResources{
				RunningTransfers: ptr.To[int32](50), QueueBytes: ptr.To(resource.MustParse("100Gi")),
			}},
		},
	}
}

// checkRules: each was evaluated without an error.
func checkRules(t *testing.T, p *prometheus) {
	t.Helper()
	var data struct {
		Groups []struct {
			Rules []struct{ Name, Type, Health, LastError string }
		}
	}
	if err := p.ask(t.Context(), "rules", nil, &data); err != nil {
		t.Fatal(err)
	}
	written, _, err := dashboards.ReadRules()
	if err != nil {
		t.Fatal(err)
	}
	if len(data.Groups) != len(written.Groups) {
		t.Errorf("Prometheus has %d groups of rules, want %d", len(data.Groups), len(written.Groups))
	}
	for _, group := range data.Groups {
		for _, rule := range group.Rules {
			if rule.Health != "ok" || rule.LastError != "" {
				t.Errorf("rule %s is %s: %s", rule.Name, rule.Health, rule.LastError)
			}
			if rule.Type != "recording" {
				continue
			}
			if found, err := p.query(t.Context(), rule.Name); err != nil || len(found) == 0 {
				t.Errorf("%s has no series: %v", rule.Name, err)
			}
		}
	}
}

// drawn are the series of a panel, for who wants to draw them.
type drawn struct {
	Panel  dashboards.Panel
	Series map[string][]series
}

func checkDashboard(t *testing.T, p *prometheus, name string, d dashboards.Dashboard) {
	t.Helper()
	var out []drawn
	for _, panel := range d.Panels {
		results := map[string][]series{}
		for _, target := range panel.Targets {
			expr := chosen(target.Expr, shown)
			now, err := p.query(t.Context(), expr)
			if err != nil {
				t.Errorf("%s, %s: %s: %v", d.Title, panel.Title, expr, err)
				continue
			}
			all := now
			if target.Range {
				if all, err = p.history(t.Context(), expr, 2*shown, pause); err != nil {
					t.Errorf("%s, %s: %s: %v", d.Title, panel.Title, expr, err)
				}
			}
			results[target.LegendFormat] = all
			if !slices.ContainsFunc(all, hasNumber) && empty[name+": "+panel.Title] == "" &&
				empty[name+": "+panel.Title+": "+target.LegendFormat] == "" {
				t.Errorf("%s: %s: %s has no series: %s", d.Title, panel.Title, target.LegendFormat, expr)
			}
		}
		out = append(out, drawn{panel, results})
	}
	if to := os.Getenv(outVariable); to != "" {
		content, err := json.Marshal(out)
		if err == nil {
			err = os.WriteFile(filepath.Join(to, name+".json"), content, 0o600)
		}
		if err != nil {
			t.Error(err)
		}
	}
}

func hasNumber(s series) bool {
	return slices.ContainsFunc(append(s.Values, s.Value), func(one sample) bool {
		_, ok := one.number()
		return ok
	})
}
