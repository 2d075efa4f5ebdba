// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package apilint

import (
	"strings"
	"testing"
)

// measured is why counters are written when they are 0.
const measured = "a count of 0 is a measurement and is shown; absent, it would look like one that was not made"

// forPeople is why there are phases.
const forPeople = "kubectl get shows one word to people; it is derived from the conditions, which programs read"

// exceptions are breaches that are meant, each with the reason. One that no longer occurs must go.
var exceptions = map[string]string{
	"AttemptRecord.Bytes omitempty":                    measured,
	"AttemptRecord.CompressedBytes omitempty":          measured,
	"AttemptRecord.ResumedBytes omitempty":             measured,
	"AttemptRecord.ResentBytes omitempty":              measured,
	"AttemptRecord.Removed omitempty":                  measured,
	"AttemptRecord.ReusedBytes omitempty":              measured,
	"CompressionStatus.SavedPercent omitempty":         measured,
	"CompressionStatus.UncompressedBytes omitempty":    measured,
	"CompressionStatus.CompressedBytes omitempty":      measured,
	"CompressionStatus.Hardware omitempty":             measured,
	"CompressionStatus.Software omitempty":             measured,
	"CompressionStatus.Stored omitempty":               measured,
	"DecompressionStatus.Hardware omitempty":           measured,
	"DecompressionStatus.Software omitempty":           measured,
	"DecompressionStatus.Fallback omitempty":           measured,
	"UsageStatus.UncompressedBytes omitempty":          measured,
	"UsageStatus.CompressedBytes omitempty":            measured,
	"UsageStatus.WireBytes omitempty":                  measured,
	"UsedByStatus.UncompressedBytes omitempty":         measured,
	"UsedByStatus.CompressedBytes omitempty":           measured,
	"UsedByStatus.WireBytes omitempty":                 measured,
	"UsingObjects.Count omitempty":                     measured,
	"EngineProfile.CompressBytesPerSecond omitempty":   measured,
	"EngineProfile.DecompressBytesPerSecond omitempty": measured,
	"QueueArchiveStatus.Sequence omitempty":            measured,
	"QueueArchiveStatus.Behind omitempty":              measured,
	"QueueArchiveStatus.Ranges omitempty":              measured,
	"QueueArchiveStatus.RangeBytes omitempty":          measured,
	"QueueArchiveStatus.Messages omitempty":            measured,
	"QueueArchiveStatus.Bytes omitempty":               measured,
	"QueueArchiveStatus.CompressedBytes omitempty":     measured,
	"QueueArchiveStatus.Passed omitempty":              measured,
	"QueueRestoreStatus.Messages omitempty":            measured,
	"QueueRestoreStatus.Bytes omitempty":               measured,
	"QueueRestoreStatus.ArchiveBytes omitempty":        measured,
	"QueueChannelStatus.Messages omitempty":            measured,
	"QueueChannelStatus.Batches omitempty":             measured,
	"QueueChannelStatus.InDoubt omitempty":             measured,
	"QueueChannelStatus.UncompressedBytes omitempty":   measured,
	"QueueChannelStatus.Bytes omitempty":               measured,
	"QueueChannelStatus.Recoded omitempty":             measured,
	"QueueChannelStatus.WireBytes omitempty":           measured,
	"QueueChannelStatus.Starts omitempty":              measured,
	"ReceivedChannel.Connected omitempty":              measured,
	"ReceivedChannel.Position omitempty":               measured,
	"ReceivedChannel.Messages omitempty":               measured,
	"ReceivedChannel.Batches omitempty":                measured,
	"ReceivedChannel.Bytes omitempty":                  measured,
	"HTTPStatistics.Active omitempty":                  measured,
	"HTTPStatistics.HighWater omitempty":               measured,
	"HTTPStatistics.Refused omitempty":                 measured,
	"HTTPStatistics.Reused omitempty":                  measured,
	"HTTPStatistics.TimedOut omitempty":                measured,
	"HTTPStatistics.URLErrors omitempty":               measured,
	"HTTPStatistics.Responses omitempty":               measured,
	"HTTPStatistics.HardwareCount omitempty":           measured,
	"HTTPStatistics.SoftwareCount omitempty":           measured,
	"HTTPStatistics.UncompressedCount omitempty":       measured,
	"HTTPStatistics.AverageUncompressedSize omitempty": measured,
	"HTTPCodingCount.Responses omitempty":              measured,
	"HTTPReplica.Current omitempty": "false is the important value: connections to this replica get " +
		"an older spec",
	"HTTPCoding enumcase":                               "codings are named as HTTP names them",
	"Omission.Count omitempty":                          measured,
	"Operations.Operations omitempty":                   measured,
	"Operations.Bytes omitempty":                        measured,
	"Progress.Files omitempty":                          measured,
	"Progress.FilesTotal omitempty":                     measured,
	"Progress.Bytes omitempty":                          measured,
	"Progress.BytesTotal omitempty":                     measured,
	"Progress.Percent omitempty":                        measured,
	"Progress.BytesPerSecond omitempty":                 measured,
	"Progress.UnchangedFiles omitempty":                 measured,
	"Progress.ResumedBytes omitempty":                   measured,
	"Progress.ResentBytes omitempty":                    measured,
	"Progress.Removed omitempty":                        measured,
	"Progress.ReusedBytes omitempty":                    measured,
	"Progress.HoleBytes omitempty":                      measured,
	"Progress.UnchangedBytes omitempty":                 measured,
	"QueueMember.Current omitempty":                     measured,
	"QueueMember.Leader omitempty":                      measured,
	"QueueMessages.Bytes omitempty":                     measured,
	"QueueMessages.Count omitempty":                     measured,
	"QueueRate.Count omitempty":                         measured,
	"QueueStatistics.AverageSize omitempty":             measured,
	"QueueStatistics.AverageUncompressedSize omitempty": measured,
	"QueueStatistics.Closes omitempty":                  measured,
	"QueueStatistics.Compressions omitempty":            measured,
	"QueueStatistics.Connections omitempty":             measured,
	"QueueStatistics.Consumers omitempty":               measured,
	"QueueStatistics.Decompressions omitempty":          measured,
	"QueueStatistics.Depth omitempty":                   measured,
	"QueueStatistics.Duplicates omitempty":              measured,
	"QueueStatistics.FailedAuthentications omitempty":   measured,
	"QueueStatistics.ForbiddenRequests omitempty":       measured,
	"QueueStatistics.Gets omitempty":                    measured,
	"QueueStatistics.HighWaterConnections omitempty":    measured,
	"QueueStatistics.NonPersistent omitempty":           measured,
	"QueueStatistics.Opens omitempty":                   measured,
	"QueueStatistics.Persistent omitempty":              measured,
	"QueueStatistics.Puts omitempty":                    measured,
	"QueueStatistics.Redelivered omitempty":             measured,
	"QueueStatistics.RefusedConnections omitempty":      measured,
	"QueueStatistics.RefusedPuts omitempty":             measured,
	"QueueStatistics.StoredFormGets omitempty":          measured,
	"QueueStatistics.Unacknowledged omitempty":          measured,
	"QueueVolumeSync.Count omitempty":                   measured,
	"QueueVolumeSync.Failed omitempty":                  measured,
	"EngineProfile.Verified omitempty":                  "false is the important value: this engine failed its proof",
	"Codec enumcase":                                    "codecs are named as HTTP and their standards name them",
	"ChannelCoding enumcase":                            "codecs are named as HTTP and their standards name them",
	"SoftwareEngine enumcase":                           "engines are named as their projects name them",
	"CompressionStatus.Skipped nomaps": "counters by reason; the reasons are constants, and users look " +
		"one up by its name",
	"CompressionStatus.Reasons nomaps": "counters by reason; the reasons are constants, and users look one up " +
		"by its name",
	"CompressionTrialStatus.Phase nophase":         forPeople,
	"TrialSampleStatus.Bytes omitempty":            measured,
	"TrialSampleStatus.Files omitempty":            measured,
	"TrialSampleStatus.BytesTotal omitempty":       measured,
	"TrialSampleStatus.FilesTotal omitempty":       measured,
	"TrialSampleStatus.HopelessBytes omitempty":    measured,
	"TrialNodeClass.NodeSelector nomaps":           "the field of a pod, under its name",
	"CPUHourRule.NodeSelector nomaps":              "the field of a pod, under its name",
	"DeadlinePlan.NodeSelector nomaps":             "that of a CPUHourRule",
	"CostPeriod.WireBytes omitempty":               measured,
	"CostPeriod.SavedBytes omitempty":              measured,
	"TariffStatus.PolicyCount omitempty":           measured,
	"DeliveryStatus.Phase nophase":                 forPeople,
	"TransferStatus.Phase nophase":                 forPeople,
	"ReceiptStatus.Entries omitempty":              measured,
	"ReceiptStatus.Bytes omitempty":                measured,
	"ReceiptStatus.WireBytes omitempty":            measured,
	"StatementTotal.PlainBytes omitempty":          measured,
	"StatementTotal.WireBytes omitempty":           measured,
	"TransferSpec.Receipt nobools":                 "a run is signed or it is not",
	"TransferSpec.Suspend nobools":                 "the field of CronJob and Job, and what users of GitOps tools know",
	"TransferSpec.Delete nobools":                  "the word that users of rsync and of other movers look for",
	"DeliverySpec.Delete nobools":                  "the field of the Transfer, under its name",
	"PeerGrantTo.AllowDelete nobools":              "it lifts one brake",
	"PeerGrantTo.AllowPrivileged nobools":          "it lifts one brake",
	"TransferSpec.AllowEmptySource nobools":        "it lifts one brake",
	"TransferSetSpec.Suspend nobools":              "the field of the Transfer, under its name",
	"TransferSetTemplate.Delete nobools":           "the field of the Transfer, under its name",
	"TransferSetTemplate.AllowEmptySource nobools": "the field of the Transfer, under its name",
	"TransferSetTemplate.Receipt nobools":          "the field of the Transfer, under its name",
	"TransferSetMembers.Selected omitempty":        measured,
	"TransferSetMembers.Complete omitempty":        measured,
	"TransferSetMembers.Running omitempty":         measured,
	"TransferSetMembers.Waiting omitempty":         measured,
	"TransferSetMembers.Failed omitempty":          measured,
	"TransferSetStatus.Bytes omitempty":            measured,
	"TransferSetStatus.BytesTotal omitempty":       measured,
	"TransferSetStatus.WireBytes omitempty":        measured,
	"SoftwareCompression.Disabled nobools":         "there is no third way of not compressing in software",
	"DrillSpec.Suspend nobools":                    "as in TransferSpec",
	"ClaimRequest.Written nobools":                 "a run has written or it has not",
	"DestinationStatus.Phase nophase":              forPeople,
	"TransferSpec.Pause nobools":                   "beside suspend, which it is told apart from; there is no third state",
	"TransferReference.Attempt numericbounds": "the gateway writes it; its bound is maxAttempts of the sender, which " +
		"may change",
}

func TestAPI(t *testing.T) {
	types, err := parseDir("../../api/v1alpha1")
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{
		"Transfer", "Delivery", "Peer", "PeerGrant", "NodeProfile", "CompressionPolicy", "HTTPEndpoint", "CompressionTrial",
		"Queue", "Tariff", "ObjectStore", "Statement", "TransferSet", "Drill", "LocalCompressionPolicy",
	} {
		if types[kind] == nil || len(types[kind].fields) == 0 {
			t.Fatalf("the kind %s was not found: the parser is broken", kind)
		}
	}
	used := map[string]bool{}
	for _, f := range lint(types) {
		key := f.where + " " + f.rule
		used[key] = true
		if exceptions[key] == "" {
			t.Error(f)
		}
	}
	for key := range exceptions {
		if !used[key] {
			t.Errorf("the exception %q is not needed any more; remove it", key)
		}
	}
}

// TestRules breaks each rule once.
func TestRules(t *testing.T) {
	const documented = "// name of it.\n// +optional\n"
	for _, c := range []struct{ rule, source string }{
		{"docs", "// The wrong start.\ntype T struct{}"},
		{"docs", "// T is.\ntype T struct {\n// The name.\n// +optional\nName string `json:\"name,omitempty\"`\n}"},
		{"docs", "// T is.\ntype T struct {\n// +optional\nName string `json:\"name,omitempty\"`\n}"},
		{"optionalorrequired", "// T is.\ntype T struct {\n// name of it.\nName string `json:\"name,omitempty\"`\n}"},
		{
			"optionalorrequired",
			"// T is.\ntype T struct {\n// name of it.\n// +optional\n// +required\nName string `json:\"name,omitempty\"`\n}",
		},
		{"omitempty", "// T is.\ntype T struct {\n" + documented + "Name string `json:\"name\"`\n}"},
		{"jsontags", "// T is.\ntype T struct {\n// Name of it.\n// +optional\nName string `json:\"Name,omitempty\"`\n}"},
		{"jsontags", "// T is.\ntype T struct {\n" + documented + "Other string `json:\"name,omitempty\"`\n}"},
		{
			"uniquemarkers",
			"// T is.\ntype T struct {\n" + documented + "// +optional\nName string `json:\"name,omitempty\"`\n}",
		},
		{
			"nonullable", "// T is.\ntype T struct {\n" + documented + "// +nullable\nName *string `json:\"name,omitempty\"`\n}",
		},
		{"nophase", "// T is.\ntype T struct {\n// phase of it.\n// +optional\nPhase string `json:\"phase,omitempty\"`\n}"},
		{
			"notimestamp",
			"// T is.\ntype T struct {\n// endTimestamp of it.\n// +optional\nEndTimestamp string " +
				"`json:\"endTimestamp,omitempty\"`\n}",
		},
		{"nomaps", "// T is.\ntype T struct {\n" + documented + "Name map[string]string `json:\"name,omitempty\"`\n}"},
		{"integers", "// T is.\ntype T struct {\n" + documented + "Name float64 `json:\"name,omitempty\"`\n}"},
		{"integers", "// T is.\ntype T struct {\n" + documented + "Name *uint32 `json:\"name,omitempty\"`\n}"},
		{"integers", "// T is.\ntype T struct {\n" + documented + "Name int `json:\"name,omitempty\"`\n}"},
		{"notany", "// T is.\ntype T struct {\n" + documented + "Name any `json:\"name,omitempty\"`\n}"},
		{"nobools", "// TSpec is.\ntype TSpec struct {\n" + documented + "Name bool `json:\"name,omitempty\"`\n}"},
		{"listtype", "// T is.\ntype T struct {\n" + documented + "Name []string `json:\"name,omitempty\"`\n}"},
		{
			"listtype",
			"// T is.\ntype T struct {\n" + documented +
				"// +listType=map\n// +listMapKey=key\nName []U `json:\"name,omitempty\"`\n}\n// U is.\ntype U struct{}",
		},
		{
			"conditions",
			"// T is.\ntype T struct {\n// conditions of it.\n// +optional\n// +listType=atomic\nConditions " +
				"[]metav1.Condition `json:\"conditions,omitempty\"`\n}",
		},
		{
			"conditions",
			"// K is.\n// +kubebuilder:object:root=true\n// +kubebuilder:subresource:status\ntype K struct{}\n// KStatus " +
				"is.\ntype KStatus struct{}",
		},
		{"status", "// K is.\n// +kubebuilder:object:root=true\ntype K struct{}"},
		{"maxlength", "// TSpec is.\ntype TSpec struct {\n" + documented + "Name string `json:\"name,omitempty\"`\n}"},
		{
			"maxlength",
			"// TSpec is.\ntype TSpec struct {\n// u of it.\n// +optional\nU *U `json:\"u,omitempty\"`\n}\n// U is.\ntype U " +
				"struct {\n" + documented + "Name []byte `json:\"name,omitempty\"`\n}",
		},
		{
			"maxitems",
			"// TSpec is.\ntype TSpec struct {\n" + documented +
				"// +listType=set\n// +kubebuilder:validation:items:MaxLength=1\nName []string `json:\"name,omitempty\"`\n}",
		},
		{
			"numericbounds",
			"// TSpec is.\ntype TSpec struct {\n" + documented +
				"// +kubebuilder:validation:Minimum=1\nName int32 `json:\"name,omitempty\"`\n}",
		},
		{
			"optionalstruct",
			"// TSpec is.\ntype TSpec struct {\n// u of it.\n// +optional\nU U `json:\"u,omitempty\"`\n}\n// U is.\ntype U " +
				"struct{}",
		},
		{
			"defaults",
			"// TSpec is.\ntype TSpec struct {\n// name of it.\n// +required\n// +default=1\n// " +
				"+kubebuilder:validation:Minimum=1\n// +kubebuilder:validation:Maximum=2\nName int32 `json:\"name,omitempty\"`\n}",
		},
		{
			"enum",
			"// E is.\n// +kubebuilder:validation:Enum=A;B\ntype E string\nconst (\nA E = \"A\"\nC E = \"B\"\nD E = \"D\"\n)",
		},
		{"enumcase", "// E is.\n// +kubebuilder:validation:Enum=a\ntype E string\nconst A E = \"a\""},
	} {
		types := map[string]*typeDecl{}
		if err := parseFile(types, "t.go", []byte("package p\n"+c.source)); err != nil {
			t.Fatalf("%s: %v", c.source, err)
		}
		found := lint(types)
		if len(found) != 1 || found[0].rule != c.rule {
			t.Errorf("found %v, want one of rule %s, in\n%s", found, c.rule, indent(c.source))
		}
	}
}

// TestClean has nothing to find.
func TestClean(t *testing.T) {
	types := map[string]*typeDecl{}
	source := "package p\n// TSpec is.\ntype TSpec struct {\n// name of it.\n// +required\n// " +
		"+kubebuilder:validation:MaxLength=63\nName string `json:\"name,omitempty\"`\n}"
	if err := parseFile(types, "t.go", []byte(source)); err != nil {
		t.Fatal(err)
	}
	if found := lint(types); len(found) != 0 {
		t.Errorf("found %v", found)
	}
}

func indent(s string) string { return "\t" + strings.ReplaceAll(s, "\n", "\n\t") }
