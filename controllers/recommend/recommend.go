// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package recommend makes a policy of what a CompressionTrial found, and says why. It is pure.
package recommend

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/placement"
)

const none = "none"

// Input is what a trial found.
type Input struct {
	// Name of the trial, which the policy gets.
	Name string
	// Namespace is that of a LocalCompressionPolicy.
	Namespace string
	// Status has sample, links, results and accelerator.
	Status *v1alpha1.CompressionTrialStatus
	// Best has for each link the index of the best result by the objective, which has figures. The first result is to
	// compress nothing.
	Best []int
	// Current is the policy that the trial was made for.
	Current v1alpha1.PolicyStatus
}

// Recommend returns the policy.
func Recommend(in Input) (*v1alpha1.TrialRecommendation, error) {
	r := &v1alpha1.TrialRecommendation{}
	for i, link := range in.Status.Links {
		r.Choices = append(r.Choices, in.choice(link, i))
	}
	spec, why := in.spec()
	kind, named := "CompressionPolicy", metadata{Name: in.Name}
	if in.Current.IsLocal() {
		kind, spec.TariffName, spec.Prices, named.Namespace = v1alpha1.LocalPolicyKind, "", nil, in.Namespace
	}
	text, err := yaml.Marshal(document{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: kind, Metadata: named, Spec: spec,
	})
	if err != nil {
		return nil, fmt.Errorf("writing the recommended policy: %w", err)
	}
	r.Policy, r.Message = string(text), conditions.Shorten(why)
	return r, nil
}

// document is a policy without what the API server adds. A LocalCompressionPolicy has some of the fields.
type document struct {
	APIVersion string                         `json:"apiVersion"`
	Kind       string                         `json:"kind"`
	Metadata   metadata                       `json:"metadata"`
	Spec       v1alpha1.CompressionPolicySpec `json:"spec"`
}

type metadata struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace,omitempty"`
}

// winner is a result that is best over some of the links.
type winner struct {
	v1alpha1.TrialResult
	links []string
}

// winners are in the order of the links, each once.
func (in *Input) winners() []winner {
	var all []winner
	for i, best := range in.Best {
		result := in.Status.Results[best]
		at := slices.IndexFunc(all, func(w winner) bool { return w.Engine == result.Engine && w.Level == result.Level })
		if at < 0 {
			all, at = append(all, winner{TrialResult: result}), len(all)
		}
		all[at].links = append(all[at].links, in.Status.Links[i].Name)
	}
	return all
}

// spec is the policy, and why it is that.
func (in *Input) spec() (v1alpha1.CompressionPolicySpec, string) {
	c := in.Current
	spec := v1alpha1.CompressionPolicySpec{Objective: c.Objective, TariffName: c.TariffName}
	if p := c.Prices; p != nil && p.Source != v1alpha1.PricesOfTariff {
		spec.Prices = &v1alpha1.Prices{Currency: p.Currency, CPUHour: p.CPUHour, NetworkGiB: p.NetworkGiB}
	}
	if c.HardwareMinSize != nil {
		spec.Hardware = &v1alpha1.HardwareCompression{MinSize: c.HardwareMinSize}
	}
	if c.SoftwareMinSize != nil && c.SoftwareMinSize.Sign() > 0 {
		spec.Software = &v1alpha1.SoftwareCompression{MinSize: c.SoftwareMinSize}
	}
	packed := slices.DeleteFunc(in.winners(), func(w winner) bool { return w.Codec == none })
	if len(packed) == 0 {
		spec.Mode = v1alpha1.CompressionNever
		return spec, fmt.Sprintf("by the objective %s nothing is better than to send these data as they are, over any of "+
			"the links: mode Never%s",
			cmp.Or(c.Objective, v1alpha1.ObjectiveElapsed), in.hopeless())
	}
	user, unit, classes := in.oneForAll()
	if user != "" {
		packed = prevailing(packed)
	}
	spec.Mode = v1alpha1.CompressionAuto
	spec.Codecs = codecs(packed)
	spec.Level = mostEffort(packed)
	why := []string{fmt.Sprintf("by the objective %s: mode Auto, which chooses block by block, with codecs [%s] up to "+
		"level %s, because %s",
		cmp.Or(c.Objective, v1alpha1.ObjectiveElapsed), join(spec.Codecs), spec.Level, reasons(in.winners()))}
	if user != "" {
		why = []string{fmt.Sprintf("by the objective %s: mode Auto, in which %s decides for each class of %s whether to "+
			"compress, by what it measures; what is compressed (each %s was measured alone, at its size) is %s at level %s, "+
			"the best over most of the links where compressing pays: %s",
			cmp.Or(c.Objective, v1alpha1.ObjectiveElapsed), user, classes, unit, spec.Codecs[0], spec.Level,
			reasons(in.winners()))}
	}
	accelerated := slices.ContainsFunc(packed, func(w winner) bool { return w.Engine == placement.EngineHardware })
	software := slices.ContainsFunc(packed, func(w winner) bool { return w.Engine != placement.EngineHardware })
	var where string
	spec.Placement, where = in.place(spec.Codecs[0], accelerated)
	why = append(why, where)
	if c.SoftwareDisabled && !software {
		if spec.Software == nil {
			spec.Software = &v1alpha1.SoftwareCompression{}
		}
		spec.Software.Disabled = true
	} else if c.SoftwareDisabled {
		why = append(why, fmt.Sprintf("software is allowed, which policy %q forbids", c.Name))
	}
	if unit == "body" {
		why = append(
			why, fmt.Sprintf("an HTTPEndpoint does not look at codecs: write codings: [%s] in its spec", codings(spec.Codecs)),
		)
	}
	why = append(why, "which engine of a codec works is left to each agent, which measures")
	return spec, strings.Join(why, "; ") + in.hopeless()
}

// codecs are those of the winners, the one that is best over most links first.
func codecs(packed []winner) []v1alpha1.Codec {
	wins := map[v1alpha1.Codec]int{}
	var list []v1alpha1.Codec
	for _, w := range packed {
		codec := v1alpha1.Codec(w.Codec)
		if wins[codec] == 0 {
			list = append(list, codec)
		}
		wins[codec] += len(w.links)
	}
	slices.SortStableFunc(list, func(a, b v1alpha1.Codec) int { return wins[b] - wins[a] })
	return list
}

// codings are those of HTTP in which the codecs come, with gzip for clients that read nothing else.
func codings(list []v1alpha1.Codec) string {
	var all []string
	for _, codec := range list {
		coding := v1alpha1.CodingGzip
		if codec == v1alpha1.CodecZstd {
			coding = v1alpha1.CodingZstd
		}
		all = append(all, string(coding))
	}
	if gzip := string(v1alpha1.CodingGzip); !slices.Contains(all, gzip) {
		all = append(all, gzip)
	}
	return strings.Join(all, ", ")
}

var levels = []v1alpha1.CompressionLevel{
	v1alpha1.CompressionFast, v1alpha1.CompressionBalanced, v1alpha1.CompressionHigh,
}

// mostEffort is the highest level of the winners: in mode Auto the level is a ceiling.
func mostEffort(packed []winner) v1alpha1.CompressionLevel {
	most := 0
	for _, w := range packed {
		most = max(most, slices.Index(levels, v1alpha1.CompressionLevel(w.Level)))
	}
	return levels[most]
}

// place is where agents should run. What an accelerator would do is known only where one was measured.
func (in *Input) place(first v1alpha1.Codec, accelerated bool) (v1alpha1.Placement, string) {
	measured := slices.ContainsFunc(in.Status.Results, func(r v1alpha1.TrialResult) bool {
		return r.Engine == placement.EngineHardware && r.Problem == ""
	})
	switch {
	case accelerated && first == v1alpha1.CodecDeflate:
		return v1alpha1.PlacementPreferHardware, "placement PreferHardware, since the accelerator was best"
	case measured:
		return v1alpha1.PlacementAnyNode, "placement AnyNode, since the accelerator was not best over most links"
	case in.Current.Placement == v1alpha1.PlacementRequireHardware && first != v1alpha1.CodecDeflate:
		return v1alpha1.PlacementPreferHardware, "placement PreferHardware, since no accelerator does " + string(first)
	default:
		return in.Current.Placement, "the placement is left as it is, since no accelerator was measured"
	}
}

// oneForAll names who sends what was sampled, what that is and by what its classes differ, where everything that is
// compressed is compressed at one level with one codec. Nothing where mode Auto chooses both block by block.
func (in *Input) oneForAll() (user, unit, classes string) {
	if sample := in.Status.Sample; sample != nil {
		switch sample.Unit {
		case v1alpha1.TrialUnitBody:
			return "an HTTPEndpoint", "body", "content and size"
		case v1alpha1.TrialUnitMessage:
			return "a Queue", "message", "subject and size"
		case v1alpha1.TrialUnitBlock:
		}
	}
	return "", "", ""
}

// prevailing are, of winners that compress, those with the codec and level that are best over most links; of several,
// those of the link that was stated first.
func prevailing(all []winner) []winner {
	type way struct{ codec, level string }
	links, most := map[way]int{}, way{}
	for _, w := range all {
		links[way{w.Codec, w.Level}] += len(w.links)
	}
	for _, w := range all {
		if this := (way{w.Codec, w.Level}); links[this] > links[most] {
			most = this
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(w winner) bool { return way{w.Codec, w.Level} != most })
}

// hopeless says how much of the sample compressing does nothing for.
func (in *Input) hopeless() string {
	sample := in.Status.Sample
	if sample == nil || sample.Bytes <= 0 || sample.HopelessBytes <= 0 {
		return ""
	}
	return fmt.Sprintf(
		"; %s of the sample look as if they did not shrink, which mode Auto sends as they are",
		share(sample.HopelessBytes, sample.Bytes),
	)
}

func share(part, whole int64) string {
	percent := 100 * float64(part) / float64(whole)
	if percent < 1 {
		return "less than 1 %"
	}
	return fmt.Sprintf("%.0f %%", percent)
}

// reasons say what is best where.
func reasons(winners []winner) string {
	var all []string
	for _, w := range winners {
		all = append(all, fmt.Sprintf("%s is best over %s", Name(w.TrialResult), strings.Join(w.links, ", ")))
	}
	return strings.Join(all, ", ")
}

// Name is a result in words.
func Name(r v1alpha1.TrialResult) string {
	if r.Codec == none {
		return "no compression"
	}
	return fmt.Sprintf("%s by %s at %s", r.Codec, r.Engine, r.Level)
}

// choice is what is best over a link, and by how much.
func (in *Input) choice(link v1alpha1.TrialLink, i int) v1alpha1.TrialChoice {
	best := in.Status.Results[in.Best[i]]
	choice := v1alpha1.TrialChoice{Link: link.Name, Codec: best.Codec, Engine: best.Engine, Level: best.Level}
	figure, unit := in.figure(best, i), in.unit()
	says := []string{
		fmt.Sprintf(
			"%s over %s (%s bytes per second): %s for a GiB", Name(best), link.Name, link.BytesPerSecond.String(), unit(figure),
		),
	}
	// Of every other codec, and of nothing, the best.
	for _, codec := range []string{none, string(v1alpha1.CodecDeflate), string(v1alpha1.CodecZstd)} {
		at := -1
		for j, r := range in.Status.Results {
			if r.Codec == codec && codec != best.Codec && r.Problem == "" && (at < 0 ||
				in.figure(r, i) < in.figure(in.Status.Results[at], i)) {
				at = j
			}
		}
		if at >= 0 {
			other := in.figure(in.Status.Results[at], i)
			says = append(says, fmt.Sprintf("%s: %s%s", Name(in.Status.Results[at]), unit(other), more(other, figure)))
		}
	}
	choice.Message = conditions.Shorten(strings.Join(says, "; "))
	return choice
}

// more says how much more a figure is than the least; nothing where there is no telling.
func more(other, least float64) string {
	if least <= 0 || other <= 0 {
		return ""
	}
	return fmt.Sprintf(" (%+.0f %%)", 100*(other/least-1))
}

// figure is what the objective looks at of a result over a link: less is better.
func (in *Input) figure(r v1alpha1.TrialResult, link int) float64 {
	var p v1alpha1.TrialPrediction
	if link < len(r.Predictions) {
		p = r.Predictions[link]
	}
	switch in.Current.Objective {
	case v1alpha1.ObjectiveCost:
		return decimal(p.CostPerGiB)
	case v1alpha1.ObjectiveCPU:
		return decimal(p.CPUSecondsPerGiB)
	case v1alpha1.ObjectiveBytes:
		if ratio := decimal(r.Ratio); ratio > 0 {
			return 1024 / ratio
		}
		return 0
	}
	return decimal(p.SecondsPerGiB)
}

// unit says a figure with what it is.
func (in *Input) unit() func(float64) string {
	switch in.Current.Objective {
	case v1alpha1.ObjectiveCost:
		currency := ""
		if in.Current.Prices != nil {
			currency = in.Current.Prices.Currency + " "
		}
		return func(f float64) string { return fmt.Sprintf("%s%.5f", currency, f) }
	case v1alpha1.ObjectiveCPU:
		return func(f float64) string { return short(f) + " CPU seconds" }
	case v1alpha1.ObjectiveBytes:
		return func(f float64) string { return fmt.Sprintf("%.0f MiB", f) }
	}
	return func(f float64) string { return short(f) + " s" }
}

// short writes a number with three digits at least before anything is rounded.
func short(f float64) string {
	if f >= 100 {
		return strconv.FormatFloat(f, 'f', 0, 64)
	}
	return strconv.FormatFloat(f, 'g', 3, 64)
}

// decimal is 0 for what is none.
func decimal(text string) float64 {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0
	}
	return f
}

func join(list []v1alpha1.Codec) string {
	var all []string
	for _, c := range list {
		all = append(all, string(c))
	}
	return strings.Join(all, ", ")
}
