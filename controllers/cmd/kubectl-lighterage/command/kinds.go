// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// kind is one whose objects are named on the command line.
type kind struct {
	name string
	// words stand for the kind before a slash; the first is the resource, the second the word that help uses.
	words []string
	// bare: the name may stand alone.
	bare bool
	// cluster: its objects are in no namespace.
	cluster bool
}

// The kinds of the API. A test holds that none is missing from allKinds, and that resources and scopes are right.
var (
	transfers  = kind{name: "Transfer", words: []string{"transfers", "transfer"}}
	deliveries = kind{name: "Delivery", words: []string{"deliveries", "delivery"}}
	trials     = kind{
		name: "CompressionTrial", words: []string{"compressiontrials", "trial", "compressiontrial"}, bare: true,
	}
	queues    = kind{name: "Queue", words: []string{"queues", "queue"}, bare: true}
	drills    = kind{name: "Drill", words: []string{"drills", "drill"}}
	endpoints = kind{name: "HTTPEndpoint", words: []string{"httpendpoints", "httpendpoint"}}

	allKinds = kinds{
		transfers,
		{name: "TransferSet", words: []string{"transfersets", "transferset"}},
		deliveries, trials, drills, queues, endpoints,
		{name: "ObjectStore", words: []string{"objectstores", "objectstore"}},
		{name: "CompressionPolicy", words: []string{"compressionpolicies", "policy", "compressionpolicy"}, cluster: true},
		{
			name:  "LocalCompressionPolicy",
			words: []string{"localcompressionpolicies", "localpolicy", "localcompressionpolicy"},
		},
		{name: "Tariff", words: []string{"tariffs", "tariff"}, cluster: true},
		{name: "Statement", words: []string{"statements", "statement"}},
		{name: "DataQuota", words: []string{"dataquotas", "dataquota", "dq"}},
		{name: "NodeProfile", words: []string{"nodeprofiles", "nodeprofile"}, cluster: true},
		{name: "Peer", words: []string{"peers", "peer"}, cluster: true},
		{name: "PeerGrant", words: []string{"peergrants", "peergrant"}},
	}
)

// kinds are those of which a command takes one.
type kinds []kind

// named is the kind that a word such as transfer/ledger begins with.
func (ks kinds) named(word string) (kind, bool) {
	before, _, _ := strings.Cut(word, "/")
	i := slices.IndexFunc(ks, func(k kind) bool { return k.is(before) })
	if i < 0 {
		return kind{}, false
	}
	found := ks[i]
	found.bare = false
	return found, true
}

// forms are how objects of the kinds are named.
func (ks kinds) forms() string {
	var forms []string
	for _, k := range ks {
		forms = append(forms, k.words[1]+"/NAME")
	}
	return strings.Join(forms, ", ")
}

// argument makes an Args that reads the kind and the name of an object as KIND/NAME or KIND NAME.
func (ks kinds) argument(of *kind, name *string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, arguments []string) error {
		found, ok := ks.named(strings.Join(arguments, "/"))
		if !ok {
			return fmt.Errorf("name one of %s, not %q", ks.forms(), strings.Join(arguments, " "))
		}
		*of = found
		return found.argument(name)(cmd, arguments)
	}
}

// complete makes the ValidArgsFunction of a command whose argument is an object of one of the kinds: first the kind,
// then the name.
func (ks kinds) complete(p *plugin) cobra.CompletionFunc {
	return func(cmd *cobra.Command, arguments []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if k, ok := ks.named(strings.Join(append(arguments[:len(arguments):len(arguments)], typed), "/")); ok {
			return p.complete(k)(cmd, arguments, typed)
		}
		if len(arguments) > 0 || strings.Contains(typed, "/") {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var words []cobra.Completion
		for _, k := range ks {
			words = append(words, k.words[1]+"/")
		}
		return words, cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
	}
}

// knownKinds are the names of those that this plugin knows.
func knownKinds() []string {
	var names []string
	for _, k := range allKinds {
		names = append(names, k.name)
	}
	slices.Sort(names)
	return names
}

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
	if k.cluster {
		key.Namespace = ""
	}
	if err := p.cluster.Get(ctx, key, object); err != nil {
		return k.unread(key, err)
	}
	return nil
}

// unread says why an object of the kind was not read, and what to do.
func (k kind) unread(key client.ObjectKey, err error) error {
	switch {
	case meta.IsNoMatchError(err):
		return fmt.Errorf(
			"this cluster does not have the kinds of Lighterage; install the operator (helm upgrade --install lighterage "+
				"...), or choose another cluster with --context: %w",
			err,
		)
	case apierrors.IsNotFound(err) && k.cluster:
		return fmt.Errorf("there is no %s %q; kubectl get %s lists them: %w", k.name, key.Name, k.words[0], err)
	case apierrors.IsNotFound(err):
		return fmt.Errorf(
			"there is no %s %q in namespace %q; kubectl get %s --all-namespaces lists them, -n chooses the namespace: %w",
			k.name, key.Name, key.Namespace, k.words[0], err,
		)
	case apierrors.IsForbidden(err) && k.cluster:
		return fmt.Errorf(
			"you may not read %s %q; ask for a ClusterRole with the verb get on %s of %s: %w", k.name, key.Name, k.words[0],
			v1alpha1.GroupVersion.Group, err,
		)
	case apierrors.IsForbidden(err):
		return fmt.Errorf(
			"you may not read %s %q in namespace %q; ask for a Role there with the verb get on %s of %s: %w", k.name, key.Name,
			key.Namespace, k.words[0], v1alpha1.GroupVersion.Group, err,
		)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("the cluster rejects the credentials of the kubeconfig; log in again: %w", err)
	}
	return fmt.Errorf("reading %s %s: %w", k.name, strings.TrimPrefix(key.String(), "/"), err)
}
