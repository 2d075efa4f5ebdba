// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"fmt"
	"math"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentreport"
	"github.com/lighterage/lighterage/controllers/agentsecret"
	"github.com/lighterage/lighterage/controllers/replicas"
)

const (
	// maxDictionaries is how many a queue keeps at most. What agents say is not trusted.
	maxDictionaries = 16
	// maxDictionariesMessage bounds status.dictionaries.message, in bytes.
	maxDictionariesMessage = 512
)

// wantsDictionaries reports whether messages are to refer to dictionaries when all members know them.
func wantsDictionaries(queue *v1alpha1.Queue) bool {
	compression := queue.Spec.Compression
	return compression != nil && compression.Dictionaries == v1alpha1.QueueDictionariesAuto &&
		queue.Spec.Engine.External == nil
}

// knowDictionaries reports whether all members read messages that refer to dictionaries, and whether also to those of
// deflate. Members that did not answer are as they were when the StatefulSet was last written.
func knowDictionaries(set *appsv1.StatefulSet, members []Member, wanted int32) (all, deflate bool) {
	all, deflate = true, true
	heard := int32(0)
	for _, member := range members {
		if member.Report == nil {
			continue
		}
		heard++
		known := member.Report.GetDictionaries()
		all, deflate = all && known != nil, deflate && known.GetDeflate()
	}
	if heard >= wanted || !all {
		return all, deflate
	}
	before := &wirev1.QueueConfig{}
	if set == nil {
		return false, false
	}
	if _, known := agentsecret.Recorded(set, before); !known {
		return false, false
	}
	return before.GetDictionaries(), deflate && before.GetDeflateDictionaries()
}

// dictionariesStatus is what members say, or what was known last.
func dictionariesStatus(
	queue *v1alpha1.Queue, wanted *Wanted, members []Member, before *v1alpha1.QueueDictionariesStatus,
) *v1alpha1.QueueDictionariesStatus {
	leading := leadingDictionaries(members)
	kept, deflate := keptDictionaries(leading, before)
	auto := queue.Spec.Compression != nil && queue.Spec.Compression.Dictionaries == v1alpha1.QueueDictionariesAuto
	if !auto && kept == 0 {
		return nil
	}
	status := &v1alpha1.QueueDictionariesStatus{Kept: kept, KeptDeflate: deflate}
	for _, member := range members {
		n := replicas.Clamp(member.Report.GetDictionaries().GetMessages())
		status.Messages += min(n, math.MaxInt64-status.Messages)
	}
	status.Current = dictionaryStatus(leading.GetCurrent())
	switch {
	case !auto:
		status.Message = fmt.Sprintf("%d dictionaries stay until the messages that refer to them have left", kept)
		if problem := leading.GetProblem(); problem != "" {
			status.Message += "; " + problem
		}
	case queue.Spec.Engine.External != nil:
		status.Message = "dictionaries are for members' own storage, and external servers keep the messages"
	case wanted == nil || !wanted.Config.GetDictionaries():
		status.Message = "members do not all know dictionaries yet: all have to answer, and to be of this release"
	case leading == nil:
		status.Message = "the member that leads does not answer"
	case status.Current != nil && leading.GetProblem() != "":
		status.Message = fmt.Sprintf("%s is in use; %s", nameOf(leading.GetCurrent()), leading.GetProblem())
	case status.Current != nil:
		status.Message = nameOf(leading.GetCurrent()) + " is in use"
	case leading.GetProblem() != "":
		status.Message = "no dictionary is in use: " + leading.GetProblem()
	default:
		status.Message = "no dictionary is in use yet"
	}
	status.Message = agentreport.Plain(status.Message, maxDictionariesMessage)
	return status
}

// leadingDictionaries is what the member that leads says; nil: it did not answer.
func leadingDictionaries(members []Member) *wirev1.QueueDictionaries {
	leader := contentOf(members).GetLeader()
	for _, member := range members {
		if leader != "" && member.Pod.Name == leader {
			return member.Report.GetDictionaries()
		}
	}
	return nil
}

// keptDictionaries is how many there are, and how many of them are of deflate. While the member that leads does not
// know, it is what was known last.
func keptDictionaries(
	leading *wirev1.QueueDictionaries, before *v1alpha1.QueueDictionariesStatus,
) (all, deflate int32) {
	if leading == nil || leading.KeptDeflate == nil && leading.GetKept() == 0 {
		if before == nil {
			return 0, 0
		}
		return max(before.Kept, 0), max(before.KeptDeflate, 0)
	}
	kept := min(leading.GetKept(), maxDictionaries)
	return int32(kept), int32(min(leading.GetKeptDeflate(), kept))
}

// codecOf a dictionary. The first release with them does not say that one is of zstd.
func codecOf(d *wirev1.QueueDictionary) v1alpha1.Codec {
	if d.GetCodec() == string(v1alpha1.CodecDeflate) {
		return v1alpha1.CodecDeflate
	}
	return v1alpha1.CodecZstd
}

// nameOf a dictionary, for people.
func nameOf(d *wirev1.QueueDictionary) string {
	return fmt.Sprintf("dictionary %d of %s", d.GetNumber(), codecOf(d))
}

// dictionaryStatus is nil if there is none, or one that no agent of this release has.
func dictionaryStatus(d *wirev1.QueueDictionary) *v1alpha1.QueueDictionary {
	if d.GetNumber() == 0 {
		return nil
	}
	saved := func(wire uint64) string {
		return strconv.FormatFloat(100*(1-float64(wire)/max(float64(d.GetPlainBytes()), 1)), 'f', 1, 64)
	}
	var trained *metav1.Time
	if stamp := d.GetTrainedTime(); stamp.IsValid() {
		// The API keeps whole seconds; anything finer would differ with every reading.
		trained = ptr.To(metav1.NewTime(stamp.AsTime()).Rfc3339Copy())
	}
	with := float64(d.GetCompressNanos()) + float64(d.GetInflateNanos())
	without := float64(d.GetCompressNanosWithout()) + float64(d.GetInflateNanosWithout())
	return &v1alpha1.QueueDictionary{
		Number: int64(d.GetNumber()), Codec: codecOf(d), TrainedTime: trained,
		Bytes:               int32(min(d.GetBytes(), math.MaxInt32)),
		TrainingMessages:    int32(min(d.GetTrainingMessages(), math.MaxInt32)),
		MeasuredMessages:    int32(min(d.GetMeasuredMessages(), math.MaxInt32)),
		SavedPercent:        saved(d.GetWireBytes()),
		SavedPercentWithout: saved(d.GetWireBytesWithout()),
		CPURatio:            strconv.FormatFloat(with/max(without, 1), 'f', 2, 64),
	}
}
