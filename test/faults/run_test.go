// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build faults

package faults_test

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/test/clusters"
)

const (
	// patience is for what a loaded machine does late.
	patience = 6 * time.Minute
	// interval is the checkpointInterval of the Transfers here, streams how many an agent opens at most.
	interval = 1 << 20
	streams  = 16
)

// run is a Transfer that is to survive.
type run struct {
	namespace string
	transfer  *v1alpha1.Transfer
	size      int64
}

// options of start, each with a useful zero value.
type options struct {
	// limit of the sender's bandwidth in bytes per second, such as 8Mi: what makes a run last, whatever the machine
	// does.
	limit string
	// class and space of the destination's claim.
	class, space string
	// path in the destination's claim.
	path string
	// filler is how much of the destination's claim a file beside path takes, in bytes.
	filler int64
	// sourceNode is where the source's claim is made; empty: anywhere.
	sourceNode string
	// attempts is spec.maxAttempts; 0: the default.
	attempts int32
}

// start makes a source with one large file that does not compress and a few small ones, and a Transfer of it.
func start(t *testing.T, size int64, o options) *run {
	t.Helper()
	r := &run{namespace: pair.Namespace(t, "faults-"), size: size}
	east.Claim(t, r.namespace, "source", "", "1Gi", func(pod *corev1.Pod) {
		if o.sourceNode != "" {
			pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: o.sourceNode}
		}
	})
	west.Claim(t, r.namespace, "copy", o.class, cmp.Or(o.space, "1Gi"))
	east.Sh(t, r.namespace, "source", fmt.Sprintf(
		"cd /data; head -c %d /dev/urandom > large; mkdir small; for i in 1 2 3 4 5 6 7 8 9; do head -c 9999 /dev/urandom "+
			"> small/$i; done; ln -s large link", size))
	pair.Grant(t, r.namespace, "copy")
	r.transfer = clusters.NewTransfer(r.namespace, "ledger")
	r.transfer.Spec.Destination.PersistentVolumeClaim.Path = "/" + o.path
	if o.path != "" {
		west.Sh(t, r.namespace, "copy", fmt.Sprintf("mkdir /data/%s; head -c %d /dev/zero > /data/filler", o.path, o.filler))
	}
	if o.attempts != 0 {
		r.transfer.Spec.MaxAttempts = o.attempts
	}
	if o.limit != "" {
		limit := resource.MustParse(o.limit)
		r.transfer.Spec.BandwidthLimit = &limit
	}
	r.transfer.Spec.CheckpointInterval = resource.NewQuantity(interval, resource.BinarySI)
	if err := east.Create(context.Background(), r.transfer); err != nil {
		t.Fatal(err)
	}
	return r
}

// folder of the destination as its shell sees it.
func (r *run) folder() string {
	return strings.TrimSuffix("/data"+r.transfer.Spec.Destination.PersistentVolumeClaim.Path, "/")
}

// staged is how many bytes of the large file are at the destination without its name.
func (r *run) staged(t *testing.T) int64 {
	t.Helper()
	text := strings.Fields(
		west.Sh(t, r.namespace, "copy", "du -k "+r.folder()+"/.lighterage-staging 2>/dev/null | tail -n1; echo 0"),
	)
	n, err := strconv.ParseInt(text[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n << 10
}

// underway waits until the destination has a part of the large file, in percent, and an attempt is sending more of it.
func (r *run) underway(t *testing.T, percent int64) {
	t.Helper()
	clusters.Eventually(t, patience, fmt.Sprintf(
		"the destination to have %d%% of the file", percent,
	), func() (bool, string) {
		r.refresh(t)
		if r.transfer.Status.Phase == v1alpha1.TransferComplete || r.transfer.Status.Phase == v1alpha1.TransferFailed {
			t.Fatalf("the Transfer has ended before the fault: %s", r.transfer.Status.Phase)
		}
		n := r.staged(t)
		return n > r.size*percent/100 && r.transfer.Status.Phase == v1alpha1.TransferTransferring,
			fmt.Sprintf("%s, %d bytes are staged", r.transfer.Status.Phase, n)
	})
}

func (r *run) refresh(t *testing.T) {
	t.Helper()
	if err := east.Get(context.Background(), client.ObjectKeyFromObject(r.transfer), r.transfer); err != nil {
		t.Fatal(err)
	}
}

// unlimited lets the next attempt send as fast as it can.
func (r *run) unlimited(t *testing.T) {
	t.Helper()
	before := r.transfer.DeepCopy()
	r.transfer.Spec.BandwidthLimit = nil
	if err := east.Patch(context.Background(), r.transfer, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

// ended waits until so many attempts have ended and returns why the last one did.
func (r *run) ended(t *testing.T, attempts int) v1alpha1.AttemptRecord {
	t.Helper()
	clusters.Eventually(t, patience, fmt.Sprintf("attempt %d to end", attempts), func() (bool, string) {
		r.refresh(t)
		return len(r.transfer.Status.History) >= attempts, fmt.Sprintf("%d have ended", len(r.transfer.Status.History))
	})
	record := r.transfer.Status.History[0]
	if len(r.transfer.Status.History) != attempts || record.Reason == v1alpha1.ReasonSucceeded {
		t.Fatalf("want attempt %d to end of the fault, got %+v", attempts, r.transfer.Status.History)
	}
	t.Logf("attempt %d ended with %s: %s", record.Attempt, record.Reason, record.Message)
	return record
}

// wait for the end and return how many attempts it took.
func (r *run) wait(t *testing.T) (attempts int) {
	t.Helper()
	pair.WaitFor(t, r.transfer, v1alpha1.ConditionComplete, metav1.ConditionTrue, "")
	return len(r.transfer.Status.History)
}

// complete waits for the end and checks what was promised: the same on both sides, nothing left, at most an interval
// for each stream sent again, and as many attempts as wanted.
func (r *run) complete(t *testing.T, attempts int) {
	t.Helper()
	r.wait(t)
	want := east.Sh(t, r.namespace, "source", clusters.Listing)
	got := west.Sh(t, r.namespace, "copy", strings.Replace(clusters.Listing, "cd /data", "cd "+r.folder(), 1))
	if want != got {
		t.Errorf("the two sides differ:\neast:\n%s\nwest:\n%s", want, got)
	}
	if got := west.Sh(t, r.namespace, "copy", "ls -A "+r.folder()); got != "large\nlink\nsmall\n" {
		t.Errorf("the destination has %q", got)
	}
	history := r.transfer.Status.History
	if len(history) != attempts {
		t.Errorf("want %d attempts, got %d", attempts, len(history))
	}
	for i := len(history) - 1; i >= 0; i-- {
		h := history[i]
		t.Logf(
			"attempt %d: %s, %d bytes sent, %d resumed, %d sent again", h.Attempt, h.Reason, h.Bytes, h.ResumedBytes,
			h.ResentBytes,
		)
		if h.ResentBytes > streams*interval {
			t.Errorf("attempt %d sent %d bytes again", h.Attempt, h.ResentBytes)
		}
	}
	// Whatever was there when the last attempt began came no second time.
	if last := history[0]; last.Bytes+last.ResumedBytes > r.size+100_000+streams*interval {
		t.Errorf("the last attempt sent %d bytes and resumed %d of %d", last.Bytes, last.ResumedBytes, r.size)
	}
}
