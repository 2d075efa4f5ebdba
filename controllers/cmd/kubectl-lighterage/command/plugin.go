// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// requestTimeout bounds each request unless --request-timeout does, so that an unreachable cluster is reported.
const requestTimeout = 30 * time.Second

// init removes the default cluster of the flags, http://localhost:8080: without a kubeconfig there is no cluster.
func init() { clientcmd.ClusterDefaults = clientcmdapi.Cluster{} }

// plugin is what all commands share: the streams, the flags and, after open, the cluster.
type plugin struct {
	genericiooptions.IOStreams
	flags *genericclioptions.ConfigFlags

	config    *rest.Config
	cluster   client.Client
	namespace string
	// quiet: nothing may be written between answers, because a page is shown.
	quiet bool
}

func newPlugin(streams genericiooptions.IOStreams) *plugin {
	flags := genericclioptions.NewConfigFlags(false)
	// The names of some of these mean the service of a Queue in queue commands; the rest have no effect here.
	flags.APIServer, flags.TLSServerName, flags.Insecure, flags.CAFile, flags.ProxyURL = nil, nil, nil, nil, nil
	flags.CertFile, flags.KeyFile, flags.BearerToken = nil, nil, nil
	flags.CacheDir, flags.DisableCompression = nil, nil
	flags.Timeout = new("") // 0 means no timeout
	streams.ErrOut = &serial{to: streams.ErrOut}
	return &plugin{IOStreams: streams, flags: flags}
}

// open makes a client of the cluster that the kubeconfig names, once.
func (p *plugin) open() error {
	if p.cluster != nil {
		return nil
	}
	config, err := p.flags.ToRESTConfig()
	if err == nil {
		p.namespace, _, err = p.flags.ToRawKubeConfigLoader().Namespace()
	}
	switch {
	case clientcmd.IsEmptyConfig(err):
		return errors.New(
			"no kubeconfig names a cluster; give one with --kubeconfig or $KUBECONFIG, or choose one of its contexts with " +
				"--context",
		)
	case err != nil:
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	if *p.flags.Timeout == "" {
		config.Timeout = requestTimeout
	}
	config.Wrap(p.patiently)
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		v1alpha1.AddToScheme, appsv1.AddToScheme, authorizationv1.AddToScheme, batchv1.AddToScheme, corev1.AddToScheme,
		networkingv1.AddToScheme, storagev1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return fmt.Errorf("building the scheme: %w", err)
		}
	}
	cluster, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return fmt.Errorf("making a client of the cluster: %w", err)
	}
	p.config, p.cluster = config, cluster
	return nil
}
