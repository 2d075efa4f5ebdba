// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/lighterage/lighterage/agent/wire/datapath"
	"github.com/lighterage/lighterage/controllers/pki"
	"github.com/lighterage/lighterage/controllers/quota"
	"github.com/lighterage/lighterage/controllers/watched"
)

// settings are what the flags say.
type settings struct {
	namespace, cluster, caSecret  string
	agentImage, agentPullPolicy   string
	agentArchitectures            []string
	runLifetime, servingLifetime  time.Duration
	retention                     time.Duration
	statementMonths               int
	leaderElect                   bool
	leaseDuration                 time.Duration
	leaderIdentity                string
	networkPolicies               bool
	watched                       watched.Namespaces
	healthAddress, metricsAddress string
	pprofAddress                  string
	concurrency                   int
	acceleratorSlots              int64
	acceleratorShares             bool
	limits                        quota.Amounts
	clusterCIDRs                  []netip.Prefix
	dataPath                      string
	logLevel                      slog.Level
	version                       bool
}

const (
	// maxRunLifetime bounds for how long a stolen key of a run is of value.
	maxRunLifetime = 4 * time.Hour
	// defaultServingLifetime lets Queues and HTTPEndpoints serve for three days and a half without a manager.
	defaultServingLifetime = 7 * 24 * time.Hour
)

// architectures that agents are built for.
var architectures = []string{"amd64", "arm64", "s390x"}

func parse(arguments []string) (settings, error) {
	var s settings
	flags := flag.NewFlagSet("manager", flag.ContinueOnError)
	// controller-runtime looks this one up by itself.
	flags.Var(
		flag.Lookup("kubeconfig").Value, "kubeconfig",
		"path of a kubeconfig; in a pod the service account is used without one",
	)
	flags.StringVar(
		&s.namespace, "namespace", os.Getenv("POD_NAMESPACE"), "namespace of the operator (default: $POD_NAMESPACE)",
	)
	flags.StringVar(
		&s.cluster, "cluster-name", "local",
		"what this cluster calls itself in certificates; for people, nothing is decided by it",
	)
	flags.StringVar(
		&s.caSecret, "ca-secret", "",
		"name of a given Secret of type kubernetes.io/tls with the cluster's CA; without one the manager makes Secret "+
			pki.CAName,
	)
	flags.StringVar(&s.agentImage, "agent-image", "", "image that agents run (required)")
	flags.StringVar(
		&s.agentPullPolicy, "agent-image-pull-policy", string(corev1.PullIfNotPresent), "Always, IfNotPresent or Never",
	)
	agentArchitectures := flags.String(
		"agent-image-architectures", strings.Join(architectures, ","),
		"architectures that the agent image was built for; agents run on nodes of these only",
	)
	flags.DurationVar(&s.runLifetime, "run-certificate-lifetime", maxRunLifetime, "lifetime of the certificates of runs "+
		"and trials, at most 4h, which are renewed at half of it. A peer whose clock is ahead by more than half of it may "+
		"reject them")
	flags.DurationVar(
		&s.servingLifetime, "serving-certificate-lifetime", defaultServingLifetime,
		"lifetime of the certificates of the gateway, the node agents, the members of Queues and the replicas of "+
			"HTTPEndpoints, which are renewed at half of it",
	)
	flags.DurationVar(
		&s.retention, "delivery-retention", 7*24*time.Hour, "how long a Delivery stays after it has ended; 0 for ever",
	)
	flags.IntVar(
		&s.statementMonths, "statement-months", 13, "for how many months Statements are kept, the present one included, "+
			"from 2 to 120",
	)
	flags.BoolVar(&s.networkPolicies, "network-policies", true, "make a NetworkPolicy for the pods of every Transfer, "+
		"Delivery, CompressionTrial, ObjectStore, Queue and HTTPEndpoint; false: remove those that were made")
	flags.BoolVar(&s.leaderElect, "leader-elect", false, "let one manager of several work at a time")
	flags.DurationVar(&s.leaseDuration, "leader-elect-lease-duration", 2*time.Minute, "how long other managers wait for "+
		"a leader that does not renew its lease before one of them leads, from 15s to 10m. A leader that cannot reach the "+
		"API server for three quarters of it stops")
	flags.StringVar(&s.leaderIdentity, "leader-elect-identity", os.Getenv("POD_NAME"), "name of this manager in the "+
		"lease, which no other process may use at the same time (default: $POD_NAME); a leader that restarts under its "+
		"name leads again at once. Empty: a new name with every start")
	flags.StringVar(&s.healthAddress, "health-probe-bind-address", ":8081", "address of /healthz and /readyz")
	flags.StringVar(
		&s.metricsAddress, "metrics-bind-address", ":8080",
		"address of /metrics, by HTTPS, for clients that may get this path by the cluster's RBAC; 0 for none",
	)
	flags.StringVar(
		&s.pprofAddress, "pprof-bind-address", "",
		"address of /debug/pprof, by plain HTTP and without authentication, so give one of localhost; empty: none",
	)
	flags.IntVar(&s.concurrency, "max-concurrent-reconciles", 8, "how many objects of a kind are reconciled at once")
	flags.Int64Var(&s.acceleratorSlots, "accelerator-slots", 0, "how many agents may be placed on a node for its "+
		"accelerator, 0 for any number; counted are those that compress for Transfers and those of CompressionTrials with "+
		"class Hardware, and not receivers, HTTPEndpoints and Queues. Takes the right to patch nodes/status")
	flags.BoolVar(&s.acceleratorShares, "accelerator-shares", false, "have agents draw shares of their node's "+
		"accelerator from its node agent, which they reach by Service lighterage-node-agent of the operator's namespace")
	maxRunning := flags.Int64("max-running-transfers", 0, "how many Transfers of all namespaces run at "+
		"a time, shared by the weights of DataQuotas; 0: any number")
	maxBandwidth := flags.String("max-bandwidth", "", "bytes per second that the sending agents of all Transfers "+
		"write to the wire at most, all together, as a quantity from 256Ki to 1Pi, shared by the weights of DataQuotas; "+
		"empty: any")
	watchNamespaces := flags.String(
		"watch-namespaces", "",
		"comma-separated namespaces whose objects are reconciled, beside the manager's own; empty: all",
	)
	clusterCIDRs := flags.String("cluster-cidrs", "", "networks of this cluster's pods and Services, with commas "+
		"between them, that it does not say itself (ServiceCIDRs and nodes' podCIDRs): HTTPEndpoints and Queues may not "+
		"dial what is in them, Services that they may use excepted")
	flags.StringVar(&s.dataPath, "data-path", string(datapath.TCP), "protocol that connections of Transfers and of "+
		"channels try: TCP, MPTCP or SMC; those that cannot have it are TCP")
	level := flags.String("log-level", "info", "debug, info, warn or error")
	flags.BoolVar(&s.version, "version", false, "print the version and exit")
	if err := flags.Parse(arguments); err != nil {
		return s, err
	}
	if flags.NArg() > 0 {
		return s, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if err := s.logLevel.UnmarshalText([]byte(*level)); err != nil {
		return s, fmt.Errorf("--log-level: %w", err)
	}
	var err error
	if s.watched, err = watched.Parse(*watchNamespaces, s.namespace); err != nil {
		return s, fmt.Errorf("--watch-namespaces: %w", err)
	}
	if s.limits, err = clusterLimits(*maxRunning, *maxBandwidth); err != nil {
		return s, err
	}
	for text := range strings.SplitSeq(*clusterCIDRs, ",") {
		if text == "" {
			continue
		}
		prefix, err := netip.ParsePrefix(text)
		if err != nil || prefix.Addr().Is4In6() {
			return s, fmt.Errorf("--cluster-cidrs: %q is no network; write for example 10.244.0.0/16,fd00:10:244::/56", text)
		}
		s.clusterCIDRs = append(s.clusterCIDRs, prefix.Masked())
	}
	s.agentArchitectures = strings.Split(*agentArchitectures, ",")
	return s, s.validate()
}

// clusterLimits are those of all Transfers together.
func clusterLimits(running int64, bandwidth string) (quota.Amounts, error) {
	limits := quota.Amounts{}
	if running < 0 || running > 1_000_000 {
		return nil, errors.New("--max-running-transfers must be between 0 and 1000000")
	}
	if running > 0 {
		limits[quota.RunningTransfers] = running
	}
	if bandwidth == "" {
		return limits, nil
	}
	wire, err := resource.ParseQuantity(bandwidth)
	if err != nil || wire.Value() < quota.LeastBandwidth || wire.Value() > 1<<50 {
		return nil, fmt.Errorf("--max-bandwidth must be between 256Ki and 1Pi, not %q; write for example 200Mi", bandwidth)
	}
	limits[quota.Share] = wire.Value()
	return limits, nil
}

func (s settings) validate() error {
	if s.version {
		return nil
	}
	var errs []error
	if s.namespace == "" {
		errs = append(errs, errors.New("--namespace or $POD_NAMESPACE must name the operator's namespace"))
	}
	if _, err := datapath.Parse(s.dataPath); err != nil {
		errs = append(errs, fmt.Errorf("--data-path: %w", err))
	}
	if s.agentImage == "" {
		errs = append(errs, errors.New("--agent-image must name the image that agents run"))
	}
	if err := pki.ValidateClusterName(s.cluster); err != nil {
		errs = append(errs, fmt.Errorf("--cluster-name: %w", err))
	}
	if !slices.Contains(
		[]corev1.PullPolicy{corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever},
		corev1.PullPolicy(s.agentPullPolicy),
	) {
		errs = append(
			errs, fmt.Errorf("--agent-image-pull-policy must be Always, IfNotPresent or Never, not %q", s.agentPullPolicy),
		)
	}
	for _, architecture := range s.agentArchitectures {
		if !slices.Contains(architectures, architecture) {
			errs = append(
				errs,
				fmt.Errorf(
					"--agent-image-architectures must be some of %s, not %q", strings.Join(architectures, ","), architecture,
				),
			)
		}
	}
	if s.runLifetime < time.Minute || s.servingLifetime < time.Minute {
		errs = append(errs, errors.New("--run-certificate-lifetime and --serving-certificate-lifetime must be at least 1m"))
	}
	if s.runLifetime > maxRunLifetime {
		errs = append(errs, fmt.Errorf("--run-certificate-lifetime must be at most %s, not %s", maxRunLifetime,
			s.runLifetime))
	}
	if s.statementMonths < 2 || s.statementMonths > 120 {
		errs = append(errs, errors.New("--statement-months must be from 2 to 120"))
	}
	if s.leaseDuration < 15*time.Second || s.leaseDuration > 10*time.Minute {
		errs = append(errs, errors.New("--leader-elect-lease-duration must be between 15s and 10m"))
	}
	if s.retention < 0 {
		errs = append(errs, errors.New("--delivery-retention must not be negative"))
	}
	if s.acceleratorSlots < 0 || s.acceleratorSlots > 1000 {
		errs = append(errs, errors.New("--accelerator-slots must be between 0 and 1000"))
	}
	if s.concurrency < 1 || s.concurrency > 1000 {
		errs = append(errs, errors.New("--max-concurrent-reconciles must be between 1 and 1000"))
	}
	return errors.Join(errs...)
}
