// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/check"
	"github.com/lighterage/lighterage/controllers/plan"
	"github.com/lighterage/lighterage/controllers/table"
)

// Node is an object and what belongs to it. One without a kind is a remark.
type Node struct {
	Kind string `json:"kind,omitempty"`
	// Cluster is that of the object where it is not that of the tree.
	Cluster   string `json:"cluster,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	// Text says how the object is.
	Text     string `json:"text,omitempty"`
	Children []Node `json:"children,omitempty"`
}

// Side are the objects of one cluster that may belong to a Transfer: its own ones, with those of its legs if it has
// several destinations, or those of its Deliveries.
type Side struct {
	Jobs       check.Fact[[]batchv1.Job]
	Pods       check.Fact[[]corev1.Pod]
	Deliveries check.Fact[[]v1alpha1.Delivery]
}

// TreeOf is what belongs to a Transfer: Jobs and pods of its own namespace, and the Deliveries of its present or last
// run with their Jobs and pods, which are in the namespace of the destination. cluster is the name of the other cluster
// if it is another one; without other, nothing is known of it.
func TreeOf(t *v1alpha1.Transfer, own Side, cluster string, other *Side) Node {
	run := OfTransfer(t)
	root := Node{Kind: "Transfer", Namespace: t.Namespace, Name: t.Name, Text: run.summary()}
	if point := t.Status.RecoveryPoint; point != nil {
		root.Text += "  recovery point " + point.UTC().Format(time.RFC3339)
	}
	root.Children = append(staged(t), snapshots(t)...)
	root.Children = append(root.Children, workloads(own, v1alpha1.TransferLabel, string(t.UID), "")...)
	peer := t.Spec.Destination.Peer
	of := v1alpha1.TransferReference{Namespace: t.Namespace, Name: t.Name, Run: run.ID}
	if pull := t.Status.Pull; pull != nil { // by a Transfer of the other cluster, which has another name and run
		peer, of.Namespace, of.Name, of.Run = t.Spec.Source.Peer, plan.PullNamespace(t), pull.Transfer, pull.RunID
		root.Children = append(root.Children, Node{Text: fmt.Sprintf(
			"pulled by Transfer %s/%s in the cluster of Peer %s", of.Namespace, of.Name, peer)})
	}
	switch {
	case len(t.Spec.Destinations) > 0:
		root.Children = append(root.Children, legs(t, own)...)
		return root
	case t.Spec.Source.ObjectStore != nil || t.Spec.Destination.ObjectStore != nil, t.Status.Run == nil,
		t.Status.Run.Route == v1alpha1.RoutePod:
		return root // there is no Delivery
	case other == nil:
		root.Children = append(root.Children, Node{Text: fmt.Sprintf(
			"the Delivery is in the cluster of Peer %s; name its context with --to-context", peer,
		)})
		return root
	case other.Deliveries.Err != nil:
		root.Children = append(root.Children, unread("Deliveries", cluster, other.Deliveries.Err))
		return root
	}
	deliveries := slices.Clone(other.Deliveries.Value)
	slices.SortFunc(deliveries, func(a, b v1alpha1.Delivery) int {
		return cmp.Compare(b.Spec.Transfer.Attempt, a.Spec.Transfer.Attempt)
	})
	found := false
	for i := range deliveries {
		d := &deliveries[i]
		is := d.Spec.Transfer
		if is.Namespace != of.Namespace || is.Name != of.Name || is.Run != of.Run || (d.Spec.Peer == "") != (peer == "") {
			continue
		}
		found = true
		received := OfDelivery(d)
		text := received.summary()
		if d.Spec.Peer != "" {
			text = "from Peer " + d.Spec.Peer + "  " + text
		}
		root.Children = append(root.Children, Node{
			Kind: "Delivery", Cluster: cluster, Namespace: d.Namespace, Name: d.Name, Text: text,
			Children: workloads(*other, v1alpha1.DeliveryLabel, string(d.UID), cluster),
		})
	}
	if !found {
		root.Children = append(root.Children, Node{Cluster: cluster, Text: "no Delivery of run " + of.Run})
	}
	return root
}

// legs are the Transfers of several destinations, by what status shows of them. One to an object store has Jobs and
// pods of its own; the others have those of the whole, and a tree each.
func legs(t *v1alpha1.Transfer, own Side) []Node {
	var nodes []Node
	own.Jobs.Err, own.Pods.Err = nil, nil // the whole says so
	for i := range t.Status.Destinations {
		d := &t.Status.Destinations[i]
		text := cmp.Or(string(d.Phase), string(Waiting))
		if d.RunID != "" {
			text += fmt.Sprintf("  run %s attempt %d  %d%%", d.RunID, d.Attempt, d.Percent)
		}
		if d.Reason != "" && d.Phase != v1alpha1.TransferComplete {
			text += "  " + d.Reason + ": " + d.Message
		}
		leg := Node{
			Kind: "Transfer", Namespace: t.Namespace, Name: d.Transfer,
			Text: "to " + d.Name + " of " + PlaceOf(t, d) + "  " + text,
		}
		if uid := legUID(own.Jobs.Value, d.Transfer); uid != "" {
			leg.Children = workloads(own, v1alpha1.TransferLabel, uid, "")
		}
		nodes = append(nodes, leg)
	}
	return nodes
}

// legUID is the UID of a leg, by the Jobs that it owns; "" if there are none.
func legUID(jobs []batchv1.Job, name string) string {
	for i := range jobs {
		if owner := metav1.GetControllerOf(&jobs[i]); owner != nil && owner.Kind == "Transfer" && owner.Name == name {
			return string(owner.UID)
		}
	}
	return ""
}

// PlaceOf is where one of several destinations is: the Peer, this cluster, or an ObjectStore.
func PlaceOf(t *v1alpha1.Transfer, d *v1alpha1.DestinationStatus) string {
	for i := range t.Spec.Destinations {
		if to := &t.Spec.Destinations[i]; to.Name == d.Name && to.ObjectStore != nil {
			return "ObjectStore " + to.ObjectStore.Name
		}
	}
	return cmp.Or(d.Peer, v1alpha1.ThisCluster)
}

// staged are the snapshot and the claim that the run reads in place of the source, by what status shows of them.
func staged(t *v1alpha1.Transfer) []Node {
	s := t.Status.Staged
	if s == nil {
		return nil
	}
	text := fmt.Sprintf("%s  since %s", s.State, s.StartTime.UTC().Format(time.RFC3339))
	if s.PointInTime != nil {
		text += "  state of " + s.PointInTime.UTC().Format(time.RFC3339)
	}
	var nodes []Node
	if s.Method == v1alpha1.CopySnapshot {
		if peer := t.Spec.Destination.Peer; peer != "" {
			text += "  at peer " + peer
		}
		nodes = append(nodes, Node{
			Kind: "VolumeSnapshot", Namespace: plan.DestinationNamespace(t), Name: s.Name, Text: text,
		})
	}
	if s.Size != nil {
		text += "  " + s.Size.String()
	}
	return append(nodes, Node{Kind: "PersistentVolumeClaim", Namespace: t.Namespace, Name: s.Name, Text: text})
}

// snapshots are those of the destination, by what status shows of them: the newest that can be restored, and those that
// are under way or failed. Of the others there is a remark.
func snapshots(t *v1alpha1.Transfer) []Node {
	var nodes []Node
	older, ready := 0, false
	for i := range t.Status.Snapshots {
		s := &t.Status.Snapshots[i]
		if s.State == v1alpha1.SnapshotReady && ready {
			older++
			continue
		}
		ready = ready || s.State == v1alpha1.SnapshotReady
		text := fmt.Sprintf("%s  of run %s", s.State, s.RunID)
		if s.RecoveryPoint != nil {
			text += "  state of " + s.RecoveryPoint.UTC().Format(time.RFC3339)
		}
		nodes = append(nodes, Node{Kind: "VolumeSnapshot", Namespace: t.Namespace, Name: s.Name, Text: text})
	}
	if older > 0 {
		nodes = append(nodes, Node{Text: fmt.Sprintf("%d earlier VolumeSnapshots of the destination are Ready", older)})
	}
	return nodes
}

// workloads are the Jobs with a label, each with its pods, and pods whose Job is gone.
func workloads(side Side, label, uid, cluster string) []Node {
	var nodes []Node
	byJob := map[string][]Node{}
	if side.Jobs.Err != nil {
		nodes = append(nodes, unread("Jobs", cluster, side.Jobs.Err))
	}
	if side.Pods.Err != nil {
		nodes = append(nodes, unread("Pods", cluster, side.Pods.Err))
	}
	for i := range side.Pods.Value {
		p := &side.Pods.Value[i]
		if p.Labels[label] != uid {
			continue
		}
		job := ""
		if owner := metav1.GetControllerOf(p); owner != nil && owner.Kind == "Job" {
			job = string(owner.UID)
		}
		byJob[job] = append(byJob[job], Node{
			Kind: "Pod", Cluster: cluster, Namespace: p.Namespace, Name: p.Name, Text: podText(p),
		})
	}
	for i := range side.Jobs.Value {
		j := &side.Jobs.Value[i]
		if j.Labels[label] != uid {
			continue
		}
		nodes = append(nodes, Node{
			Kind: "Job", Cluster: cluster, Namespace: j.Namespace, Name: j.Name, Text: jobText(j),
			Children: byJob[string(j.UID)],
		})
		delete(byJob, string(j.UID))
	}
	for _, orphans := range byJob {
		nodes = append(nodes, orphans...)
	}
	slices.SortFunc(nodes, func(a, b Node) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name)) })
	return nodes
}

func unread(what, cluster string, err error) Node {
	return Node{Cluster: cluster, Text: fmt.Sprintf("%s cannot be read: %v", what, err)}
}

// summary is how a run is, in one line.
func (r *Run) summary() string {
	text := cmp.Or(r.Phase, string(r.State))
	if r.ID != "" {
		text += fmt.Sprintf("  run %s attempt %d  %d%%", r.ID, r.Attempt, r.Percent)
	}
	if r.Node != "" {
		text += "  on " + r.Node
	}
	if why := r.Why(); why != "" {
		text += "  " + why
	}
	return text
}

func jobText(j *batchv1.Job) string {
	for _, c := range j.Status.Conditions {
		if c.Status == corev1.ConditionTrue && (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) {
			text := string(c.Type)
			if c.Reason != "" && c.Type == batchv1.JobFailed {
				text += "  " + c.Reason + ": " + c.Message
			}
			return text
		}
	}
	if j.Status.Active > 0 {
		return "Active"
	}
	return "Pending"
}

// podText has the phase, the node, and what keeps the pod from running.
func podText(p *corev1.Pod) string {
	text := string(p.Status.Phase)
	if p.DeletionTimestamp != nil {
		text = "Terminating"
	}
	if p.Spec.NodeName != "" {
		text += "  on " + p.Spec.NodeName
	}
	if p.Status.Phase == corev1.PodPending {
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
				return text + "  " + c.Reason + ": " + c.Message
			}
		}
	}
	for _, c := range p.Status.ContainerStatuses {
		switch {
		case c.State.Waiting != nil && c.State.Waiting.Reason != "":
			return text + "  " + c.State.Waiting.Reason + ": " + c.State.Waiting.Message
		case c.State.Terminated != nil && c.State.Terminated.ExitCode != 0:
			return text + fmt.Sprintf("  exit code %d, %s", c.State.Terminated.ExitCode, c.State.Terminated.Reason)
		}
	}
	return text
}

// Lines draw the tree, each of at most width columns; 0 is any.
func (n Node) Lines(width int) []string {
	lines := []string{Fit(n.line(), width)}
	for i, child := range n.Children {
		first, rest := "|- ", "|  "
		if i == len(n.Children)-1 {
			first, rest = "`- ", "   "
		}
		inner := 0
		if width > 0 {
			inner = max(width-len(first), 1)
		}
		for j, line := range child.Lines(inner) {
			if j == 0 {
				lines = append(lines, first+line)
			} else {
				lines = append(lines, rest+line)
			}
		}
	}
	return lines
}

func (n Node) line() string {
	var parts []string
	if n.Kind != "" {
		parts = append(parts, n.Kind+" "+n.Namespace+"/"+n.Name)
	}
	if n.Cluster != "" {
		parts = append(parts, "in "+n.Cluster)
	}
	if n.Text != "" {
		parts = append(parts, n.Text)
	}
	return table.Printable(strings.Join(parts, "  "))
}
