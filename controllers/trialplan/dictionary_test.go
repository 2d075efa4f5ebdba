// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package trialplan_test

import (
	"reflect"
	"testing"

	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/api/equality"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/trialplan"
)

// trialDictionary is what an agent finds of messages.
func trialDictionary() *wirev1.TrialDictionary {
	return &wirev1.TrialDictionary{
		Engine: "libzstd", Bytes: 64 << 10, TrainingItems: 100, Items: 101, PlainBytes: 100_000,
		Rows: []*wirev1.TrialDictionaryRow{{
			Level: wirev1.CompressionLevel_COMPRESSION_LEVEL_FAST, WireBytes: 20_000, WireBytesWithout: 40_000,
			CompressNanos: 5e9, CompressNanosWithout: 6e9, InflateNanos: 1e9, InflateNanosWithout: 2e9,
		}},
	}
}

// messageResult is trialResult of messages, with a dictionary of two levels and one of deflate.
func messageResult() *wirev1.TrialResult {
	result := trialResult()
	result.Sample.Unit, result.Sample.Items = wirev1.TrialUnit_TRIAL_UNIT_MESSAGE, 201
	first, second := trialDictionary(), trialDictionary()
	high := proto.CloneOf(first.Rows[0])
	high.Level = wirev1.CompressionLevel_COMPRESSION_LEVEL_HIGH
	first.Rows, second.Codec = append(first.Rows, high), "deflate"
	result.Dictionaries = []*wirev1.TrialDictionary{first, second}
	return result
}

// TestTrialOfDictionaries: what they do is shown, and why there are none. An agent of an earlier release has one, which
// is of zstd.
func TestTrialOfDictionaries(t *testing.T) {
	shown := func(codec, engine string) v1alpha1.TrialDictionary {
		return v1alpha1.TrialDictionary{
			Codec: codec, Engine: engine, Bytes: 64 << 10, TrainingItems: 100, Items: 101,
			Results: []v1alpha1.TrialDictionaryResult{{
				Level: "Fast", Ratio: "5.000", RatioWithout: "2.500", CompressSecondsPerGiB: "5.00",
				CompressSecondsPerGiBWithout: "6.00", DecompressSecondsPerGiB: "1.00", DecompressSecondsPerGiBWithout: "2.00",
			}},
		}
	}
	deflate, zstd, few := trialDictionary(), trialDictionary(), &wirev1.TrialDictionary{
		Codec: "deflate", Engine: "isa-l", Items: 3, Problem: "few",
	}
	deflate.Codec, deflate.Engine, zstd.Codec = "deflate", "isa-l", "zstd"
	ofZstd := shown("zstd", "libzstd")
	for name, test := range map[string]struct {
		found   []*wirev1.TrialDictionary
		earlier *wirev1.TrialDictionary
		want    []v1alpha1.TrialDictionary
		first   *v1alpha1.TrialDictionary
	}{
		"none": {},
		"figures": {
			found: []*wirev1.TrialDictionary{deflate, zstd},
			want:  []v1alpha1.TrialDictionary{shown("deflate", "isa-l"), ofZstd}, first: &ofZstd,
		},
		"an earlier agent": {
			earlier: trialDictionary(), want: []v1alpha1.TrialDictionary{ofZstd}, first: &ofZstd,
		},
		"a problem": {
			found: []*wirev1.TrialDictionary{few},
			want:  []v1alpha1.TrialDictionary{{Codec: "deflate", Engine: "isa-l", Items: 3, Problem: "few"}},
		},
	} {
		trial, facts := runningTrial()
		result := trialResult()
		result.Dictionaries, result.Dictionary = test.found, test.earlier
		result.Sample.Unit, result.Sample.Items = wirev1.TrialUnit_TRIAL_UNIT_MESSAGE, 201
		facts.Pod = ended(0, "", trialReport(t, result))
		trial.Status = trialplan.Decide(trial, facts, image).Status
		if s := trial.Status; !reflect.DeepEqual(s.Dictionaries, test.want) || !reflect.DeepEqual(s.Dictionary, test.first) {
			t.Errorf("%s: %+v and %+v, want %+v and %+v", name, s.Dictionaries, s.Dictionary, test.want, test.first)
		}
		if d := trialplan.Decide(trial, facts, image); !equality.Semantic.DeepEqual(d.Status, trial.Status) {
			t.Errorf("%s: decided once more: %+v, want %+v", name, d.Status, trial.Status)
		}
		trial.Annotations = map[string]string{v1alpha1.RunAnnotation: "again"}
		facts.NewRunID = "fghij"
		if s := trialplan.Decide(trial, facts, image).Status; s.Dictionary != nil || s.Dictionaries != nil {
			t.Errorf("%s: the next run begins with %+v and %+v", name, s.Dictionary, s.Dictionaries)
		}
	}
}
