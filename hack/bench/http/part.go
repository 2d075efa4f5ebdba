// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package http

import (
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// part is what is measured in place of everything. The zero value is everything.
type part struct {
	sizes, only string
	rounds      int
	// before is the path of another build of the agent, which takes turns with the others.
	before string
}

func (p *part) flags(f *flag.FlagSet) {
	f.StringVar(&p.sizes, "sizes", "", "sizes of bodies in bytes, separated by commas, in place of those of the extent")
	f.StringVar(&p.only, "only", "",
		"names of contenders, separated by commas: these alone are measured, by HTTP/1.1, and no engines and no memory")
	f.IntVar(&p.rounds, "rounds", 0, "rounds in place of those of the extent")
	f.StringVar(&p.before, "before", "", "another build of the agent, which takes turns with the others as "+beforeName)
}

// beforeName is the name of the other build of the agent.
const beforeName = "before"

func (p *part) partial() bool { return *p != part{} }

// names reports whether a contender is measured.
func (p *part) names(contender string) bool {
	return p.only == "" || slices.Contains(strings.Split(p.only, ","), contender)
}

// narrow makes an extent that of the part.
func (p *part) narrow(e *extent) error {
	if p.rounds > 0 {
		e.rounds = p.rounds
	}
	if p.sizes == "" {
		return nil
	}
	e.sizes, e.json = nil, nil
	for text := range strings.SplitSeq(p.sizes, ",") {
		size, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("-sizes: %q is no number of bytes: %w", text, err)
		}
		e.sizes = append(e.sizes, size)
	}
	return nil
}
