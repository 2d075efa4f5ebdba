// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentclient"
	"github.com/lighterage/lighterage/controllers/agentjob"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/agentpoll"
	"github.com/lighterage/lighterage/controllers/audit"
	"github.com/lighterage/lighterage/controllers/compressionpolicy"
	"github.com/lighterage/lighterage/controllers/dataquota"
	"github.com/lighterage/lighterage/controllers/delivery"
	"github.com/lighterage/lighterage/controllers/drill"
	"github.com/lighterage/lighterage/controllers/egress"
	"github.com/lighterage/lighterage/controllers/gateway/reverse"
	"github.com/lighterage/lighterage/controllers/gatewaycost"
	"github.com/lighterage/lighterage/controllers/httpendpoint"
	"github.com/lighterage/lighterage/controllers/intern"
	"github.com/lighterage/lighterage/controllers/metrics"
	"github.com/lighterage/lighterage/controllers/networkpolicy"
	"github.com/lighterage/lighterage/controllers/node"
	"github.com/lighterage/lighterage/controllers/objectstore"
	"github.com/lighterage/lighterage/controllers/peer"
	"github.com/lighterage/lighterage/controllers/peergrant"
	"github.com/lighterage/lighterage/controllers/pki"
	"github.com/lighterage/lighterage/controllers/populate"
	"github.com/lighterage/lighterage/controllers/queue"
	"github.com/lighterage/lighterage/controllers/receiptkey"
	"github.com/lighterage/lighterage/controllers/route"
	"github.com/lighterage/lighterage/controllers/staging"
	"github.com/lighterage/lighterage/controllers/statement"
	"github.com/lighterage/lighterage/controllers/tariffstatus"
	"github.com/lighterage/lighterage/controllers/topology"
	"github.com/lighterage/lighterage/controllers/transfer"
	"github.com/lighterage/lighterage/controllers/transferset"
	"github.com/lighterage/lighterage/controllers/trial"
)

// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=lighterage-system,resources=leases,verbs=get;create;update
// +kubebuilder:rbac:groups="",namespace=lighterage-system,resources=events,verbs=create;patch

// Metrics are for whom the API server allows to get them.
// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create

// managerCertificateLifetime is that of the manager's own certificate, which lives in memory. It is renewed at half of
// it, so that a peer whose clock is ahead by a day accepts it at any time.
const managerCertificateLifetime = 72 * time.Hour

// newManager wires everything.
func newManager(config *rest.Config, s settings) (ctrl.Manager, error) {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	options, err := managerOptions(scheme, s)
	if err != nil {
		return nil, err
	}
	if err := electLeader(&options, config, s); err != nil {
		return nil, err
	}
	// Nobody is served before the manager is started.
	var serving *pki.Holder
	options.Metrics = metrics.Serving(s.metricsAddress, func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		return serving.GetCertificate(hello)
	})
	mgr, err := ctrl.NewManager(config, options)
	if err != nil {
		return nil, fmt.Errorf("connecting to the cluster: %w", err)
	}
	serving = pki.NewHolder(newAuthority(mgr, s), pki.ManagerPath, managerCertificateLifetime, pki.ManagerServerName)
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return nil, fmt.Errorf("adding the health check: %w", err)
	}
	if err := mgr.AddReadyzCheck("ping", healthz.Ping); err != nil {
		return nil, fmt.Errorf("adding the readiness check: %w", err)
	}
	for _, setup := range setups(s) {
		if err := setup(mgr); err != nil {
			return nil, err
		}
	}
	return mgr, nil
}

// operatorApp is the name label of what the chart installs, node agents among it.
const operatorApp = "lighterage"

// managerOptions keep the cache small: of Jobs, pods, Deployments, disruption budgets and autoscalers only the
// operator's are in it, Secrets and ConfigMaps are never cached, and nothing has managedFields, which nobody reads:
// what is written is patches and applied configurations, which leave alone what both sides of a difference lack.
func managerOptions(scheme *runtime.Scheme, s settings) (ctrl.Options, error) {
	ours, err := labels.NewRequirement(agentpod.AppLabel, selection.In, []string{operatorApp, agentpod.AppName})
	if err != nil {
		return ctrl.Options{}, fmt.Errorf("selecting the operator's pods: %w", err)
	}
	agents := cache.ByObject{Label: labels.NewSelector().Add(*ours)}
	shared := intern.New()
	trimmed := cache.ByObject{Transform: shared.After(topology.Trim(s.acceleratorSlots > 0))}
	trimmedAgents := cache.ByObject{Label: agents.Label, Transform: trimmed.Transform}
	return ctrl.Options{
		Scheme:                 scheme,
		HealthProbeBindAddress: s.healthAddress,
		PprofBindAddress:       s.pprofAddress,
		NewClient:              s.watched.NewClient,
		Cache: cache.Options{
			DefaultNamespaces: s.watched.Cache(),
			DefaultTransform:  shared.After(cache.TransformStripManagedFields()),
			ByObject: map[client.Object]cache.ByObject{
				&batchv1.Job{}: trimmedAgents, &corev1.Pod{}: trimmedAgents,
				&appsv1.Deployment{}: agents, &appsv1.StatefulSet{}: agents,
				&policyv1.PodDisruptionBudget{}: agents, &autoscalingv2.HorizontalPodAutoscaler{}: agents,
				&networkingv1.NetworkPolicy{}: agents,
				&corev1.Node{}:                trimmed, &storagev1.VolumeAttachment{}: trimmed,
				&corev1.PersistentVolume{}: trimmed, &corev1.PersistentVolumeClaim{}: trimmed,
			},
		},
		Client: client.Options{
			Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}, &corev1.ConfigMap{}}},
		},
	}, nil
}

// electLeader has one manager of several work at a time. The lease is longer than the 15 s of kube-controller-manager's
// default, so that a leader outlives an API server that is away for a minute; without leader election it outlives any.
func electLeader(options *ctrl.Options, config *rest.Config, s settings) error {
	const name = "manager.lighterage.dev"
	deadline, pause := s.leaseDuration*3/4, min(s.leaseDuration/10, 5*time.Second)
	options.LeaderElection, options.LeaderElectionID, options.LeaderElectionNamespace = s.leaderElect, name, s.namespace
	options.LeaseDuration, options.RenewDeadline, options.RetryPeriod = &s.leaseDuration, &deadline, &pause
	// The process ends when the manager stops, so another may lead at once.
	options.LeaderElectionReleaseOnCancel = true
	if !s.leaderElect || s.leaderIdentity == "" {
		return nil
	}
	lock, err := resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, s.namespace, name,
		resourcelock.ResourceLockConfig{Identity: s.leaderIdentity}, config, deadline)
	if err != nil {
		return fmt.Errorf("preparing leader election: %w", err)
	}
	options.LeaderElectionResourceLockInterface = lock
	return nil
}

// setups lists what runs in the manager.
func setups(s settings) []func(ctrl.Manager) error {
	var wiring parts
	return []func(ctrl.Manager) error{
		func(mgr ctrl.Manager) error {
			seen, err := topology.Setup(context.Background(), mgr)
			if err != nil {
				return err
			}
			shares := ""
			if s.acceleratorShares {
				shares, err = node.SharesAddress(context.Background(), mgr.GetAPIReader(), s.namespace)
				if errors.Is(err, node.ErrNoShares) { // the rest works without
					mgr.GetLogger().Error(err, "Accelerators are not shared")
				} else if err != nil {
					return err
				}
			}
			wiring = newParts(mgr, s, seen, shares)
			return nil
		},
		func(mgr ctrl.Manager) error { return mgr.Add(wiring.gatewayCost) },
		func(mgr ctrl.Manager) error { return mgr.Add(wiring.renewer) },
		func(mgr ctrl.Manager) error { return mgr.Add(wiring.receiptKeys) },
		func(mgr ctrl.Manager) error { return mgr.Add(wiring.pool) },
		func(mgr ctrl.Manager) error { return transfer.Setup(mgr, wiring.transfers) },
		func(mgr ctrl.Manager) error {
			return mgr.Add(&staging.Sweeper{
				Cluster: staging.Cluster{Client: wiring.transfers.Client, Reader: wiring.transfers.Reader},
				Clock:   clock.RealClock{},
			})
		},
		func(mgr ctrl.Manager) error { return delivery.Setup(mgr, wiring.deliveries) },
		func(mgr ctrl.Manager) error {
			return transferset.Setup(mgr, transferset.Options{
				Client: mgr.GetClient(), Reader: wiring.transfers.Reader,
				Recorder: mgr.GetEventRecorder("lighterage-transferset"), Clock: clock.RealClock{},
				OperatorNamespace: s.namespace, Watched: s.watched, Concurrency: s.concurrency,
			})
		},
		func(mgr ctrl.Manager) error {
			return populate.Setup(mgr, populate.Options{
				Client: mgr.GetClient(), Reader: wiring.transfers.Reader,
				Recorder: mgr.GetEventRecorder("lighterage-populate"), Concurrency: s.concurrency,
				Metrics: metrics.NewPopulating(ctrlmetrics.Registry),
			})
		},
		func(mgr ctrl.Manager) error { return httpendpoint.Setup(mgr, wiring.endpoints) },
		func(mgr ctrl.Manager) error { return trial.Setup(mgr, wiring.trials) },
		func(mgr ctrl.Manager) error { return queue.Setup(mgr, wiring.queues) },
		func(mgr ctrl.Manager) error { return objectstore.Setup(mgr, wiring.stores) },
		func(mgr ctrl.Manager) error {
			return drill.Setup(mgr, drill.Options{
				Client: mgr.GetClient(), Recorder: mgr.GetEventRecorder("lighterage-drill"), Clock: clock.RealClock{},
				Concurrency: s.concurrency,
			})
		},
		func(mgr ctrl.Manager) error { return peer.Setup(mgr, wiring.peers) },
		func(mgr ctrl.Manager) error { return peergrant.Setup(mgr, peergrant.Options{}) },
		func(mgr ctrl.Manager) error {
			return node.Setup(mgr, node.Options{
				Profiles: node.Profiles(wiring.pool, wiring.agents), Namespace: s.namespace,
				Recorder: mgr.GetEventRecorder("lighterage-node"), Slots: s.acceleratorSlots,
				Use: wiring.use, Metrics: metrics.NewNodes(ctrlmetrics.Registry), Paths: wiring.paths,
			})
		},
		func(mgr ctrl.Manager) error {
			return dataquota.Setup(mgr, dataquota.Options{
				Client: mgr.GetClient(), Metrics: metrics.NewQuotas(ctrlmetrics.Registry), Clock: clock.RealClock{},
			})
		},
		func(mgr ctrl.Manager) error { return compressionpolicy.Setup(mgr, compressionpolicy.Options{}) },
		func(mgr ctrl.Manager) error { return statement.Setup(mgr, wiring.books) },
		func(mgr ctrl.Manager) error { return tariffstatus.Setup(mgr, tariffstatus.Options{}) },
		func(mgr ctrl.Manager) error {
			return mgr.Add(metrics.NewInventory(ctrlmetrics.Registry, mgr.GetCache(), clock.RealClock{}, s.limits))
		},
		func(ctrl.Manager) error { return metrics.RegisterBuild(ctrlmetrics.Registry, metrics.ComponentManager) },
		func(ctrl.Manager) error {
			return metrics.RegisterExpiration(ctrlmetrics.Registry, metrics.CertificateCA, wiring.renewer.CAExpires)
		},
	}
}

// parts are what the controllers share.
type parts struct {
	agents      agentclient.Agents
	use         *node.Use
	paths       *node.Paths
	pool        *agentpoll.Pool
	peers       peer.Options
	gatewayCost *gatewaycost.Watch
	renewer     *pki.Renewer
	transfers   transfer.Options
	deliveries  delivery.Options
	endpoints   httpendpoint.Options
	trials      trial.Options
	queues      queue.Options
	stores      objectstore.Options
	books       *statement.Books
	receiptKeys *receiptkey.Store
}

func newAuthority(mgr ctrl.Manager, s settings) *pki.Authority {
	return pki.NewAuthority(pki.Options{
		Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Clock: clock.RealClock{},
		Namespace: s.namespace, SecretName: s.caSecret, Cluster: s.cluster,
	})
}

// newParts makes them. shares is where agents draw shares of accelerators; empty: they do not.
func newParts(mgr ctrl.Manager, s settings, seen *topology.Topology, shares string) parts {
	real := clock.RealClock{}
	reader := s.watched.Reader(mgr.GetAPIReader(), mgr.GetClient())
	authority := pki.NewAuthority(pki.Options{
		Client: mgr.GetClient(), Reader: reader, Clock: real,
		Namespace: s.namespace, SecretName: s.caSecret, Cluster: s.cluster, Recorder: mgr.GetEventRecorder("lighterage-pki"),
	})
	holder := pki.NewHolder(authority, pki.ManagerPath, managerCertificateLifetime)
	use, paths := node.NewUse(real), node.NewPaths()
	asking := agentclient.Options{Credentials: holder}
	if shares != "" {
		asking.Weights = node.Weights(mgr.GetClient())
	}
	agents := use.Listen(agentclient.NewAgents(asking))
	pool := agentpoll.New(ctrlmetrics.Registry)
	gateways := agentclient.NewPeerGateway(agentclient.Options{Credentials: holder})
	networks := &networkpolicy.Keeper{Client: mgr.GetClient(), Reader: reader, Shares: shares != ""}
	if s.networkPolicies {
		networks.OperatorNamespace = s.namespace
	}
	attempts := agentjob.NewCluster(agentjob.Options{
		Client: mgr.GetClient(), Reader: reader, Authority: authority, Lifetime: s.runLifetime, Networks: networks,
	})
	image := agentpod.Image{
		Name: s.agentImage, PullPolicy: corev1.PullPolicy(s.agentPullPolicy), Architectures: s.agentArchitectures,
		DataPath: s.dataPath, Tunnels: route.Own(s.namespace), Shares: shares,
	}
	permitted := egress.NewCluster(egress.Options{
		Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Clock: real, Configured: s.clusterCIDRs,
	})
	keys := receiptkey.New(receiptkey.Options{
		Client: mgr.GetClient(), Reader: reader, Clock: real, Namespace: s.namespace, Cluster: s.cluster,
	})
	books := statement.New(statement.Options{
		Client: mgr.GetClient(), Reader: reader, Topology: seen, Metrics: metrics.NewStatements(ctrlmetrics.Registry),
		Clock: real, Months: s.statementMonths,
	})
	return parts{
		books:       books,
		receiptKeys: keys,
		agents:      agents,
		use:         use,
		paths:       paths,
		pool:        pool,
		peers: peer.Options{
			Gateways: gateways, Tunnels: image.Tunnels,
			Controls: func(ctx context.Context, name string) (reverse.State, error) {
				pair, _, err := holder.Certificate(ctx)
				if err != nil {
					return reverse.State{}, err
				}
				return reverse.Ask(ctx, image.Tunnels, name, pair)
			},
		},
		gatewayCost: &gatewaycost.Watch{Reader: reader, Namespace: s.namespace, Clock: real, Tell: seen.SetGateway},
		renewer:     &pki.Renewer{Authority: authority, Clock: real, Lifetime: s.servingLifetime},
		transfers: transfer.Options{
			Client: mgr.GetClient(), Reader: reader, Gateways: gateways, Attempts: attempts, Keys: keys,
			Reports: agentjob.Reports(pool, "transfer", agents), Agents: agents,
			Recorder: mgr.GetEventRecorder("lighterage-transfer"), Metrics: metrics.NewTransfers(ctrlmetrics.Registry),
			Clock: real, Measured: paths.Measured,
			Topology: seen, Egress: permitted, Books: books, Cluster: s.cluster, Image: image, Concurrency: s.concurrency,
			Limits: s.limits,
		},
		deliveries: delivery.Options{
			Client: mgr.GetClient(), Reader: reader, Reports: agentjob.Reports(pool, "delivery", agents), Attempts: attempts,
			Keys:     keys,
			Recorder: mgr.GetEventRecorder("lighterage-delivery"), Uses: audit.NewUses(mgr.GetLogger(), ctrlmetrics.Registry),
			Metrics: metrics.NewDeliveries(ctrlmetrics.Registry), Clock: real,
			Topology: seen, Books: books, Cluster: s.cluster, Image: image, Retention: s.retention, Concurrency: s.concurrency,
		},
		trials: trial.Options{
			Client: mgr.GetClient(), Reports: agentjob.Reports(pool, "trial", agents), Attempts: attempts,
			Recorder: mgr.GetEventRecorder("lighterage-trial"), Clock: real,
			Topology: seen, Cluster: s.cluster, Image: image, Concurrency: s.concurrency,
		},
		stores: objectstore.Options{
			Client: mgr.GetClient(), Attempts: attempts, Egress: permitted,
			Recorder: mgr.GetEventRecorder("lighterage-objectstore"),
			Metrics:  metrics.NewObjectStores(ctrlmetrics.Registry), Clock: real, Cluster: s.cluster,
			OperatorNamespace: s.namespace, Image: image, Concurrency: s.concurrency,
		},
		endpoints: httpendpoint.Options{
			Client: mgr.GetClient(), Reader: reader, Reports: httpendpoint.Reports(pool, agents), Authority: authority,
			Lifetime: s.servingLifetime,
			Networks: networks, Recorder: mgr.GetEventRecorder("lighterage-httpendpoint"),
			Metrics: metrics.NewHTTPEndpoints(ctrlmetrics.Registry, real.Now()), Clock: real, Egress: permitted,
			Topology: seen, Cluster: s.cluster, Image: image, Concurrency: s.concurrency,
		},
		queues: queue.Options{
			Client: mgr.GetClient(), Reader: reader, Reports: queue.Reports(pool, agents), Authority: authority,
			Lifetime: s.servingLifetime,
			Networks: networks, Recorder: mgr.GetEventRecorder("lighterage-queue"),
			Metrics: metrics.NewQueues(ctrlmetrics.Registry, real.Now()), Clock: real,
			Egress:   permitted,
			Topology: seen, Books: books, Cluster: s.cluster, Image: image, Concurrency: s.concurrency,
		},
	}
}
