// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/plan"
)

func TestClaimSize(t *testing.T) {
	for name, test := range map[string]struct {
		capacity, size string // empty: absent
		headroom       *int32
		want           string
	}{
		"by default a fifth more":     {"10Gi", "", nil, "12Gi"},
		"exactly":                     {"10Gi", "", ptr.To[int32](0), "10Gi"},
		"eleven times":                {"1Gi", "", ptr.To[int32](1000), "11Gi"},
		"the template has more":       {"10Gi", "50Gi", nil, "50Gi"},
		"the source has more":         {"100Gi", "50Gi", nil, "120Gi"},
		"rounded up to MiB":           {"1000001", "", ptr.To[int32](0), "1Mi"},
		"a byte more than MiB":        {"1048577", "", ptr.To[int32](0), "2Mi"},
		"decimal":                     {"1G", "", ptr.To[int32](0), "954Mi"},
		"no capacity":                 {"", "50Gi", nil, "50Gi"},
		"neither":                     {"", "", nil, ""},
		"capacity of nothing":         {"0", "", nil, ""},
		"negative":                    {"-5Gi", "1Gi", nil, "1Gi"},
		"headroom that is negative":   {"10Gi", "", ptr.To[int32](-50), "10Gi"},
		"largest":                     {"1Ei", "", nil, "1Ei"},
		"larger than any":             {"7Ei", "", ptr.To[int32](1000), "1Ei"},
		"larger than an int64":        {"100Ei", "", ptr.To[int32](2147483547), "1Ei"},
		"a template larger than that": {"", "100Ei", nil, "1Ei"},
	} {
		template := &v1alpha1.ClaimTemplate{HeadroomPercent: test.headroom}
		var capacity *resource.Quantity
		if test.capacity != "" {
			capacity = ptr.To(resource.MustParse(test.capacity))
		}
		if test.size != "" {
			template.Size = ptr.To(resource.MustParse(test.size))
		}
		got := plan.ClaimSize(template, capacity)
		switch {
		case test.want == "" && got == nil:
		case test.want == "" || got == nil || got.Cmp(resource.MustParse(test.want)) != 0:
			t.Errorf("%s: %s, want %q", name, got, test.want)
		}
	}
}

func sized(name, requested, capacity string) *corev1.PersistentVolumeClaim {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: name}}
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(requested)}
	if capacity != "" {
		claim.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(capacity)}
	}
	return claim
}

func created(claim *corev1.PersistentVolumeClaim, by string) *corev1.PersistentVolumeClaim {
	claim.Annotations = map[string]string{v1alpha1.CreatedForAnnotation: by}
	return claim
}

// templated is a Transfer within its namespace with a template, whose source has 10Gi.
func templated() (*v1alpha1.Transfer, plan.TransferFacts) {
	transfer, facts := localTransfer("")
	transfer.Spec.Destination.PersistentVolumeClaim.Template = &v1alpha1.ClaimTemplate{StorageClassName: "fast"}
	facts.Local.Claim = nil
	facts.Template.Source = sized("ledger", "10Gi", "10Gi")
	return transfer, facts
}

func TestDestinationIsCreatedBeforeTheAgent(t *testing.T) {
	transfer, facts := templated()
	decision := plan.DecideTransfer(transfer, facts, image)
	if decision.Start != nil || decision.Provision == nil || decision.Provision.Create == nil ||
		decision.Status.Phase != v1alpha1.TransferStarting || decision.RequeueAfter == 0 {
		t.Fatalf("%+v", decision)
	}
	if _, reason, _ := verdict(t, decision.Status.Conditions); reason != v1alpha1.ReasonCreatingDestination {
		t.Error(reason)
	}
	claim := decision.Provision.Create
	size := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	if claim.Namespace != "bank" || claim.Name != "copy" || size.String() != "12Gi" ||
		*claim.Spec.StorageClassName != "fast" || *claim.Spec.VolumeMode != corev1.PersistentVolumeFilesystem ||
		!slices.Equal(claim.Spec.AccessModes, []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}) ||
		claim.Annotations[v1alpha1.CreatedForAnnotation] != "bank/ledger" || len(claim.OwnerReferences) != 0 ||
		claim.Spec.DataSource != nil {
		t.Errorf("%+v", claim)
	}
	transfer.Status = decision.Status
	facts.Template.Destination, facts.Local.Claim = created(claim, "bank/ledger"), claim
	next := plan.DecideTransfer(transfer, facts, image)
	if next.Start == nil || next.Provision != nil || next.Status.Run.ID != transfer.Status.Run.ID ||
		next.Status.Run.Attempt != 1 ||
		!meta.IsStatusConditionTrue(next.Status.Conditions, v1alpha1.ConditionDestinationFits) {
		t.Errorf("%+v", next)
	}
}

// What somebody may not write to is not created either: all checks come first.
func TestNothingIsCreatedBeforeTheChecks(t *testing.T) {
	transfer, facts := templated()
	other := newTransfer("older", 2*60*60*1e9)
	other.UID, other.Spec.Destination = "another", *transfer.Spec.Destination.DeepCopy()
	facts.Others = []v1alpha1.Transfer{*other}
	decision := plan.DecideTransfer(transfer, facts, image)
	_, reason, _ := verdict(t, decision.Status.Conditions)
	if decision.Provision != nil || reason != v1alpha1.ReasonDestinationInUse {
		t.Errorf("%s: %+v", reason, decision)
	}
	transfer, facts = templated()
	facts.Claim = nil
	decision = plan.DecideTransfer(transfer, facts, image)
	if _, reason, _ := verdict(t, decision.Status.Conditions); decision.Provision != nil ||
		reason != v1alpha1.ReasonSourceNotFound {
		t.Errorf("%s: %+v", reason, decision)
	}
}

func TestDestinationThatIsTooSmall(t *testing.T) {
	for name, test := range map[string]struct {
		claim *corev1.PersistentVolumeClaim
		grows bool
		fits  metav1.ConditionStatus // empty: to be seen
	}{
		"large enough":          {sized("copy", "12Gi", "12Gi"), false, metav1.ConditionTrue},
		"larger than asked for": {sized("copy", "5Gi", "16Gi"), false, metav1.ConditionTrue},
		"being enlarged":        {created(sized("copy", "12Gi", "5Gi"), "bank/ledger"), false, metav1.ConditionTrue},
		"created":               {created(sized("copy", "5Gi", "5Gi"), "bank/ledger"), true, ""},
		"created for another":   {created(sized("copy", "5Gi", "5Gi"), "bank/other"), false, metav1.ConditionFalse},
		"made by somebody":      {sized("copy", "5Gi", "5Gi"), false, metav1.ConditionFalse},
	} {
		transfer, facts := templated()
		facts.Template.Destination, facts.Local.Claim = test.claim, test.claim
		decision := plan.DecideTransfer(transfer, facts, image)
		fits := meta.FindStatusCondition(decision.Status.Conditions, v1alpha1.ConditionDestinationFits)
		if decision.Start == nil {
			t.Errorf("%s: it does not start: %+v", name, decision)
			continue
		}
		if grows := decision.Provision != nil && decision.Provision.Enlarge == test.claim; grows != test.grows {
			t.Errorf("%s: %+v", name, decision.Provision)
		}
		if (fits == nil) != (test.fits == "") || fits != nil && fits.Status != test.fits {
			t.Errorf("%s: %+v", name, fits)
		}
		if !test.grows {
			continue
		}
		if size := decision.Provision.Size; size.String() != "12Gi" {
			t.Errorf("%s: %s", name, size.String())
		}
		if no := plan.Enlarged(decision.Provision, "the class does not"); no.Status != metav1.ConditionFalse ||
			!strings.Contains(no.Message, "the class does not") {
			t.Errorf("%+v", no)
		}
		if yes := plan.Enlarged(decision.Provision, ""); yes.Status != metav1.ConditionTrue {
			t.Errorf("%+v", yes)
		}
	}
}

// A claim that is gone in the middle of a run is created again only if nothing was written into it.
func TestDestinationThatIsGone(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*v1alpha1.TransferStatus)
		again  bool
	}{
		"nothing was written": {func(*v1alpha1.TransferStatus) {}, true},
		"an attempt was refused": {func(s *v1alpha1.TransferStatus) {
			s.History = []v1alpha1.AttemptRecord{{RunID: s.Run.ID, Attempt: 1, Reason: v1alpha1.ReasonDestinationNotCreated}}
		}, true},
		"another run had written": {func(s *v1alpha1.TransferStatus) {
			s.History = []v1alpha1.AttemptRecord{{RunID: "other", Attempt: 1, Bytes: 5}}
		}, true},
		"an attempt had written": {func(s *v1alpha1.TransferStatus) {
			s.History = []v1alpha1.AttemptRecord{{RunID: s.Run.ID, Attempt: 1, Bytes: 5}}
		}, false},
		"an attempt had resumed": {func(s *v1alpha1.TransferStatus) {
			s.History = []v1alpha1.AttemptRecord{{RunID: s.Run.ID, Attempt: 1, ResumedBytes: 5}}
		}, false},
		"long ago": {func(s *v1alpha1.TransferStatus) { s.Run.DeliveredBytes = 1 }, false},
	} {
		transfer, facts := templated()
		transfer.Status = plan.DecideTransfer(transfer, facts, image).Status
		transfer.Status.Phase, transfer.Status.Run.NextAttemptTime = v1alpha1.TransferRetrying, &metav1.Time{Time: now}
		test.change(&transfer.Status)
		decision := plan.DecideTransfer(transfer, facts, image)
		if again := decision.Provision != nil; again != test.again {
			t.Errorf("%s: %+v", name, decision)
		}
		_, reason, message := verdict(t, decision.Status.Conditions)
		if !test.again && (reason != v1alpha1.ReasonDestinationNotFound ||
			!strings.Contains(message, v1alpha1.RunAnnotation)) {
			t.Errorf("%s: %s %s", name, reason, message)
		}
		// Another run is another matter.
		transfer.Status.Run.CompletionTime, transfer.Status.Run.NextAttemptTime = &metav1.Time{Time: now}, nil
		transfer.Status.Phase = v1alpha1.TransferFailed
		transfer.Annotations = map[string]string{v1alpha1.RunAnnotation: "again"}
		if decision := plan.DecideTransfer(transfer, facts, image); decision.Provision == nil {
			t.Errorf("%s: another run does not create it: %+v", name, decision)
		}
	}
}

func TestClaimThatIsRejected(t *testing.T) {
	transfer, facts := templated()
	first := plan.DecideTransfer(transfer, facts, image)
	transfer.Status = first.Status
	problem := plan.NotCreated(first.Provision.Create, "exceeded quota: small")
	refused := plan.RefuseClaim(transfer, *problem, now)
	state, reason, message := verdict(t, refused.Status.Conditions)
	if state != v1alpha1.ConditionStalled || reason != v1alpha1.ReasonDestinationNotCreated ||
		!strings.Contains(message, "exceeded quota: small") || refused.RequeueAfter < 60*1e9 ||
		refused.Status.Run.NextAttemptTime == nil || refused.Status.Run.Failures != 0 || len(refused.Status.History) != 1 {
		t.Errorf("%s %s: %+v", state, message, refused)
	}
}

// sentTemplate is what the sending agent of a decision is told of the claim.
func sentTemplate(t *testing.T, decision plan.TransferDecision) *wirev1.ClaimTemplate {
	t.Helper()
	if decision.Start == nil {
		t.Fatalf("it does not start: %+v", decision)
	}
	text, err := decision.Start.Config()
	if err != nil {
		t.Fatal(err)
	}
	config := &wirev1.SendConfig{}
	if err := protojson.Unmarshal(text, config); err != nil {
		t.Fatal(err)
	}
	return config.GetTemplate()
}

func TestPeerIsToldTheTemplate(t *testing.T) {
	transfer, facts := newTransfer("ledger", 0), goodFacts()
	facts.Template.Source = sized("ledger", "10Gi", "20Gi")
	if sent := sentTemplate(t, plan.DecideTransfer(transfer, facts, image)); sent != nil {
		t.Errorf("without a template: %v", sent)
	}
	transfer.Spec.Destination.PersistentVolumeClaim.Template = &v1alpha1.ClaimTemplate{
		StorageClassName: "fast", AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
	}
	decision := plan.DecideTransfer(transfer, facts, image)
	sent := sentTemplate(t, decision)
	if decision.Provision != nil || sent.GetSize() != 24<<30 || sent.GetStorageClassName() != "fast" ||
		!slices.Equal(sent.GetAccessModes(), []string{"ReadWriteMany"}) || sent.GetWritten() {
		t.Errorf("%v", sent)
	}
	// The attempt keeps its size, and the next one has that of the source as it is then.
	transfer.Status = decision.Status
	facts.Template.Source = sized("ledger", "30Gi", "20Gi")
	if again := sentTemplate(t, plan.DecideTransfer(transfer, facts, image)); again.GetSize() != 24<<30 {
		t.Errorf("%v", again)
	}
	transfer.Status.Phase, transfer.Status.Run.NextAttemptTime = v1alpha1.TransferRetrying, &metav1.Time{Time: now}
	transfer.Status.History = []v1alpha1.AttemptRecord{{RunID: "abcde", Attempt: 1, Bytes: 7}}
	if next := sentTemplate(t, plan.DecideTransfer(transfer, facts, image)); next.GetSize() != 36<<30 || !next.GetWritten() {
		t.Errorf("%v", next)
	}
}

// A cluster of an earlier release does not create the claim, and nobody is left to wonder why.
func TestPeerOfAnEarlierRelease(t *testing.T) {
	transfer, facts := running(1)
	transfer.Spec.Destination.PersistentVolumeClaim.Template = &v1alpha1.ClaimTemplate{}
	transfer.Status.Run.ClaimSize = resource.NewQuantity(1<<30, resource.BinarySI)
	facts.Pod = failedWith(t, &wirev1.Failure{
		Reason: wirev1.FailureReason_FAILURE_REASON_DESTINATION_NOT_FOUND, Message: "there is no claim",
	})
	decision := plan.DecideTransfer(transfer, facts, image)
	_, reason, message := verdict(t, decision.Status.Conditions)
	if reason != v1alpha1.ReasonDestinationNotFound || !strings.Contains(message, "upgrade that cluster") {
		t.Errorf("%s: %s", reason, message)
	}
}

// wanted is a Delivery with a template.
func wanted(change func(*v1alpha1.ClaimRequest)) *v1alpha1.Delivery {
	delivery := newDelivery("mine", 1)
	delivery.Spec.Destination.Template = &v1alpha1.ClaimRequest{Size: resource.MustParse("12Gi")}
	change(delivery.Spec.Destination.Template)
	return delivery
}

func TestDeliveryCreatesItsClaim(t *testing.T) {
	asIs := func(*v1alpha1.ClaimRequest) {}
	for name, test := range map[string]struct {
		template             func(*v1alpha1.ClaimRequest)
		claim                *corev1.PersistentVolumeClaim
		refusal              string
		creates, grows, runs bool
		reason               string
	}{
		"there is none": {template: asIs, creates: true, reason: v1alpha1.ReasonCreatingDestination},
		"there is none, and no grant": {
			template: asIs, refusal: "set create", reason: v1alpha1.ReasonNotGranted,
		},
		"it was deleted": {
			template: func(r *v1alpha1.ClaimRequest) { r.Written = true }, reason: v1alpha1.ReasonDestinationNotFound,
		},
		"there is one": {
			template: asIs, claim: sized("copy", "12Gi", ""), refusal: "set create", runs: true, reason: v1alpha1.ReasonStarting,
		},
		"it is small": {
			template: asIs, claim: created(sized("copy", "1Gi", ""), "east/bank/ledger"), grows: true, runs: true,
			reason: v1alpha1.ReasonStarting,
		},
		"it is small, and no grant": {
			template: asIs, claim: created(sized("copy", "1Gi", ""), "east/bank/ledger"), refusal: "set create", runs: true,
			reason: v1alpha1.ReasonStarting,
		},
		"a namesake of this cluster created it": {
			template: asIs, claim: created(sized("copy", "1Gi", ""), "bank/ledger"), runs: true,
			reason: v1alpha1.ReasonStarting,
		},
	} {
		facts := goodDeliveryFacts()
		facts.Claim, facts.ClaimRefusal = test.claim, test.refusal
		delivery := wanted(test.template)
		decision := plan.DecideDelivery(delivery, facts, image)
		_, reason, _ := verdict(t, decision.Status.Conditions)
		provision := decision.Provision
		if reason != test.reason || (decision.Start != nil) != test.runs ||
			(provision != nil && provision.Create != nil) != test.creates ||
			(provision != nil && provision.Enlarge != nil) != test.grows {
			t.Errorf("%s: %s %+v", name, reason, decision)
		}
		if !test.creates {
			continue
		}
		if got := provision.Create.Annotations[v1alpha1.CreatedForAnnotation]; got != "east/bank/ledger" ||
			provision.Create.Spec.StorageClassName != nil {
			t.Errorf("%+v", provision.Create)
		}
		delivery.Status, facts.Claim = decision.Status, provision.Create
		if next := plan.DecideDelivery(delivery, facts, image); next.Start == nil || next.Provision != nil {
			t.Errorf("it does not go on: %+v", next)
		}
		problem := plan.NotCreated(provision.Create, "exceeded quota: secret")
		refused := plan.RefuseDelivery(delivery, *problem, now, 0)
		if _, reason, message := verdict(t, refused.Status.Conditions); reason != v1alpha1.ReasonDestinationNotCreated ||
			strings.Contains(message, "secret") || !strings.Contains(refused.Detail, "secret") {
			t.Errorf("%s: %s (%s)", reason, message, refused.Detail)
		}
	}
}
