// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package trialreport_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/trialreport"
)

// keep is a directory to leave the pages in, to be looked at.
var keep = flag.String("keep", "", "directory to write the pages to")

func result(codec, engine, level, ratio string, seconds ...string) v1alpha1.TrialResult {
	r := v1alpha1.TrialResult{
		Codec: codec, Engine: engine, Level: level, Ratio: ratio, CompressSecondsPerGiB: "1.90",
		DecompressSecondsPerGiB: "1.10",
	}
	for i, s := range seconds {
		r.Predictions = append(
			r.Predictions,
			v1alpha1.TrialPrediction{
				Link: []string{"wan", "lan"}[i], SecondsPerGiB: s, CPUSecondsPerGiB: []string{"5.40", "4.90"}[i],
				CostPerGiB: []string{"0.0171", "0.0168"}[i],
			},
		)
	}
	return r
}

func trial() *v1alpha1.CompressionTrial {
	return &v1alpha1.CompressionTrial{
		ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "ledger"},
		Spec: v1alpha1.CompressionTrialSpec{
			Source: v1alpha1.TrialSource{PersistentVolumeClaim: &v1alpha1.PersistentVolumeClaimPath{ClaimName: "ledger"}},
		},
		Status: v1alpha1.CompressionTrialStatus{
			Run:   &v1alpha1.RunStatus{ID: "abcde", Node: "worker-1", Architecture: "amd64"},
			Cores: 2,
			Sample: &v1alpha1.TrialSampleStatus{
				Bytes: 64 << 20, Files: 12, BytesTotal: 5 << 30, FilesTotal: 4000, HopelessBytes: 4 << 20,
			},
			Policy: &v1alpha1.PolicyStatus{Objective: v1alpha1.ObjectiveElapsed,
				Prices: &v1alpha1.PricesStatus{Currency: "USD"}},
			Links: []v1alpha1.TrialLink{
				{Name: "wan", BytesPerSecond: resource.MustParse("12500k")},
				{Name: "lan", BytesPerSecond: resource.MustParse("1250M")},
			},
			Accelerator: &v1alpha1.AcceleratorProfile{
				State: v1alpha1.AcceleratorAbsent, Reason: "NoInstruction", Message: "architecture amd64 has no accelerator",
			},
			Results: []v1alpha1.TrialResult{
				result("none", "none", "", "1.000", "86.30", "1.20"),
				result("deflate", "isa-l", "Fast", "2.900", "29.60", "2.30"),
				result("deflate", "zlib-ng", "Fast", "2.880", "29.90", "3.50"),
				result("deflate", "zlib-ng", "Balanced", "3.300", "26.10", "9.80"),
				result("zstd", "libzstd", "Fast", "3.500", "24.80", "2.80"),
				result("zstd", "libzstd", "High", "4.100", "22.40", "14.00"),
				{Codec: "deflate", Engine: "go", Level: "Fast", Problem: "no <memory> & \"nothing\""},
			},
			Recommendation: &v1alpha1.TrialRecommendation{
				Policy: "apiVersion: lighterage.dev/v1alpha1\nkind: CompressionPolicy\n", Message: "because <b>it</b> is so",
				Choices: []v1alpha1.TrialChoice{
					{Link: "wan", Codec: "zstd", Engine: "libzstd", Level: "High", Message: "zstd over wan & more"},
					{Link: "lan", Codec: "none", Engine: "none", Message: "nothing over lan"},
				},
			},
		},
	}
}

func leave(t *testing.T, name string, content []byte) {
	t.Helper()
	if *keep == "" {
		return
	}
	if err := os.WriteFile(filepath.Join(*keep, name), content, 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestSVG(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.CompressionTrial){
		"whole":   func(*v1alpha1.CompressionTrial) {},
		"hostile": func(c *v1alpha1.CompressionTrial) { c.Status.Results[1].Engine = `"><script>&</svg>` },
		"numbers": func(c *v1alpha1.CompressionTrial) {
			for i, bad := range []string{"NaN", "Inf", "-1", "x", "0", ""} {
				c.Status.Results[i].Predictions[0].SecondsPerGiB = bad
			}
		},
		"nothing": func(c *v1alpha1.CompressionTrial) { c.Status = v1alpha1.CompressionTrialStatus{} },
	} {
		c := trial()
		change(c)
		picture := trialreport.SVG(c)
		texts := 0
		for decoder := xml.NewDecoder(strings.NewReader(picture)); ; {
			token, err := decoder.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v: %s", name, err, picture)
			}
			if start, ok := token.(xml.StartElement); ok && start.Name.Local == "script" {
				t.Errorf("%s: text became an element", name)
			} else if ok && start.Name.Local == "text" {
				texts++
			}
		}
		if strings.Contains(picture, "NaN\"") || strings.Contains(picture, "Inf\"") || texts < 6 {
			t.Errorf("%s: %s", name, picture)
		}
		if name == "whole" {
			leave(t, "trial.svg", []byte(picture))
			for _, want := range []string{
				"zstd libzstd High", ">22.40<", `font-weight="bold">1.20<`, "wan, 12.5 MB/s", "lan, 1.25 GB/s",
			} {
				if !strings.Contains(picture, want) {
					t.Errorf("%q is not in %s", want, picture)
				}
			}
		}
	}
}

func TestHTML(t *testing.T) {
	var out bytes.Buffer
	if err := trialreport.HTML(&out, trial()); err != nil {
		t.Fatal(err)
	}
	leave(t, "trial.html", out.Bytes())
	count, text := map[string]int{}, strings.Builder{}
	decoder := xml.NewDecoder(&out)
	decoder.Strict, decoder.AutoClose, decoder.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			count[token.Name.Local]++
			for _, a := range token.Attr {
				if a.Name.Local == "src" || a.Name.Local == "href" {
					t.Errorf("the page needs %s", a.Value)
				}
			}
		case xml.CharData:
			text.Write(token)
		}
	}
	// 6 results over 2 links, one without figures and the head; what the agent said is text.
	if count["tr"] != 14 || count["svg"] != 1 || count["li"] != 2 || count["b"] != 0 || count["memory"] != 0 ||
		count["script"] != 0 {
		t.Errorf("%v", count)
	}
	for _, want := range []string{
		"because <b>it</b> is so", `no <memory> & "nothing"`, "kind: CompressionPolicy",
		"64.00 MiB in 12 files, of 5.00 GiB in 4000 files", "No accelerator was measured (NoInstruction)",
		"COST USD", "+91.7 %",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is not in the page", want)
		}
	}
}

// TestItems: the page says that bodies and messages were compressed one by one.
func TestItems(t *testing.T) {
	for want, source := range map[string]v1alpha1.TrialSource{
		"HTTPEndpoint shop: 4000 bodies of 4.00 MiB, each compressed alone at its size, of 90000 that passed with 1.00 " +
			"GiB; of 3 that are long only": {
			HTTPEndpoint: &v1alpha1.TrialHTTPEndpoint{Name: "shop"},
		},
		"Queue orders: 4000 messages of 4.00 MiB, each compressed alone at its size, of 90000 that are stored in 1.00 GiB; " +
			"of 3": {Queue: &v1alpha1.TrialQueue{Name: "orders"}},
	} {
		sampled := trial()
		sampled.Spec.Source = source
		sampled.Status.Sample = &v1alpha1.TrialSampleStatus{Bytes: 4 << 20, BytesTotal: 1 << 30, Items: 4000,
			ItemsTotal: 90000, CutItems: 3, UnreadableItems: 2,
			Agents: 2, SilentAgents: 1, SilentMessage: "no route"}
		var out bytes.Buffer
		if err := trialreport.HTML(&out, sampled); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), want) || !strings.Contains(out.String(), "2 could not be inflated") ||
			!strings.Contains(out.String(), "1 of 3 agents that were asked gave nothing (no route)") {
			t.Errorf("%q is not in the page", want)
		}
	}
}

func TestText(t *testing.T) {
	var out bytes.Buffer
	if err := trialreport.Text(&out, trial()); err != nil {
		t.Fatal(err)
	}
	leave(t, "trial.txt", out.Bytes())
	for _, want := range []string{
		"zstd     libzstd  High      4.10", "COMPRESS CPU",
		"links wan of 12.5 MB/s, lan of 1.25 GB/s, by the objective Elapsed", "Recommended: because",
		"kind: CompressionPolicy",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
}

func TestDictionaries(t *testing.T) {
	c := trial()
	says := func(want ...string) {
		t.Helper()
		var text, page bytes.Buffer
		if err := errors.Join(trialreport.Text(&text, c), trialreport.HTML(&page, c)); err != nil {
			t.Fatal(err)
		}
		for _, w := range want {
			if !strings.Contains(text.String(), w) || !strings.Contains(page.String(), w) {
				t.Errorf("%q is not in\n%s", w, text.String())
			}
		}
	}
	one := v1alpha1.TrialDictionary{
		Engine: "libzstd", Bytes: 64 << 10, TrainingItems: 500, Items: 501,
		Results: []v1alpha1.TrialDictionaryResult{{
			Level: "Fast", Ratio: "5.100", RatioWithout: "2.300", CompressSecondsPerGiB: "4.40",
			CompressSecondsPerGiBWithout: "5.50", DecompressSecondsPerGiB: "1.10", DecompressSecondsPerGiBWithout: "1.20",
		}},
	}
	c.Status.Dictionaries = []v1alpha1.TrialDictionary{
		one, {Codec: "deflate", Engine: "isa-l", Problem: "too few samples"},
	}
	figures := []string{"zstd", "libzstd", "64.00 KiB", "500", "501", "5.100", "2.300", "4.40", "5.50", "1.10", "1.20"}
	says(append(figures, "deflate", "too few samples")...)
	// What a manager of an earlier release has.
	c.Status.Dictionary, c.Status.Dictionaries = &one, nil
	says(figures...)
}

// TestTerminal: what comes from a cluster cannot command the terminal, nor feign lines.
func TestTerminal(t *testing.T) {
	const bad = "x\x1b[2J\nRecommended:\tz\r\a"
	hostile := trial()
	s := &hostile.Status
	s.Accelerator.Message, s.Results[1].Engine, s.Results[6].Problem, s.Links[0].Name = bad, bad, bad, bad
	s.Dictionaries = []v1alpha1.TrialDictionary{{Codec: bad, Problem: bad}, {Codec: bad, Engine: bad}}
	s.Recommendation.Message, s.Recommendation.Choices[0].Message, s.Recommendation.Policy = bad, bad,
		"kind: CompressionPolicy\n# \x1b[31m\n"
	var out bytes.Buffer
	if err := trialreport.Text(&out, hostile); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(out.String(), "\x1b\a\r\t") || strings.Count(out.String(), "\nRecommended:") != 1 ||
		!strings.HasSuffix(out.String(), "kind: CompressionPolicy\n#  [31m\n") {
		t.Errorf("%q", out.String())
	}
}

func TestCheck(t *testing.T) {
	if err := trialreport.Check(trial()); err != nil {
		t.Error(err)
	}
	for status, want := range map[string]string{"": "is the operator running?", "Measuring": "Measuring: 3 of 9"} {
		c := trial()
		c.Status = v1alpha1.CompressionTrialStatus{}
		if status != "" {
			c.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Reason: status, Message: "3 of 9"}}
		}
		if err := trialreport.Check(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v", err)
		}
	}
}
