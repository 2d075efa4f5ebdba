// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/table"
)

const (
	componentLabel = "app.kubernetes.io/component"
	nodeAgentLabel = "node-agent"
)

// profilePoll is how often a NodeProfile is read while prove waits. Tests shorten it.
var profilePoll = time.Second

type proving struct {
	*plugin
	node, operator string
	wait           time.Duration
	output         choice
}

// proved is the output for programs.
type proved struct {
	Node string `json:"node"`
	// Proved: every call of the proof bore witness that the accelerator did the work.
	Proved bool `json:"proved"`
	// Evidence is what the node agent measured, just now.
	Evidence v1alpha1.NodeProfileStatus `json:"evidence"`
}

func newProve(p *plugin) *cobra.Command {
	v := &proving{plugin: p, output: choice{"text", "json", "yaml"}}
	cmd := v.output.addTo(&cobra.Command{
		Use:   "prove NODE",
		Short: "Prove the use of a node's accelerator now, and show the evidence",
		Long: `Prove now that the accelerator of a node is used, and show the evidence: the state with its reason, what was seen,
and what each engine does on the node.

The node agent proves and measures when it starts. This command deletes its pod on the node, waits until the one that
replaces it has measured, and shows that NodeProfile. Agents of Transfers, Queues and HTTPEndpoints go on.

The exit code is 1 if the use of an accelerator is not proved. It takes get on nodeprofiles; and, in the operator's
namespace, list and delete on pods.`,
		Example: `  kubectl lighterage prove worker-1
  kubectl lighterage prove worker-1 -o json`,
		Args: v.arguments, ValidArgsFunction: cobra.NoFileCompletions, RunE: action(v.run),
	})
	flags := cmd.Flags()
	flags.StringVar(&v.operator, "operator-namespace", "lighterage-system", "`namespace` of the operator")
	flags.DurationVar(&v.wait, "wait", 5*time.Minute, "how long to wait for the measurement")
	return cmd
}

func (v *proving) arguments(_ *cobra.Command, arguments []string) error {
	if len(arguments) != 1 {
		return errors.New("name one node: prove NODE")
	}
	v.node = arguments[0]
	if problems := validation.IsDNS1123Subdomain(v.node); len(problems) > 0 {
		return fmt.Errorf("%q is no name of a node: %s", v.node, problems[0])
	}
	if v.wait <= 0 {
		return fmt.Errorf("--wait must be more than 0, and is %s", v.wait)
	}
	return nil
}

func (v *proving) run(ctx context.Context) error {
	if err := v.open(); err != nil {
		return err
	}
	before, err := v.profile(ctx)
	if err != nil {
		return err
	}
	if err := v.restart(ctx); err != nil {
		return err
	}
	after, err := v.await(ctx, before)
	if err != nil {
		return err
	}
	a := after.Status.Accelerator
	result := proved{
		Node: v.node, Proved: a != nil && a.State == v1alpha1.AcceleratorVerified, Evidence: after.Status,
	}
	err = v.output.write(v.Out, result, func(to io.Writer) error { return writeProved(to, &result, columns(v.Out)) })
	switch {
	case err != nil || result.Proved:
		return err
	case a == nil || a.State == v1alpha1.AcceleratorAbsent:
		return fmt.Errorf("node %s has no accelerator; it compresses in software", v.node)
	}
	return fmt.Errorf("the use of the accelerator of node %s is not proved: %s; see docs/concepts/hardware.md", v.node,
		table.Printable(cmp.Or(a.Reason, "no reason is given")))
}

func (v *proving) profile(ctx context.Context) (*v1alpha1.NodeProfile, error) {
	profile := &v1alpha1.NodeProfile{}
	err := v.cluster.Get(ctx, client.ObjectKey{Name: v.node}, profile)
	switch {
	case err == nil:
		return profile, nil
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("there is no NodeProfile %q; kubectl get nodeprofiles lists those that exist, and "+
			"kubectl lighterage check says why a node has none", v.node)
	case apierrors.IsForbidden(err):
		return nil, fmt.Errorf("you may not read NodeProfile %s; ask for a ClusterRole with the verb get on nodeprofiles of "+
			"lighterage.dev: %w", v.node, err)
	}
	return nil, fmt.Errorf("reading NodeProfile %s: %w", v.node, err)
}

// restart deletes the pods of the node agent on the node.
func (v *proving) restart(ctx context.Context) error {
	var pods corev1.PodList
	err := v.cluster.List(
		ctx, &pods, client.InNamespace(v.operator), client.MatchingLabels{componentLabel: nodeAgentLabel},
	)
	if err != nil {
		return v.refused("list", err)
	}
	deleted := 0
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.Spec.NodeName != v.node || pod.DeletionTimestamp != nil {
			continue
		}
		err := v.cluster.Delete(ctx, pod, client.Preconditions{UID: &pod.UID})
		if client.IgnoreNotFound(err) != nil {
			return v.refused("delete", err)
		}
		deleted++
		v.say("Pod %s/%s deleted", pod.Namespace, pod.Name)
	}
	if deleted == 0 {
		return fmt.Errorf("no node agent runs on node %s in namespace %s; give the operator's namespace with "+
			"--operator-namespace, or see kubectl -n %s get pods -l %s=%s -o wide", v.node, v.operator, v.operator,
			componentLabel, nodeAgentLabel)
	}
	return nil
}

func (v *proving) refused(verb string, err error) error {
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("you may not %s pods in namespace %s; ask for a Role there with the verbs list and delete on "+
			"pods: %w", verb, v.operator, err)
	}
	return fmt.Errorf("%s pods of the node agent in namespace %s: %w", verb, v.operator, err)
}

// await waits for a measurement that is newer than the one before.
func (v *proving) await(ctx context.Context, before *v1alpha1.NodeProfile) (*v1alpha1.NodeProfile, error) {
	v.say("Waiting up to %s until node %s has been measured", v.wait, v.node)
	began, last := time.Now(), ""
	for {
		profile, err := v.profile(ctx)
		if err != nil {
			return nil, err
		}
		state := unready(profile)
		if state == "" && isNewer(profile, before) {
			return profile, nil
		}
		if state = cmp.Or(state, "not measured again yet"); state != last {
			v.say("  %3.0f s  %s", time.Since(began).Seconds(), state)
			last = state
		}
		if time.Since(began) >= v.wait {
			return nil, fmt.Errorf("node %s was not measured in %s: %s; wait longer with --wait, or see the log of the node "+
				"agent", v.node, v.wait, table.Printable(state))
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("interrupted; the node agent goes on, kubectl describe nodeprofile %s shows its figures: %w",
				v.node, ctx.Err())
		case <-time.After(profilePoll):
		}
	}
}

// isNewer reports whether a node was measured since.
func isNewer(profile, before *v1alpha1.NodeProfile) bool {
	is, was := profile.Status.MeasuredTime, before.Status.MeasuredTime
	return is != nil && (was == nil || was.Before(is))
}

// unready is why a NodeProfile is not Ready; empty if it is.
func unready(profile *v1alpha1.NodeProfile) string {
	c := meta.FindStatusCondition(profile.Status.Conditions, v1alpha1.ConditionReady)
	switch {
	case c == nil:
		return "the manager has not looked at it"
	case c.Status == "True":
		return ""
	}
	return c.Reason
}

// writeProved writes the evidence, then engines with their rates, in lines that are broken at width.
func writeProved(to io.Writer, p *proved, width int) error {
	s := &p.Evidence
	var about, engines table.Rows
	about.Add("node", p.Node)
	if a := s.Accelerator; a != nil {
		about.Add("state", string(a.State))
		about.Add("reason", a.Reason)
		about.Add("seen", a.Message)
		if a.SlowerThanSoftware {
			about.Add("note", "software is faster")
		}
	} else {
		about.Add("state", string(v1alpha1.AcceleratorAbsent))
	}
	about.Add("processor", cmp.Or(s.CPUModel, "?"))
	about.Add("kernel", cmp.Or(s.Kernel, "?"))
	about.Add("image", cmp.Or(s.AgentImage, "?"))
	if s.MeasuredTime != nil {
		about.Add("measured", s.MeasuredTime.UTC().Format(time.RFC3339))
	}
	engines.Add("ENGINE", "VERIFIED", "IN", "OUT", "RATIO")
	for _, e := range s.Engines {
		verified := "no"
		if e.Verified {
			verified = "yes"
		}
		engines.Add(e.Name, verified, table.Rate(float64(e.CompressBytesPerSecond)),
			table.Rate(float64(e.DecompressBytesPerSecond)), e.Ratio)
	}
	return writeNarrow(to, about.Text("")+"\n"+engines.Text(""), width)
}
