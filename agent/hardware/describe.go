// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package hardware

import (
	"fmt"
	"strings"

	"github.com/lighterage/lighterage/agent/codec"
)

// describe puts a verdict that is Verified into words. lacking is why a level is
// missing, unused why the accelerator does not inflate; either may be nil.
func describe(v Verdict, lacking, unused *failure) string {
	var b strings.Builder
	first := v.Compress[0]
	fmt.Fprintf(&b, "DFLTCC was proved to compress at %s", names(v.Levels))
	if v.SlowerThanSoftware {
		fmt.Fprintf(
			&b, ". It is slower than software here: %s against %s at level %v", rate(first.Hardware), rate(first.Software),
			first.Level,
		)
	} else {
		fmt.Fprintf(&b, ", %.1f times as fast as software at level %v (%s against %s)",
			first.Hardware/first.Software, first.Level, rate(first.Hardware), rate(first.Software))
	}
	fmt.Fprintf(&b, ", at ratio %.2f against %.2f", first.HardwareRatio, first.SoftwareRatio)
	switch {
	case unused != nil:
		fmt.Fprintf(&b, ". Software inflates, because the accelerator was not used for it: %s", unused.message)
	case v.InflateMinSize == NeverInflate:
		fmt.Fprintf(
			&b, ". Software inflates, because it is faster at every size: %s against %s", rate(v.InflateSoftware),
			rate(v.InflateHardware),
		)
	default:
		fmt.Fprintf(
			&b, ". It inflates from %d compressed bytes on (%s, software %s)", v.InflateMinSize, rate(v.InflateHardware),
			rate(v.InflateSoftware),
		)
	}
	if lacking != nil {
		fmt.Fprintf(&b, ". Other levels are left to software: %s", lacking.message)
	}
	message := b.String()
	return message[:min(len(message), maxMessage)]
}

func names(levels []codec.Level) string {
	list := make([]string, len(levels))
	for i, level := range levels {
		list[i] = level.String()
	}
	if len(list) == 1 {
		return "level " + list[0]
	}
	last := len(list) - 1
	return "levels " + strings.Join(list[:last], ", ") + " and " + list[last]
}

// rate writes bytes per second.
func rate(perSecond float64) string {
	if perSecond < 10e6 {
		return fmt.Sprintf("%.2f MB/s", perSecond/1e6)
	}
	return fmt.Sprintf("%.0f MB/s", perSecond/1e6)
}
