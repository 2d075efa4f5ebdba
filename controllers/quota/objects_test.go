// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package quota_test

import (
	"maps"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/quota"
)

func ready(reason string) []metav1.Condition {
	return []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: reason}}
}

func TestTransferHolds(t *testing.T) {
	at := metav1.NewTime(start)
	for name, c := range map[string]struct {
		change func(*v1alpha1.Transfer)
		want   quota.Amounts // nil: nothing
	}{
		"an attempt": {
			func(*v1alpha1.Transfer) {}, quota.Amounts{quota.RunningTransfers: 1, quota.Bandwidth: mi},
		},
		"an attempt, suspended": {
			func(x *v1alpha1.Transfer) { x.Spec.Suspend = true }, quota.Amounts{quota.RunningTransfers: 1, quota.Bandwidth: mi},
		},
		"an attempt, being deleted": {
			func(x *v1alpha1.Transfer) { x.DeletionTimestamp = &at },
			quota.Amounts{quota.RunningTransfers: 1, quota.Bandwidth: mi},
		},
		"an attempt without a limit": {
			func(x *v1alpha1.Transfer) { x.Status.Run.BandwidthLimit = nil },
			quota.Amounts{quota.RunningTransfers: 1, quota.Bandwidth: quota.Unlimited},
		},
		"a pod with both claims": {
			func(x *v1alpha1.Transfer) { x.Status.Run.Route = v1alpha1.RoutePod }, quota.Amounts{quota.RunningTransfers: 1},
		},
		"a spec that promises little": {
			func(x *v1alpha1.Transfer) { x.Spec.BandwidthLimit = ptr.To(resource.MustParse("256Ki")) },
			quota.Amounts{quota.RunningTransfers: 1, quota.Bandwidth: mi},
		},
		"no run":               {func(x *v1alpha1.Transfer) { x.Status.Run = nil }, nil},
		"a run that has ended": {func(x *v1alpha1.Transfer) { x.Status.Run.CompletionTime = &at }, nil},
		"a back-off": {func(x *v1alpha1.Transfer) {
			x.Status.Run.NextAttemptTime = &at
			x.Status.Conditions = ready(v1alpha1.ReasonRetrying)
		}, quota.Amounts{quota.RunningTransfers: 1, quota.Bandwidth: mi}},
		"a wait for somebody": {func(x *v1alpha1.Transfer) {
			x.Status.Run.NextAttemptTime = &at
			x.Status.Conditions = ready(v1alpha1.ReasonNotGranted)
		}, nil},
		"suspended between attempts": {func(x *v1alpha1.Transfer) {
			x.Status.Run.NextAttemptTime = &at
			x.Status.Conditions = ready(v1alpha1.ReasonSuspended)
		}, nil},
		"a next attempt that is queued": {func(x *v1alpha1.Transfer) {
			x.Status.Run.NextAttemptTime, x.Status.Queued = &at, &v1alpha1.QueuedStatus{Time: at}
			x.Status.Conditions = ready(v1alpha1.ReasonRetrying)
		}, nil},
	} {
		transfer := &v1alpha1.Transfer{ObjectMeta: metav1.ObjectMeta{UID: "a"}, Status: v1alpha1.TransferStatus{
			Conditions: ready(v1alpha1.ReasonTransferring),
			Run: &v1alpha1.RunStatus{
				ID: "abcde", Attempt: 1, Route: v1alpha1.RouteGateway, BandwidthLimit: ptr.To(resource.MustParse("1Mi")),
			},
		}}
		c.change(transfer)
		if wire, network := c.want[quota.Bandwidth]; network {
			c.want[quota.Share] = wire // neither its Peer nor the cluster gives it less
		}
		held, holds := quota.TransferHolds(transfer)
		if holds != (c.want != nil) || !maps.Equal(held.Amounts, c.want) || holds && held.ID != "a" {
			t.Errorf("%s: %t %+v, want %v", name, holds, held, c.want)
		}
	}
}

// TestTransferHoldsItsShare: it keeps what the namespace granted it, whatever its share is at present.
func TestTransferHoldsItsShare(t *testing.T) {
	transfer := &v1alpha1.Transfer{ObjectMeta: metav1.ObjectMeta{Namespace: "bank", UID: "a"}}
	transfer.Spec.Destination.Peer = "west"
	transfer.Status.Run = &v1alpha1.RunStatus{
		ID: "abcde", Route: v1alpha1.RouteGateway, BandwidthLimit: ptr.To(resource.MustParse("10Mi")),
		BandwidthShare: ptr.To(resource.MustParse("1Mi")),
	}
	held, holds := quota.TransferHolds(transfer)
	want := quota.Amounts{quota.RunningTransfers: 1, quota.Bandwidth: 10 * mi, quota.Share: mi}
	if !holds || held.Namespace != "bank" || held.Peer != "west" || held.Most != 10*mi || !maps.Equal(held.Amounts, want) {
		t.Errorf("%+v", held)
	}
	// What a window does not let it use others can have, and its grant stays.
	transfer.Status.Run.WindowLimit = ptr.To(resource.MustParse("512Ki"))
	if held, _ = quota.TransferHolds(transfer); held.Most != mi/2 || !maps.Equal(held.Amounts, want) {
		t.Errorf("%+v", held)
	}
}

func TestTransferWaits(t *testing.T) {
	at := metav1.NewTime(start)
	transfer := &v1alpha1.Transfer{
		ObjectMeta: metav1.ObjectMeta{UID: "a", Name: "ledger"},
		Spec:       v1alpha1.TransferSpec{BandwidthLimit: ptr.To(resource.MustParse("1Mi"))},
		Status:     v1alpha1.TransferStatus{Queued: &v1alpha1.QueuedStatus{Time: at, Route: v1alpha1.RouteGateway}},
	}
	request, waits := quota.TransferWaits(transfer)
	if !waits || request.ID != "a" || !request.Since.Equal(start) || request.Bandwidth == nil || *request.Bandwidth != mi {
		t.Errorf("%t %+v", waits, request)
	}
	local := transfer.DeepCopy()
	local.Status.Queued.Route = v1alpha1.RoutePod
	if request, waits := quota.TransferWaits(local); !waits || request.Bandwidth != nil {
		t.Errorf("through no network: %t %+v", waits, request)
	}
	for name, change := range map[string]func(*v1alpha1.Transfer){
		"not queued":    func(x *v1alpha1.Transfer) { x.Status.Queued = nil },
		"suspended":     func(x *v1alpha1.Transfer) { x.Spec.Suspend = true },
		"being deleted": func(x *v1alpha1.Transfer) { x.DeletionTimestamp = &at },
		"between windows": func(x *v1alpha1.Transfer) {
			x.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Reason: v1alpha1.ReasonOutsideWindow}}
		},
		"before its price": func(x *v1alpha1.Transfer) {
			x.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Reason: v1alpha1.ReasonWaitingForPrice}}
		},
	} {
		other := transfer.DeepCopy()
		change(other)
		if _, waits := quota.TransferWaits(other); waits {
			t.Errorf("%s: waits", name)
		}
	}
}

func TestDeliveries(t *testing.T) {
	at := metav1.NewTime(start)
	list := []v1alpha1.Delivery{
		{ObjectMeta: metav1.ObjectMeta{UID: "runs"}, Status: v1alpha1.DeliveryStatus{Run: &v1alpha1.RunStatus{}}},
		{
			ObjectMeta: metav1.ObjectMeta{UID: "goes", DeletionTimestamp: &at},
			Status:     v1alpha1.DeliveryStatus{Run: &v1alpha1.RunStatus{}},
		},
		{
			ObjectMeta: metav1.ObjectMeta{UID: "ended"},
			Status:     v1alpha1.DeliveryStatus{Run: &v1alpha1.RunStatus{CompletionTime: &at}},
		},
		{ObjectMeta: metav1.ObjectMeta{UID: "new"}},
		{
			ObjectMeta: metav1.ObjectMeta{UID: "waits"},
			Status:     v1alpha1.DeliveryStatus{Conditions: ready(v1alpha1.ReasonQuotaExceeded)},
		},
		{
			ObjectMeta: metav1.ObjectMeta{UID: "first", CreationTimestamp: metav1.NewTime(start.Add(-time.Hour))},
			Status:     v1alpha1.DeliveryStatus{Conditions: ready(v1alpha1.ReasonQuotaExceeded)},
		},
	}
	list[4].CreationTimestamp = at
	three := int32(3)
	quotas := []v1alpha1.DataQuota{
		{Spec: v1alpha1.DataQuotaSpec{Hard: v1alpha1.DataQuotaResources{RunningDeliveries: &three}}},
	}
	view := quota.Deliveries(quotas, list)
	if used := quota.Used(view.Limits[0].Hard, view.Held); used[quota.RunningDeliveries] != 2 {
		t.Errorf("used are %v", used)
	}
	if next := quota.Next(view); len(next) != 1 || next[0] != "first" {
		t.Errorf("next are %v", next)
	}
}

func TestQueueAmounts(t *testing.T) {
	size := resource.MustParse("10Gi")
	queue := &v1alpha1.Queue{
		ObjectMeta: metav1.ObjectMeta{UID: "a"},
		Spec:       v1alpha1.QueueSpec{Replicas: 3, Storage: v1alpha1.QueueStorage{Size: size}},
	}
	if _, holds := quota.QueueHolds(queue); holds {
		t.Error("a new Queue holds something")
	}
	if _, waits := quota.QueueWaits(queue); waits {
		t.Error("one that has not asked yet waits")
	}
	queue.Status.Conditions = ready(v1alpha1.ReasonQuotaExceeded)
	if request, waits := quota.QueueWaits(queue); !waits || request.Amounts[quota.QueueBytes] != 30<<30 {
		t.Errorf("%t %+v", waits, request)
	}
	queue.Status.StorageSize = &size
	if held, holds := quota.QueueHolds(queue); !holds || held.Amounts[quota.QueueBytes] != 30<<30 {
		t.Errorf("%t %+v", holds, held)
	}
	if _, waits := quota.QueueWaits(queue); waits {
		t.Error("one that has all its storage waits")
	}
	// What it spills to counts beside what is in memory.
	queue.Spec.Storage.Spill = &v1alpha1.QueueSpill{Size: resource.MustParse("20Gi")}
	if held, _ := quota.QueueHolds(queue); held.Amounts[quota.QueueBytes] != 90<<30 {
		t.Errorf("%+v", held)
	}
	// Sizes that no volume has must not wrap round.
	for _, spill := range []string{"20Gi", "8Ei"} {
		queue.Spec.Storage.Spill.Size, queue.Spec.Storage.Size = resource.MustParse(spill), resource.MustParse("8Ei")
		if request, _ := quota.QueueWaits(queue); request.Amounts[quota.QueueBytes] < 8<<58 {
			t.Errorf("%+v", request)
		}
	}
}

func TestAmountsOfTheAPI(t *testing.T) {
	five, bandwidth := int32(5), resource.MustParse("200Mi")
	hard := v1alpha1.DataQuotaResources{RunningTransfers: &five, Bandwidth: &bandwidth}
	amounts := quota.AmountsOf(hard)
	if !maps.Equal(amounts, quota.Amounts{quota.RunningTransfers: 5, quota.Bandwidth: 200 * mi}) {
		t.Errorf("%v", amounts)
	}
	back := amounts.API()
	if *back.RunningTransfers != 5 || back.Bandwidth.String() != "200Mi" || back.QueueBytes != nil ||
		back.RunningDeliveries != nil {
		t.Errorf("%+v", back)
	}
}
