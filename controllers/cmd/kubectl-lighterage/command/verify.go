// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/link"
	"github.com/lighterage/lighterage/controllers/route"
	"github.com/lighterage/lighterage/controllers/table"
)

var (
	// verifyPoll is how often verify looks; cleanWait is how long it waits for the end of its namespaces, and cleanNotice
	// how often it says what that takes. Tests shorten them.
	verifyPoll, cleanWait, cleanNotice = time.Second, 3 * time.Minute, 15 * time.Second

	leastSize, mostSize = resource.MustParse("1Mi"), resource.MustParse("1Ti")
)

type verifying struct {
	pair
	size    string
	bytes   int64
	classes [2]string
	wait    time.Duration
	output  choice

	namespace string
	images    [2]string // of agents
}

// flow is one direction.
type flow struct {
	From string `json:"from"`
	To   string `json:"to"`
	// Skipped says why nothing was moved.
	Skipped        string `json:"skipped,omitempty"`
	Bytes          int64  `json:"bytes,omitempty"`
	BytesPerSecond int64  `json:"bytesPerSecond,omitempty"`
	Duration       string `json:"duration,omitempty"`
	Engine         string `json:"engine,omitempty"`
	// Inflated is why the receiver inflated as it did.
	Inflated string                `json:"inflated,omitempty"`
	Usage    *v1alpha1.UsageStatus `json:"usage,omitempty"`
	Cost     *v1alpha1.CostStatus  `json:"cost,omitempty"`
}

func newVerify(p *plugin) *cobra.Command {
	v := &verifying{pair: pair{plugin: p}, output: choice{"text", "json", "yaml"}}
	cmd := v.output.addTo(&cobra.Command{
		Use:   "verify --to CONTEXT",
		Short: "Move real data between two joined clusters, both ways, and clean up",
		Long: `Move real data between two clusters that are joined, in each direction that their Peers allow, and show rate, CPU time
and cost. What arrives is verified by digest.

It makes a namespace lighterage-verify-... in both clusters, with claims, a pod that writes test data (half like logs,
half random), a PeerGrant and a Transfer. It deletes both namespaces at the end, also after a failure and Ctrl-C, and
waits until they are gone. To look at what is left after the program itself was killed:
kubectl get namespaces -l ` + link.MadeByLabel + `=` + link.MadeByVerify + `

It takes, in both clusters, get and list on peers; get on the namespace kube-system, and on the ConfigMap lighterage-ca
and the Deployment lighterage-manager of the operator's namespace; create, get and delete on namespaces; and, in all
namespaces, create on persistentvolumeclaims, peergrants, pods and transfers, and get on pods and transfers.`,
		Example: `  kubectl lighterage verify --context east --to west
  kubectl lighterage verify --context east --to west --size 1Gi -o json`,
		Args: cobra.NoArgs, PreRunE: v.check, RunE: action(v.run),
	})
	flags := cmd.Flags()
	flags.StringVar(&v.to, "to", "", "`context` of the other cluster, in the same kubeconfig")
	v.addOperators(cmd)
	flags.StringVar(&v.size, "size", "64Mi", "how much to move in each direction, as a `quantity`")
	flags.StringVar(&v.classes[0], "storage-class", "", "`StorageClass` of claims in --context (default: its default)")
	flags.StringVar(&v.classes[1], "to-storage-class", "", "`StorageClass` of claims in --to (default: its default)")
	flags.DurationVar(&v.wait, "wait", 10*time.Minute, "how long a direction may take")
	completeFlag(cmd, "to", p.completeContext)
	return cmd
}

func (v *verifying) check(cmd *cobra.Command, arguments []string) error {
	size, err := resource.ParseQuantity(v.size)
	if err != nil || size.Cmp(leastSize) < 0 || size.Cmp(mostSize) > 0 {
		return fmt.Errorf("--size must be a quantity from %s to %s, such as 1Gi, not %q", &leastSize, &mostSize, v.size)
	}
	v.bytes = size.Value()
	if v.wait <= 0 {
		return fmt.Errorf("--wait must be more than 0, and is %s", v.wait)
	}
	return v.pair.check(cmd, arguments)
}

// rights that verifying takes in a cluster.
func (v *verifying) rights(s *side) []right {
	group := v1alpha1.GroupVersion.Group
	return append(s.readRights(), []right{
		{group: "apps", resource: "deployments", verb: "get", namespace: s.operator, name: managerDeployment},
		{resource: "namespaces", verb: "create"}, {resource: "namespaces", verb: "get"},
		{resource: "namespaces", verb: "delete"}, {resource: "persistentvolumeclaims", verb: "create"},
		{resource: "pods", verb: "create"}, {resource: "pods", verb: "get"},
		{group: group, resource: "peergrants", verb: "create"}, {group: group, resource: "transfers", verb: "create"},
		{group: group, resource: "transfers", verb: "get"},
	}...)
}

func (v *verifying) run(ctx context.Context) (err error) {
	if err := v.open(ctx, v.rights); err != nil {
		return err
	}
	peers, err := v.joined()
	if err != nil {
		return err
	}
	for i, s := range v.sides {
		if v.images[i], err = s.verifiable(ctx); err != nil {
			return err
		}
	}
	token := make([]byte, 4)
	_, _ = rand.Read(token) // it never fails
	v.namespace = "lighterage-verify-" + hex.EncodeToString(token)
	defer func() { err = errors.Join(err, v.clean(context.WithoutCancel(ctx))) }()
	for _, s := range v.sides {
		v.say("Cluster %s: making namespace %s", s.context, v.namespace)
		// It is not broken off: a request that an API server acts upon after that of clean would leave the namespace.
		if err := s.cluster.Create(context.WithoutCancel(ctx), throwAway(v.namespace)); err != nil {
			return s.failed("making namespace "+v.namespace, err)
		}
	}
	var flows []flow
	for i := range v.sides {
		f, err := v.move(ctx, i, peers)
		if err != nil {
			return err
		}
		flows = append(flows, f)
	}
	text := func(to io.Writer) error { return writeFlows(to, flows, columns(v.plugin.Out)) }
	return v.output.write(v.plugin.Out, flows, text)
}

// joined are the Peers by which each cluster knows the other one.
func (v *verifying) joined() ([2]*v1alpha1.Peer, error) {
	var peers [2]*v1alpha1.Peer
	sending := false
	for i, s := range v.sides {
		other := v.sides[1-i]
		found, err := link.Find(s.peers, other.bundle)
		if err != nil {
			return peers, fmt.Errorf("cluster %s: reading its CA: %w", other.context, err)
		}
		join := "join them with kubectl lighterage connect " + v.contexts()
		switch {
		case len(found) == 0:
			return peers, fmt.Errorf("cluster %s has no Peer for cluster %s; %s", s.context, other.context, join)
		case len(found) > 1:
			return peers, fmt.Errorf("cluster %s has %d Peers for cluster %s; delete all but one", s.context, len(found),
				other.context)
		case !link.IsReady(found[0]):
			why := "its manager has not looked at it"
			if c := link.Condition(found[0]); c != nil {
				why = c.Reason + ": " + c.Message
			}
			return peers, fmt.Errorf("cluster %s: Peer %s is not Ready: %s; %s", s.context, found[0].Name, table.Printable(why),
				join)
		}
		peers[i] = found[0]
		sending = sending || route.Reaches(found[0])
	}
	if !sending {
		return peers, errors.New("neither Peer has an endpoint, so nothing can be sent; give one with kubectl lighterage " +
			"connect")
	}
	return peers, nil
}

// move moves data from a cluster to the other one.
func (v *verifying) move(ctx context.Context, from int, peers [2]*v1alpha1.Peer) (flow, error) {
	sender, receiver := v.sides[from], v.sides[1-from]
	f := flow{From: sender.context, To: receiver.context}
	if !route.Reaches(peers[from]) {
		f.Skipped = "Peer " + peers[from].Name + " has no endpoint"
		v.say("%s to %s: skipped, %s", f.From, f.To, f.Skipped)
		return f, nil
	}
	ctx, stop := context.WithTimeoutCause(ctx, v.wait, errTooLong)
	defer stop()
	v.say("%s to %s: writing %s of test data", f.From, f.To, table.Bytes(v.bytes))
	pod := filler(v.namespace, v.images[from], v.bytes)
	for _, step := range []struct {
		in     *side
		object client.Object
	}{
		{receiver, claim(v.namespace, "destination", v.classes[1-from], v.bytes)},
		{receiver, grantFor(v.namespace, peers[1-from].Name)},
		{sender, claim(v.namespace, "source", v.classes[from], v.bytes)},
		{sender, pod},
	} {
		if err := step.in.cluster.Create(ctx, step.object); err != nil {
			return f, step.in.failed("making "+step.object.GetName(), err)
		}
	}
	err := v.await(ctx, sender, pod, func() (bool, string, error) { return filled(pod) })
	if err != nil {
		return f, err
	}
	v.say("%s to %s: moving them", f.From, f.To)
	transfer := moving(v.namespace, peers[from].Name)
	if err := sender.cluster.Create(ctx, transfer); err != nil {
		return f, sender.failed("making the Transfer", err)
	}
	if err := v.await(ctx, sender, transfer, func() (bool, string, error) { return moved(transfer) }); err != nil {
		return f, err
	}
	return f, f.fill(transfer, v.bytes)
}

// errTooLong is the cause of a direction that --wait ended.
var errTooLong = errors.New("it took longer than --wait")

// await reads an object until it is done, and says what it waits for whenever that changes.
func (v *verifying) await(
	ctx context.Context, in *side, object client.Object, done func() (bool, string, error),
) error {
	began, last := time.Now(), ""
	for {
		err := in.cluster.Get(ctx, client.ObjectKeyFromObject(object), object)
		if err != nil && ctx.Err() == nil {
			return in.failed("reading "+object.GetName(), err)
		}
		if err == nil {
			ended, state, err := done()
			if err != nil {
				return fmt.Errorf("cluster %s: %w", in.context, err)
			}
			if ended {
				return nil
			}
			if state != last {
				v.say("  %3.0f s  %s", time.Since(began).Seconds(), state)
				last = state
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("cluster %s: %s did not end (%s): %w", in.context, object.GetName(),
				table.Printable(cmp.Or(last, "nothing is known of it")), context.Cause(ctx))
		case <-time.After(verifyPoll):
		}
	}
}

// fill takes the figures of a Transfer that is complete.
func (f *flow) fill(t *v1alpha1.Transfer, wanted int64) error {
	f.Bytes = wanted
	if p := t.Status.Progress; p != nil {
		f.BytesPerSecond = p.BytesPerSecond
		if p.Bytes != wanted {
			return fmt.Errorf("%s to %s: %d bytes arrived, and %d were sent", f.From, f.To, p.Bytes, wanted)
		}
	}
	if r := t.Status.Run; r != nil && r.StartTime != nil && r.CompletionTime != nil {
		f.Duration = r.CompletionTime.Sub(r.StartTime.Time).String()
	}
	if c := t.Status.Compression; c != nil {
		f.Engine = c.Engine
	}
	if d := t.Status.Decompression; d != nil {
		f.Inflated = d.Reason
	}
	f.Usage, f.Cost = t.Status.Usage, t.Status.Cost
	return nil
}

// clean deletes both namespaces and waits until they are gone.
func (v *verifying) clean(ctx context.Context) error {
	ctx, stop := context.WithTimeout(ctx, cleanWait)
	defer stop()
	var errs []error
	for _, s := range v.sides {
		v.say("Cluster %s: deleting namespace %s", s.context, v.namespace)
		if err := client.IgnoreNotFound(s.cluster.Delete(ctx, throwAway(v.namespace))); err != nil {
			errs = append(errs, s.failed("deleting namespace "+v.namespace+"; delete it by hand", err))
		}
	}
	began := time.Now()
	said := began
	for _, s := range v.sides {
		for {
			namespace := throwAway(v.namespace)
			err := s.cluster.Get(ctx, client.ObjectKeyFromObject(namespace), namespace)
			if client.IgnoreNotFound(err) == nil && err != nil {
				break
			}
			if ctx.Err() != nil {
				errs = append(errs, fmt.Errorf("cluster %s: namespace %s was deleted and is not gone after %s; kubectl describe "+
					"namespace %s says what it waits for", s.context, v.namespace, cleanWait, v.namespace))
				break
			}
			if time.Since(said) >= cleanNotice {
				said = time.Now()
				v.say("  %3.0f s  cluster %s: namespace %s is not gone yet%s", said.Sub(began).Seconds(), s.context, v.namespace,
					remains(namespace))
			}
			select {
			case <-ctx.Done():
			case <-time.After(verifyPoll):
			}
		}
	}
	return errors.Join(errs...)
}

// remains says what the end of a namespace waits for, as far as its conditions tell.
func remains(namespace *corev1.Namespace) string {
	text := ""
	for _, c := range namespace.Status.Conditions {
		if c.Status == corev1.ConditionTrue {
			text += "; " + c.Message
		}
	}
	return text
}

// writeFlows writes lines that are broken at width.
func writeFlows(to io.Writer, flows []flow, width int) error {
	var text strings.Builder
	for i := range flows {
		f := &flows[i]
		var rows table.Rows
		if f.Skipped != "" {
			rows.Add("skipped", f.Skipped)
		} else {
			rows.Add("moved", table.Bytes(f.Bytes)+", verified")
			rows.Add("rate", table.Rate(float64(f.BytesPerSecond)))
			rows.Add("time", cmp.Or(f.Duration, "?"))
			rows.Add("engine", cmp.Or(f.Engine, "none"))
			if f.Inflated != "" {
				rows.Add("inflated", f.Inflated)
			}
			if u := f.Usage; u != nil {
				rows.Add("wire", table.Bytes(u.WireBytes))
				rows.Add("CPU", "send "+seconds(u.Send)+", receive "+seconds(u.Receive))
			}
			if c := f.Cost; c != nil && c.Currency != "" {
				rows.Add("cost", c.Currency+" "+cmp.Or(c.CPU, "0")+" CPU, "+cmp.Or(c.Network, "0")+" network")
			}
		}
		fmt.Fprintf(&text, "%s to %s\n%s", table.Printable(f.From), table.Printable(f.To), rows.Text("  "))
	}
	return writeNarrow(to, text.String(), width)
}

// seconds of CPU time of a side, rounded.
func seconds(u *v1alpha1.CPUUsage) string {
	if u == nil {
		return "?"
	}
	value, err := strconv.ParseFloat(u.ProcessSeconds, 64)
	if err != nil {
		return "?"
	}
	return fmt.Sprintf("%.2f s", value)
}

// moved reports whether a Transfer is complete, and what it does.
func moved(t *v1alpha1.Transfer) (done bool, state string, err error) {
	for _, end := range []string{v1alpha1.ConditionComplete, v1alpha1.ConditionFailed} {
		c := meta.FindStatusCondition(t.Status.Conditions, end)
		if c == nil || c.Status != "True" {
			continue
		}
		if end == v1alpha1.ConditionComplete {
			return true, "", nil
		}
		return false, "", fmt.Errorf("the Transfer failed: %s", table.Printable(c.Reason+": "+c.Message))
	}
	state = cmp.Or(string(t.Status.Phase), "the manager has not looked at the Transfer yet")
	if p := t.Status.Progress; p != nil {
		state += fmt.Sprintf(", %d %%", p.Percent)
	}
	if c := meta.FindStatusCondition(t.Status.Conditions, v1alpha1.ConditionStalled); c != nil && c.Status == "True" {
		state += ", " + c.Reason + ": " + c.Message
	}
	return false, state, nil
}
