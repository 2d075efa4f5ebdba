// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/table"
)

const (
	// maxLogLine is how long a line of a log may be; what is longer is shown as several.
	maxLogLine = 64 << 10
	// logRole is what to ask for.
	logRole = "ask for a Role there with the verbs list on pods and get on pods/log"
)

// logged are the kinds that have agents, and labelled the labels of these.
var (
	logged   = kinds{transfers, deliveries, trials, queues, endpoints}
	labelled = map[string]string{
		transfers.name: v1alpha1.TransferLabel, deliveries.name: v1alpha1.DeliveryLabel, trials.name: v1alpha1.TrialLabel,
		queues.name: v1alpha1.QueueLabel, endpoints.name: v1alpha1.HTTPEndpointLabel,
	}
)

type logging struct {
	*plugin

	kind     kind
	name     string
	follow   bool
	previous bool
	pod      string
	tail     int
}

func newLogs(p *plugin) *cobra.Command {
	l := &logging{plugin: p}
	cmd := &cobra.Command{
		Use:   "logs KIND/NAME",
		Short: "Show the logs of the agents of a Transfer, Delivery, CompressionTrial, Queue or HTTPEndpoint",
		Long: `Show the logs of the agents of an object, oldest pod first; lines begin with the name of the pod where there are
several. With --follow, show those of the newest pod, and what it goes on to write. With --pod, show those of one pod,
and with --previous those of containers that ended before the present ones. Pods of attempts that succeeded are deleted
when status has their report, and their logs with them.

It takes get on the object, list on pods and get on pods/log in its namespace.`,
		Example: `  kubectl lighterage logs transfer/ledger -n bank
  kubectl lighterage logs queue/orders -n bank --tail 100
  kubectl lighterage logs queue/orders -n bank --pod orders-0 --previous
  kubectl lighterage logs delivery/ledger-7f3c-1-0a1b2c3d -n bank --follow`,
		Args: logged.argument(&l.kind, &l.name), ValidArgsFunction: logged.complete(p), RunE: action(l.run),
	}
	flags := cmd.Flags()
	flags.BoolVarP(&l.follow, "follow", "f", false, "show what the newest pod goes on to write")
	flags.StringVar(&l.pod, "pod", "", "`name` of the pod whose log to show")
	flags.BoolVarP(&l.previous, "previous", "p", false, "show what containers wrote that ended before the present ones")
	cmd.MarkFlagsMutuallyExclusive("follow", "previous")
	completeFlag(cmd, "pod", l.completePod)
	flags.IntVar(&l.tail, "tail", maxLogLines, "how many `lines` of each pod to show")
	return cmd
}

// completePod completes names of the object's pods.
func (l *logging) completePod(
	cmd *cobra.Command, arguments []string, _ string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	if err := logged.argument(&l.kind, &l.name)(cmd, arguments); err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
	defer cancel()
	pods, err := l.pods(ctx)
	if err != nil {
		cobra.CompErrorln(err.Error())
		return nil, cobra.ShellCompDirectiveError
	}
	var names []cobra.Completion
	for i := range pods {
		names = append(names, pods[i].Name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// pods are those of the object, oldest first.
func (l *logging) pods(ctx context.Context) ([]corev1.Pod, error) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(l.kind.name))
	if err := l.get(ctx, l.kind, l.name, object); err != nil {
		return nil, err
	}
	label := labelled[l.kind.name]
	if several, _, _ := unstructured.NestedSlice(object.Object, "spec", "destinations"); len(several) > 0 {
		label = v1alpha1.DestinationsLabel // object stores among them have pods of their own
	}
	var found corev1.PodList
	err := l.cluster.List(
		ctx, &found, client.InNamespace(l.namespace),
		client.MatchingLabels{label: string(object.GetUID())}, client.Limit(maxLogPods),
	)
	switch {
	case apierrors.IsForbidden(err):
		return nil, fmt.Errorf("you may not list pods in namespace %q; %s: %w", l.namespace, logRole, err)
	case err != nil:
		return nil, fmt.Errorf("listing pods in namespace %s: %w", l.namespace, err)
	}
	slices.SortFunc(found.Items, func(a, b corev1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return found.Items, nil
}

func (l *logging) run(ctx context.Context) error {
	pods, err := l.pods(ctx)
	if err != nil {
		return err
	}
	if len(pods) == 0 {
		return fmt.Errorf(
			"%s %s/%s has no pods; those of attempts that succeeded are deleted when status has their report", l.kind.name,
			l.namespace, l.name,
		)
	}
	if l.pod != "" {
		names := make([]string, 0, len(pods))
		for i := range pods {
			names = append(names, pods[i].Name)
		}
		i := slices.Index(names, l.pod)
		if i < 0 {
			return fmt.Errorf("%s %s/%s has no pod %q; its pods are %s", l.kind.name, l.namespace, l.name, l.pod,
				table.Printable(strings.Join(names, ", ")))
		}
		pods = pods[i : i+1]
	}
	if l.previous {
		pods = slices.DeleteFunc(pods, func(p corev1.Pod) bool { return !hasRestarted(&p) })
		if len(pods) == 0 {
			return fmt.Errorf("no agent of %s %s/%s was restarted in its pod; leave out --previous", l.kind.name, l.namespace,
				l.name)
		}
	}
	if l.follow {
		pods = pods[len(pods)-1:]
	}
	config := rest.CopyConfig(l.config)
	if l.follow {
		config.Timeout = 0
	}
	caller, err := rest.HTTPClientFor(config)
	if err != nil {
		return fmt.Errorf("making a client of the cluster: %w", err)
	}
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return fmt.Errorf("making a client of the cluster: %w", err)
	}
	var failures []error
	for i := range pods {
		prefix := ""
		if len(pods) > 1 {
			prefix = pods[i].Name + "  "
		}
		if err := l.copyLog(ctx, caller, base, &pods[i], prefix); err != nil {
			failures = append(failures, fmt.Errorf("reading the log of %s: %w", pods[i].Name, err))
		}
		if ctx.Err() != nil {
			break
		}
	}
	if l.follow && ctx.Err() != nil {
		return nil //nolint:nilerr // following ends when it is interrupted
	}
	return errors.Join(failures...)
}

// hasRestarted reports whether the agent of a pod has run before.
func hasRestarted(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
		return c.Name == agentpod.ContainerName && c.RestartCount > 0
	})
}

// copyLog writes the log of a pod line by line.
func (l *logging) copyLog(
	ctx context.Context, caller *http.Client, base *url.URL, pod *corev1.Pod, prefix string,
) error {
	query := url.Values{"container": {agentpod.ContainerName}, "tailLines": {strconv.Itoa(l.tail)}}
	if l.follow {
		query.Set("follow", "true")
	} else {
		query.Set("limitBytes", strconv.Itoa(maxLogBytes))
	}
	if l.previous {
		query.Set("previous", "true")
	}
	at := base.JoinPath("api", "v1", "namespaces", pod.Namespace, "pods", pod.Name, "log")
	at.RawQuery = query.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), http.NoBody)
	if err != nil {
		return err //nolint:wrapcheck // the caller says of which pod
	}
	answer, err := caller.Do(request)
	if err != nil {
		return err //nolint:wrapcheck // the caller says of which pod
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		var why metav1.Status
		_ = json.NewDecoder(io.LimitReader(answer.Body, maxLogLine)).Decode(&why) // the code says enough
		advice := ""
		if answer.StatusCode == http.StatusForbidden {
			advice = "; " + logRole
		}
		return errors.New(table.Printable(cmp.Or(why.Message, answer.Status)) + advice)
	}
	lines := bufio.NewReaderSize(answer.Body, maxLogLine)
	for {
		line, _, err := lines.ReadLine()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err //nolint:wrapcheck // the caller says of which pod
		}
		if _, err := fmt.Fprintln(l.Out, prefix+table.Printable(string(line))); err != nil {
			return fmt.Errorf("writing the output: %w", err)
		}
	}
}
