// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package trialplan

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"google.golang.org/protobuf/proto"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentreport"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/recommend"
)

const (
	// maxResults is what the API allows, maxResultText bounds names and problems in bytes, maxSilence why an agent gave
	// no sample, maxDictionaries how many there are by the API, maxDictionaryRows how many levels one has, and
	// maxDictionary its length in bytes.
	maxResults, maxResultText, maxSilence             = 32, 128, 256
	maxDictionaries, maxDictionaryRows, maxDictionary = 8, 3, 64 << 10
)

// apply shows in status what the agent found, and what follows from it. The error says what is wrong with a result
// that cannot be used; status is as it was then.
func apply(trial *v1alpha1.CompressionTrial, encoded []byte) error {
	result := &wirev1.TrialResult{}
	if len(encoded) == 0 {
		return errors.New("there is none")
	}
	if err := proto.Unmarshal(encoded, result); err != nil {
		return fmt.Errorf("decoding it: %w", err)
	}
	links := trial.Status.Links
	if err := checkResult(result, len(links)); err != nil {
		return err
	}
	result = agentreport.Bounded(result)
	status := &trial.Status
	status.Results = nil
	for _, row := range result.GetRows() {
		status.Results = append(status.Results, trialResult(row, result, links, status.Policy))
	}
	sample := result.GetSample()
	status.Sample = &v1alpha1.TrialSampleStatus{
		Bytes: agentreport.Clamp(sample.GetBytes()), Files: agentreport.Clamp(sample.GetFiles()),
		BytesTotal: agentreport.Clamp(sample.GetBytesTotal()), FilesTotal: agentreport.Clamp(sample.GetFilesTotal()),
		HopelessBytes: agentreport.Clamp(
			sample.GetHopelessBytes(),
		), ChangedFiles: agentreport.Clamp(sample.GetChangedFiles()),
		Unit: trialUnits[sample.GetUnit()], Items: agentreport.Clamp(
			sample.GetItems(),
		), ItemsTotal: agentreport.Clamp(sample.GetItemsTotal()),
		CutItems: agentreport.Clamp(sample.GetCutItems()), UnreadableItems: agentreport.Clamp(sample.GetUnreadableItems()),
		Agents: agentreport.Clamp(
			sample.GetAgents(),
		), SilentAgents: agentreport.Clamp(sample.GetSilentAgents()), SilentMessage: sample.GetSilence(),
	}
	status.Cores = int32(min(result.GetCores(), math.MaxInt32))
	status.Accelerator = accelerator(result.GetAccelerator())
	status.Dictionary, status.Dictionaries = nil, nil
	for _, d := range dictionariesOf(result) {
		status.Dictionaries = append(status.Dictionaries, dictionary(d))
	}
	zstd := func(d v1alpha1.TrialDictionary) bool { return d.Codec == string(v1alpha1.CodecZstd) }
	if i := slices.IndexFunc(status.Dictionaries, zstd); i >= 0 {
		status.Dictionary = status.Dictionaries[i].DeepCopy()
	}
	best := make([]int, len(links))
	for i, row := range result.GetBest() {
		best[i] = int(row)
	}
	recommendation, err := recommend.Recommend(recommend.Input{
		Name: trial.Name, Namespace: trial.Namespace, Status: status, Best: best, Current: policyOf(status.Policy),
	})
	if err != nil {
		return err
	}
	status.Recommendation = recommendation
	return nil
}

func policyOf(status *v1alpha1.PolicyStatus) v1alpha1.PolicyStatus {
	if status == nil {
		return v1alpha1.PolicyStatus{}
	}
	return *status
}

// checkResult refuses what no agent of this version makes.
func checkResult(r *wirev1.TrialResult, links int) error {
	rows := r.GetRows()
	switch {
	case len(rows) == 0 || len(rows) > maxResults:
		return fmt.Errorf("it has %d rows", len(rows))
	case rows[0].GetCodec() != "none" || rows[0].GetProblem() != "":
		return errors.New("its first row is not to compress nothing")
	case r.GetSample().GetBytes() == 0:
		return errors.New("its sample is empty")
	case trialUnits[r.GetSample().GetUnit()] == "":
		return fmt.Errorf("its sample is of unit %d", r.GetSample().GetUnit())
	case len(r.GetSample().GetSilence()) > maxSilence:
		return errors.New("it has a long text of an agent that gave no sample")
	case len(r.GetBest()) != links:
		return fmt.Errorf("it has what is best over %d links of %d", len(r.GetBest()), links)
	case len(r.GetWaitCpuNanos()) != links || len(r.GetWaitCostNanos()) != links:
		return fmt.Errorf(
			"it has what waiting takes over %d links and costs over %d, of %d", len(r.GetWaitCpuNanos()),
			len(r.GetWaitCostNanos()), links,
		)
	}
	for i, row := range rows {
		switch {
		case len(row.GetCodec()) > maxResultText || len(row.GetEngine()) > maxResultText ||
			len(row.GetProblem()) > maxResultText:
			return fmt.Errorf("row %d has a long text", i)
		case row.GetProblem() == "" && (row.GetWireBytes() == 0 || len(row.GetElapsedNanos()) != links):
			return fmt.Errorf("row %d lacks figures", i)
		}
	}
	if n := len(r.GetDictionaries()); n > maxDictionaries {
		return fmt.Errorf("it has %d dictionaries", n)
	}
	for _, d := range dictionariesOf(r) {
		if err := checkDictionary(d, r.GetSample()); err != nil {
			return err
		}
	}
	for _, best := range r.GetBest() {
		if int(best) >= len(rows) || rows[best].GetProblem() != "" {
			return fmt.Errorf("its best row %d is none", best)
		}
	}
	return nil
}

// dictionariesOf are what a result has, also one of an agent of an earlier release.
func dictionariesOf(r *wirev1.TrialResult) []*wirev1.TrialDictionary {
	if d := r.GetDictionary(); d != nil && len(r.GetDictionaries()) == 0 {
		return []*wirev1.TrialDictionary{d}
	}
	return r.GetDictionaries()
}

func checkDictionary(d *wirev1.TrialDictionary, sample *wirev1.TrialSample) error {
	measured := len(d.GetRows()) > 0
	switch {
	case sample.GetUnit() != wirev1.TrialUnit_TRIAL_UNIT_MESSAGE:
		return errors.New("it has a dictionary, and its sample is not of messages")
	case measured == (d.GetProblem() != ""):
		return errors.New("its dictionary has neither rows nor a problem, or both")
	case d.GetBytes() > maxDictionary || measured && d.GetBytes() == 0:
		return fmt.Errorf("its dictionary has %d bytes", d.GetBytes())
	case d.GetItems() > sample.GetItems() || d.GetTrainingItems() > sample.GetItems()-d.GetItems():
		return fmt.Errorf(
			"its dictionary was trained on %d and measured on %d of %d messages", d.GetTrainingItems(), d.GetItems(),
			sample.GetItems(),
		)
	case len(d.GetCodec()) > maxResultText || len(d.GetEngine()) > maxResultText || len(d.GetProblem()) > maxResultText:
		return errors.New("its dictionary has a long text")
	case len(d.GetRows()) > maxDictionaryRows:
		return fmt.Errorf("its dictionary has %d rows", len(d.GetRows()))
	case measured && d.GetPlainBytes() == 0:
		return errors.New("its dictionary was measured on nothing")
	}
	var last wirev1.CompressionLevel
	for i, row := range d.GetRows() {
		if row.GetLevel() <= last {
			return fmt.Errorf("the levels of its dictionary do not ascend at row %d", i)
		}
		last = row.GetLevel()
		if row.GetWireBytes() == 0 || row.GetWireBytesWithout() == 0 || wireLevels[row.GetLevel()] == "" {
			return fmt.Errorf("row %d of its dictionary lacks figures", i)
		}
	}
	return nil
}

func dictionary(d *wirev1.TrialDictionary) v1alpha1.TrialDictionary {
	status := v1alpha1.TrialDictionary{
		Codec:  cmp.Or(d.GetCodec(), string(v1alpha1.CodecZstd)),
		Engine: d.GetEngine(), Bytes: agentreport.Clamp(d.GetBytes()), Problem: d.GetProblem(),
		TrainingItems: agentreport.Clamp(d.GetTrainingItems()), Items: agentreport.Clamp(d.GetItems()),
	}
	ratio := func(wire uint64) string {
		return strconv.FormatFloat(float64(d.GetPlainBytes())/float64(wire), 'f', 3, 64)
	}
	for _, row := range d.GetRows() {
		status.Results = append(status.Results, v1alpha1.TrialDictionaryResult{
			Level: wireLevels[row.GetLevel()],
			Ratio: ratio(row.GetWireBytes()), RatioWithout: ratio(row.GetWireBytesWithout()),
			CompressSecondsPerGiB:          agentreport.Seconds(float64(row.GetCompressNanos())),
			CompressSecondsPerGiBWithout:   agentreport.Seconds(float64(row.GetCompressNanosWithout())),
			DecompressSecondsPerGiB:        agentreport.Seconds(float64(row.GetInflateNanos())),
			DecompressSecondsPerGiBWithout: agentreport.Seconds(float64(row.GetInflateNanosWithout())),
		})
	}
	return status
}

func trialResult(
	row *wirev1.TrialRow, of *wirev1.TrialResult, links []v1alpha1.TrialLink, p *v1alpha1.PolicyStatus,
) v1alpha1.TrialResult {
	result := v1alpha1.TrialResult{
		Codec: row.GetCodec(), Engine: row.GetEngine(), Level: wireLevels[row.GetLevel()], Problem: row.GetProblem(),
	}
	if result.Problem != "" {
		return result
	}
	wire := float64(row.GetWireBytes()) / float64(of.GetSample().GetBytes())
	result.Ratio = strconv.FormatFloat(1/wire, 'f', 3, 64)
	result.CompressSecondsPerGiB = agentreport.Seconds(float64(row.GetCompressNanos()))
	result.DecompressSecondsPerGiB = agentreport.Seconds(float64(row.GetInflateNanos()))
	for i, link := range links {
		prediction := v1alpha1.TrialPrediction{
			Link: link.Name, SecondsPerGiB: agentreport.Seconds(float64(row.GetElapsedNanos()[i])),
			CPUSecondsPerGiB: agentreport.Seconds(float64(row.GetCpuNanos()) + float64(of.GetWaitCpuNanos()[i])*wire),
		}
		if p != nil && p.Prices != nil {
			prediction.CostPerGiB = agentreport.Trimmed(
				(float64(row.GetCostNanos())+float64(of.GetWaitCostNanos()[i])*wire)/1e9, 6,
			)
		}
		result.Predictions = append(result.Predictions, prediction)
	}
	return result
}

var trialUnits = map[wirev1.TrialUnit]v1alpha1.TrialUnit{
	wirev1.TrialUnit_TRIAL_UNIT_UNSPECIFIED: v1alpha1.TrialUnitBlock,
	wirev1.TrialUnit_TRIAL_UNIT_BODY:        v1alpha1.TrialUnitBody,
	wirev1.TrialUnit_TRIAL_UNIT_MESSAGE:     v1alpha1.TrialUnitMessage,
}

var wireLevels = map[wirev1.CompressionLevel]string{
	wirev1.CompressionLevel_COMPRESSION_LEVEL_FAST:     string(v1alpha1.CompressionFast),
	wirev1.CompressionLevel_COMPRESSION_LEVEL_BALANCED: string(v1alpha1.CompressionBalanced),
	wirev1.CompressionLevel_COMPRESSION_LEVEL_HIGH:     string(v1alpha1.CompressionHigh),
}

// accelerator is nil when nothing usable is said of it.
func accelerator(a *wirev1.AcceleratorMeasurement) *v1alpha1.AcceleratorProfile {
	states := map[wirev1.AcceleratorState]v1alpha1.AcceleratorState{
		wirev1.AcceleratorState_ACCELERATOR_STATE_ABSENT:   v1alpha1.AcceleratorAbsent,
		wirev1.AcceleratorState_ACCELERATOR_STATE_NOT_USED: v1alpha1.AcceleratorNotUsed,
		wirev1.AcceleratorState_ACCELERATOR_STATE_VERIFIED: v1alpha1.AcceleratorVerified,
	}
	state, known := states[a.GetState()]
	if !known {
		return nil
	}
	return &v1alpha1.AcceleratorProfile{
		State: state, Reason: conditions.Shorten(a.GetReason()), Message: conditions.Shorten(a.GetMessage()),
		SlowerThanSoftware: a.GetSlowerThanSoftware(),
		InflateMinSize:     agentreport.Clamp(a.GetInflateMinSize()),
	}
}
