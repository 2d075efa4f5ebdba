// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/explain"
	"github.com/lighterage/lighterage/controllers/plan"
)

// requestTimeout bounds each request, so that a cluster that is gone is said to be.
const requestTimeout = 30 * time.Second

// streams of the program: what it reads, what it is asked for, and what else there is to say.
type streams struct {
	in       io.Reader
	out, say io.Writer
}

func run(ctx context.Context, arguments []string, program streams) error {
	out := program.out
	s, err := parse(arguments, out)
	if err != nil {
		return err
	}
	if s.version {
		_, err := fmt.Fprintln(out, version())
		return err
	}
	if s.queue.verb != "" {
		return runQueue(ctx, s, program)
	}
	cluster, namespace, err := connect(s)
	if err != nil {
		return err
	}
	if s.trial != "" {
		return report(ctx, cluster, client.ObjectKey{Namespace: namespace, Name: s.trial}, s.output, out)
	}
	in, err := gather(ctx, cluster, client.ObjectKey{Namespace: namespace, Name: s.transfer})
	if err != nil {
		return err
	}
	explanation, err := explain.Explain(in)
	if err != nil {
		return err
	}
	if s.output == "text" {
		return explanation.WriteText(out)
	}
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(explanation); err != nil {
		return fmt.Errorf("writing the explanation: %w", err)
	}
	return nil
}

// connect makes a client of the cluster that the kubeconfig says, with the user's rights, and tells the namespace.
func connect(s settings) (client.Client, string, error) {
	loader := kubeconfigOf(s)
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, "", unreadable(err)
	}
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, "", unreadable(err)
	}
	cluster, err := newClient(config)
	return cluster, namespace, err
}

func kubeconfigOf(s settings) clientcmd.ClientConfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = s.kubeconfig
	overrides := &clientcmd.ConfigOverrides{CurrentContext: s.context}
	overrides.Context.Namespace = s.namespace
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
}

func newClient(config *rest.Config) (client.Client, error) {
	config = rest.CopyConfig(config)
	config.Timeout = requestTimeout
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, corev1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("building the scheme: %w", err)
		}
	}
	cluster, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return cluster, nil
}

// unreadable says what is wrong with the kubeconfig.
func unreadable(err error) error {
	if clientcmd.IsEmptyConfig(err) {
		return errors.New("there is no kubeconfig that names a cluster; name one with --kubeconfig or in $KUBECONFIG")
	}
	return fmt.Errorf("reading the kubeconfig: %w", err)
}

// gather reads a Transfer and what is known of the nodes of both sides.
func gather(ctx context.Context, cluster client.Client, key client.ObjectKey) (explain.Input, error) {
	in := explain.Input{Transfer: &v1alpha1.Transfer{}}
	if err := cluster.Get(ctx, key, in.Transfer); err != nil {
		return in, refused(err, "Transfer", "transfers", key)
	}
	run := in.Transfer.Status.Run
	if run == nil {
		return in, nil
	}
	var err error
	if in.Sender, in.SenderUnknown, err = profile(ctx, cluster, run.Node); err != nil {
		return in, err
	}
	node, why, err := receiver(ctx, cluster, in.Transfer)
	if err != nil || why != "" {
		in.ReceiverUnknown = why
		return in, err
	}
	in.Receiver, in.ReceiverUnknown, err = profile(ctx, cluster, node)
	return in, err
}

// refused says why there is no such object, and what to do.
func refused(err error, kind, resource string, key client.ObjectKey) error {
	switch {
	case meta.IsNoMatchError(err):
		return fmt.Errorf("this cluster does not have Lighterage's kinds; install the operator (helm upgrade --install lighterage ...), or choose another cluster with --context: %w", err)
	case apierrors.IsNotFound(err):
		return fmt.Errorf("there is no %s %q in namespace %q; kubectl get %s --all-namespaces lists them, -n chooses the namespace", kind, key.Name, key.Namespace, resource)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("you may not read %s %q in namespace %q; ask for a Role there with the verb get on %s of lighterage.dev: %w", kind, key.Name, key.Namespace, resource, err)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("the cluster does not accept the credentials of the kubeconfig; log in anew: %w", err)
	}
	return fmt.Errorf("reading %s %s: %w", kind, key, err)
}

// profile is the NodeProfile of a node. Where it cannot be read for a reason that leaves enough to say, unknown says why.
func profile(ctx context.Context, cluster client.Client, node string) (found *v1alpha1.NodeProfile, unknown string, err error) {
	if node == "" {
		return nil, "the node is not known yet", nil
	}
	found = &v1alpha1.NodeProfile{}
	err = cluster.Get(ctx, client.ObjectKey{Name: node}, found)
	switch {
	case err == nil && len(found.Status.Engines) == 0:
		return nil, fmt.Sprintf("the NodeProfile of node %s has no measurement yet; kubectl describe nodeprofile %s says why", node, node), nil
	case err == nil:
		return found, "", nil
	case apierrors.IsForbidden(err):
		return nil, fmt.Sprintf("you may not read the NodeProfile of node %s; ask for a ClusterRole with the verb get on nodeprofiles of lighterage.dev", node), nil
	case apierrors.IsNotFound(err):
		return nil, fmt.Sprintf("there is no NodeProfile of node %s; the node is gone, or the node agent does not run there", node), nil
	}
	return nil, "", fmt.Errorf("reading NodeProfile %s: %w", node, err)
}

// receiver is the node that received; unknown says why it is not known.
func receiver(ctx context.Context, cluster client.Client, transfer *v1alpha1.Transfer) (node, unknown string, err error) {
	run := transfer.Status.Run
	switch {
	case !plan.IsLocal(transfer):
		return "", fmt.Sprintf("the receiver is in the cluster of Peer %s, whose NodeProfiles this cluster does not have", transfer.Spec.Destination.Peer), nil
	case run.Route == v1alpha1.RoutePod:
		return run.Node, "", nil
	}
	key := client.ObjectKey{Namespace: transfer.Spec.Destination.Namespace}
	if key.Namespace == "" {
		key.Namespace = transfer.Namespace
	}
	key.Name = plan.DeliveryName("", v1alpha1.TransferReference{Namespace: transfer.Namespace, Name: transfer.Name, Run: run.ID, Attempt: run.Attempt})
	var delivery v1alpha1.Delivery
	err = cluster.Get(ctx, key, &delivery)
	switch {
	case apierrors.IsForbidden(err):
		return "", fmt.Sprintf("you may not read Delivery %s, which names the receiver's node; ask for a Role there with the verb get on deliveries of lighterage.dev", key), nil
	case apierrors.IsNotFound(err):
		return "", fmt.Sprintf("Delivery %s, which named the receiver's node, is gone", key), nil
	case err != nil:
		return "", "", fmt.Errorf("reading Delivery %s: %w", key, err)
	case delivery.Status.Run == nil:
		return "", fmt.Sprintf("Delivery %s does not name the receiver's node yet", key), nil
	}
	return delivery.Status.Run.Node, "", nil
}
