// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
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
}

func newPlugin(streams genericiooptions.IOStreams) *plugin {
	flags := genericclioptions.NewConfigFlags(false)
	// The names of some of these mean the service of a Queue in queue commands; the rest have no effect here.
	flags.APIServer, flags.TLSServerName, flags.Insecure, flags.CAFile, flags.ProxyURL = nil, nil, nil, nil, nil
	flags.CertFile, flags.KeyFile, flags.BearerToken = nil, nil, nil
	flags.CacheDir, flags.DisableCompression = nil, nil
	flags.Timeout = new("") // 0 means no timeout
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
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		v1alpha1.AddToScheme, appsv1.AddToScheme, authorizationv1.AddToScheme, corev1.AddToScheme,
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

// kind is one whose objects are named on the command line.
type kind struct {
	name string
	// words stand for the kind before a slash; the first is the resource, the second the word that help uses.
	words []string
	// bare: the name may stand alone.
	bare bool
}

var (
	transfers = kind{"Transfer", []string{"transfers", "transfer"}, false}
	trials    = kind{"CompressionTrial", []string{"compressiontrials", "trial", "compressiontrial"}, true}
	queues    = kind{"Queue", []string{"queues", "queue"}, true}
)

// is reports whether a word stands for the kind.
func (k kind) is(word string) bool {
	return slices.Contains(k.words, strings.TrimSuffix(strings.ToLower(word), "."+v1alpha1.GroupVersion.Group))
}

// argument makes an Args that reads the name of an object as KIND/NAME or KIND NAME, and of bare kinds as NAME.
func (k kind) argument(name *string) cobra.PositionalArgs {
	return func(_ *cobra.Command, arguments []string) error {
		word, rest, found := strings.Cut(strings.Join(arguments, "/"), "/")
		form := k.words[1] + "/NAME"
		if k.bare {
			form = "NAME or " + form
		}
		switch {
		case found && k.is(word):
			*name = rest
		case !found && k.bare:
			*name = word
		}
		if *name == "" || strings.Contains(*name, "/") {
			return fmt.Errorf("name one %s as %s, not %q", k.name, form, strings.Join(arguments, " "))
		}
		return nil
	}
}

// get reads an object of the kind from the namespace of the command.
func (p *plugin) get(ctx context.Context, k kind, name string, object client.Object) error {
	if err := p.open(); err != nil {
		return err
	}
	key := client.ObjectKey{Namespace: p.namespace, Name: name}
	err := p.cluster.Get(ctx, key, object)
	switch {
	case err == nil:
		return nil
	case meta.IsNoMatchError(err):
		return fmt.Errorf(
			"this cluster does not have the kinds of Lighterage; install the operator (helm upgrade --install lighterage "+
				"...), or choose another cluster with --context: %w",
			err,
		)
	case apierrors.IsNotFound(err):
		return fmt.Errorf(
			"there is no %s %q in namespace %q; kubectl get %s --all-namespaces lists them, -n chooses the namespace", k.name,
			name, p.namespace, k.words[0],
		)
	case apierrors.IsForbidden(err):
		return fmt.Errorf(
			"you may not read %s %q in namespace %q; ask for a Role there with the verb get on %s of %s: %w", k.name, name,
			p.namespace, k.words[0], v1alpha1.GroupVersion.Group, err,
		)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("the cluster rejects the credentials of the kubeconfig; log in again: %w", err)
	}
	return fmt.Errorf("reading %s %s: %w", k.name, key, err)
}
