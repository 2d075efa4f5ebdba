// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Command gateway is the one port through which other clusters reach this one.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/gateway"
	"github.com/lighterage/lighterage/controllers/memory"
	servedmetrics "github.com/lighterage/lighterage/controllers/metrics"
	"github.com/lighterage/lighterage/controllers/pki"
)

// Exit codes.
const (
	exitFailed        = 1
	exitConfiguration = 2
)

// +kubebuilder:rbac:groups=lighterage.dev,resources=peers;peergrants;deliveries;queues,verbs=get;list;watch
// +kubebuilder:rbac:groups=lighterage.dev,resources=deliveries,verbs=create;delete;patch
// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups="",namespace=lighterage-system,resources=configmaps,resourceNames=lighterage-gateway-cost,verbs=get;update
// +kubebuilder:rbac:groups="",namespace=lighterage-system,resources=secrets,resourceNames=lighterage-links,verbs=get;update
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create

func main() {
	settings, err := parse(os.Args[1:], os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(exitConfiguration)
	}
	if settings == nil { // help or the version was asked for
		return
	}
	log := logr.FromSlogHandler(
		slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: slog.Level(-settings.verbosity)}),
	)
	ctrl.SetLogger(log)
	if err := run(settings, log); err != nil {
		log.Error(err, "Gateway ended")
		os.Exit(exitFailed)
	}
}

func run(s *settings, log logr.Logger) error {
	if err := memory.Keep(); err != nil {
		return err
	}
	kubeconfig, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("finding the API server: %w", err)
	}
	ctx := ctrl.SetupSignalHandler()
	mgr, err := newManager(ctx, kubeconfig, s, log)
	if err != nil {
		return err
	}
	log.Info("Gateway starts", "version", wirev1.Version)
	return mgr.Start(ctx)
}

// newManager wires everything.
func newManager(ctx context.Context, kubeconfig *rest.Config, s *settings, log logr.Logger) (ctrl.Manager, error) {
	certificate, err := pki.NewFiles(s.configDirectory)
	if err != nil {
		return nil, fmt.Errorf("taking the gateway's certificate: %w", err)
	}
	scheme := runtime.NewScheme()
	// Of Kubernetes it takes the ConfigMap with what passing bytes costs, and the Secret with link tokens.
	if err := errors.Join(v1alpha1.AddToScheme(scheme), corev1.AddToScheme(scheme)); err != nil {
		return nil, fmt.Errorf("registering the API: %w", err)
	}
	mgr, err := ctrl.NewManager(rest.AddUserAgent(kubeconfig, "lighterage-gateway/"+wirev1.Version), ctrl.Options{
		Scheme: scheme,
		Logger: log,
		Cache: cache.Options{
			DefaultTransform: cache.TransformStripManagedFields(), DefaultNamespaces: s.watched.Cache(),
		},
		NewClient:               s.watched.NewClient,
		Metrics:                 servedmetrics.Serving(s.metricsAddress, certificate.GetCertificate),
		HealthProbeBindAddress:  s.healthAddress,
		GracefulShutdownTimeout: &s.shutdownTimeout,
	})
	if err != nil {
		return nil, fmt.Errorf("connecting to the API server: %w", err)
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return nil, fmt.Errorf("adding the health check: %w", err)
	}
	s.options.Certificate = certificate.GetCertificate
	s.options.Issuer = pki.NewCAFile(filepath.Join(s.configDirectory, pki.ClusterCAKey)).Issuer
	s.options.ChannelKey = pki.NewChannelKeyFile(s.configDirectory).Key
	s.options.Registerer = metrics.Registry
	s.options.Reader = s.watched.Reader(mgr.GetAPIReader(), mgr.GetClient())
	if err := errors.Join(
		servedmetrics.RegisterBuild(metrics.Registry, servedmetrics.ComponentGateway),
		servedmetrics.RegisterExpiration(metrics.Registry, servedmetrics.CertificateGateway, certificate.Expires),
	); err != nil {
		return nil, fmt.Errorf("registering metrics: %w", err)
	}
	return mgr, gateway.Setup(ctx, mgr, s.address, s.tunnelAddress, s.options)
}
