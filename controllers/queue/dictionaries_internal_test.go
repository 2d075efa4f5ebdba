// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"math"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentsecret"
)

// TestKnowDictionaries: messages refer to dictionaries when all members know them, and as before while one does not
// answer; those of deflate not all releases know that know any.
func TestKnowDictionaries(t *testing.T) {
	knows := Member{Report: &wirev1.QueueReport{Dictionaries: &wirev1.QueueDictionaries{}}}
	deflate := Member{Report: &wirev1.QueueReport{Dictionaries: &wirev1.QueueDictionaries{Deflate: true}}}
	older, silent := Member{Report: &wirev1.QueueReport{}}, Member{}
	set := func(dictionaries, ofDeflate bool) *appsv1.StatefulSet {
		record, err := agentsecret.Content{
			Config: &wirev1.QueueConfig{Dictionaries: dictionaries, DeflateDictionaries: ofDeflate}, Revision: "1",
		}.Record()
		if err != nil {
			t.Fatal(err)
		}
		return &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Annotations: record}}
	}
	for name, test := range map[string]struct {
		set     *appsv1.StatefulSet
		members []Member
		want    [2]bool
	}{
		"nobody is there":                   {nil, nil, [2]bool{false, false}},
		"all know":                          {nil, []Member{knows, knows, knows}, [2]bool{true, false}},
		"one is older":                      {set(true, false), []Member{knows, older, knows}, [2]bool{false, false}},
		"one is older, and one silent":      {set(true, true), []Member{silent, older, knows}, [2]bool{false, false}},
		"one is silent, and they were used": {set(true, false), []Member{knows, silent, knows}, [2]bool{true, false}},
		"one is silent, and they were not":  {set(false, false), []Member{knows, silent, knows}, [2]bool{false, false}},
		"one is missing, and they were not": {set(false, false), []Member{knows, knows}, [2]bool{false, false}},
		"all are silent, and they were":     {set(true, true), []Member{silent, silent, silent}, [2]bool{true, true}},
		"a StatefulSet without a record":    {&appsv1.StatefulSet{}, []Member{silent, knows, knows}, [2]bool{false, false}},
		"all know deflate":                  {nil, []Member{deflate, deflate, deflate}, [2]bool{true, true}},
		"one knows zstd alone":              {set(true, true), []Member{deflate, knows, deflate}, [2]bool{true, false}},
		"one of deflate is silent":          {set(true, true), []Member{deflate, silent, deflate}, [2]bool{true, true}},
		"one is silent, one knows zstd":     {set(true, true), []Member{deflate, silent, knows}, [2]bool{true, false}},
		"one is older, others know deflate": {set(true, true), []Member{deflate, older, deflate}, [2]bool{false, false}},
	} {
		all, ofDeflate := knowDictionaries(test.set, test.members, 3)
		if got := [2]bool{all, ofDeflate}; got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestWantsDictionaries: they are for who asks for them, and for members' own storage.
func TestWantsDictionaries(t *testing.T) {
	q := &v1alpha1.Queue{}
	if wantsDictionaries(q) {
		t.Error("nobody asked for them")
	}
	q.Spec.Compression = &v1alpha1.QueueCompression{Dictionaries: v1alpha1.QueueDictionariesNever}
	if wantsDictionaries(q) {
		t.Error("they are not wanted")
	}
	q.Spec.Compression.Dictionaries = v1alpha1.QueueDictionariesAuto
	if !wantsDictionaries(q) {
		t.Error("they are wanted")
	}
	q.Spec.Engine.External = &v1alpha1.QueueExternal{}
	if wantsDictionaries(q) {
		t.Error("external servers have them")
	}
}

// TestDictionariesStatus: status shows what the member that leads says, and is absent when no message needs one.
func TestDictionariesStatus(t *testing.T) {
	member := func(name string, d *wirev1.QueueDictionaries) Member {
		return Member{Pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}}, Report: &wirev1.QueueReport{
			Content: &wirev1.QueueContent{Leader: "orders-1"}, Statistics: &wirev1.QueueStatistics{}, Dictionaries: d,
		}}
	}
	q := &v1alpha1.Queue{}
	wanted := &Wanted{Config: &wirev1.QueueConfig{Dictionaries: true}}
	follower := member("orders-0", &wirev1.QueueDictionaries{Kept: 9, Messages: 5, Problem: "of a follower"})
	leader := func(d *wirev1.QueueDictionaries) []Member { return []Member{follower, member("orders-1", d)} }
	show := func(members []Member, before *v1alpha1.QueueDictionariesStatus) *v1alpha1.QueueDictionariesStatus {
		return dictionariesStatus(q, wanted, members, before)
	}
	if s := show(leader(&wirev1.QueueDictionaries{}), nil); s != nil {
		t.Errorf("nobody asked: %+v", s)
	}
	old := show(leader(&wirev1.QueueDictionaries{Kept: 2}), nil)
	if old == nil || old.Kept != 2 || old.Message == "" || old.Current != nil {
		t.Fatalf("messages refer to two: %+v", old)
	}
	if s := show(leader(&wirev1.QueueDictionaries{Kept: 2, Problem: "full"}), nil); s == nil || s.Message == old.Message {
		t.Errorf("the one in use stays in use for a reason: %+v", s)
	}
	if s := show([]Member{follower}, old); s == nil || s.Kept != 2 {
		t.Errorf("the member that leads does not answer: %+v", s)
	}
	// Not in use any more, and messages refer to them.
	mixed := show(leader(&wirev1.QueueDictionaries{Kept: 3, KeptDeflate: new(uint32(2)), Deflate: true}), old)
	if mixed == nil || mixed.Kept != 3 || mixed.KeptDeflate != 2 || mixed.Current != nil {
		t.Fatalf("two of three are of deflate: %+v", mixed)
	}
	for what, members := range map[string][]Member{
		"does not answer": {follower}, "has just begun": leader(&wirev1.QueueDictionaries{Deflate: true}),
	} {
		if s := show(members, mixed); s == nil || s.Kept != 3 || s.KeptDeflate != 2 {
			t.Errorf("the member that leads %s: %+v", what, s)
		}
	}
	if s := show(leader(&wirev1.QueueDictionaries{Kept: 1, KeptDeflate: new(uint32(0))}), mixed); s == nil ||
		s.Kept != 1 || s.KeptDeflate != 0 {
		t.Errorf("those of deflate are deleted: %+v", s)
	}
	if s := show(leader(&wirev1.QueueDictionaries{KeptDeflate: new(uint32(0))}), mixed); s != nil {
		t.Errorf("all are deleted: %+v", s)
	}
	q.Spec.Compression = &v1alpha1.QueueCompression{Dictionaries: v1alpha1.QueueDictionariesAuto}
	texts := map[string]bool{}
	for name, members := range map[string][]Member{
		"none yet": leader(&wirev1.QueueDictionaries{}), "a problem": leader(&wirev1.QueueDictionaries{Problem: "few"}),
		"no leader": {follower}, "in use": leader(&wirev1.QueueDictionaries{Current: &wirev1.QueueDictionary{Number: 7}}),
		"of deflate": leader(&wirev1.QueueDictionaries{Current: &wirev1.QueueDictionary{Number: 7, Codec: "deflate"}}),
		"in use, and a problem": leader(&wirev1.QueueDictionaries{
			Current: &wirev1.QueueDictionary{Number: 7}, Problem: "few",
		}),
	} {
		s := show(members, nil)
		if s == nil || s.Message == "" || texts[s.Message] {
			t.Fatalf("%s: %+v", name, s)
		}
		texts[s.Message] = true
	}
	s := show(leader(&wirev1.QueueDictionaries{
		Kept: 3, Messages: 6, Current: &wirev1.QueueDictionary{
			Number: 70000, TrainedTime: timestamppb.Now(), Bytes: 65000, TrainingMessages: 1500, MeasuredMessages: 500,
			PlainBytes: 1000,
			WireBytes:  220, WireBytesWithout: 550, CompressNanos: 30, CompressNanosWithout: 40, InflateNanos: 10,
			InflateNanosWithout: 10,
		},
	}), nil)
	if s.Kept != 3 || s.Messages != 11 || s.Current == nil || s.Current.Number != 70000 || s.Current.Bytes != 65000 ||
		s.Current.Codec != v1alpha1.CodecZstd || s.Current.TrainingMessages != 1500 || s.Current.MeasuredMessages != 500 ||
		s.Current.SavedPercent != "78.0" || s.Current.SavedPercentWithout != "45.0" ||
		s.Current.CPURatio != "0.80" || s.Current.TrainedTime == nil {
		t.Errorf("%+v, %+v", s, s.Current)
	}
	// The API keeps whole seconds.
	if at := s.Current.TrainedTime; !at.Equal(ptr.To(at.Rfc3339Copy())) {
		t.Errorf("trained at %v, which differs from what is read again", at)
	}
	endless := uint64(math.MaxUint64)
	s = show(append(leader(&wirev1.QueueDictionaries{
		Kept: math.MaxUint32, KeptDeflate: new(uint32(math.MaxUint32)), Messages: endless,
		Problem: strings.Repeat("no ", 1000), Current: &wirev1.QueueDictionary{
			Number: math.MaxUint32, TrainedTime: &timestamppb.Timestamp{Seconds: math.MaxInt64}, Bytes: math.MaxUint32,
			TrainingMessages: math.MaxUint32, MeasuredMessages: math.MaxUint32, Codec: "deflate", PlainBytes: 1,
			WireBytes: endless, WireBytesWithout: endless,
			CompressNanos: endless, InflateNanos: 1, CompressNanosWithout: endless, InflateNanosWithout: 1,
		},
	}), follower), nil)
	if s.Kept != 16 || s.KeptDeflate != 16 || s.Messages != math.MaxInt64 || len(s.Message) > 512 || s.Current == nil ||
		s.Current.Bytes < 0 ||
		s.Current.TrainingMessages < 0 || s.Current.MeasuredMessages < 0 || s.Current.Codec != v1alpha1.CodecDeflate ||
		s.Current.TrainedTime != nil || s.Current.CPURatio != "1.00" {
		t.Errorf("what no agent has: %+v, %+v", s, s.Current)
	}
	wanted.Config.Dictionaries = false
	if later := show(leader(&wirev1.QueueDictionaries{}), nil); later == nil || texts[later.Message] {
		t.Errorf("not all members know them: %+v", later)
	}
}
