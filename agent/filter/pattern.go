// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package filter

import (
	"errors"
	"fmt"
	"path"
	"strings"
)

const (
	// MaxPatterns is the most include and the most exclude patterns.
	MaxPatterns = 256
	// MaxPattern is the longest pattern in bytes.
	MaxPattern = 1024
	// maxElements of a pattern, so that a set of them fits into a word.
	maxElements = 60
)

// pattern is a list of elements, which match one element of a path each, but for anyDepth. Package path matches an
// element. Going through them is ours, because a matcher of whole paths does not tell whether anything in a directory
// could match.
type pattern struct {
	elements  []element
	negated   bool
	directory bool // matches directories only
}

type element struct {
	glob string
	// The usual globs need no matching.
	kind kind
}

type kind uint8

const (
	isGlob     kind = iota
	isLiteral       // no character with a meaning
	isAnything      // *
	anyDepth        // **: any number of elements, none too
)

// states is a set of positions in a pattern's elements: those that may match the next element of a path. The position
// behind the last element means that the pattern has matched.
type states uint64

func (p *pattern) start() states { return p.pass(1) }

// pass adds the positions that are reached without an element of the path.
func (p *pattern) pass(s states) states {
	for i := range p.elements {
		if p.elements[i].kind == anyDepth && s>>i&1 != 0 {
			s |= 1 << (i + 1)
		}
	}
	return s
}

// next takes an element of a path.
func (p *pattern) next(s states, name string) states {
	var after states
	for i := range p.elements {
		if s>>i&1 == 0 {
			continue
		}
		switch e := &p.elements[i]; {
		case e.kind == anyDepth:
			after |= 1 << i
		case e.matches(name):
			after |= 1 << (i + 1)
		}
	}
	return p.pass(after)
}

// matched reports whether the elements that were taken match.
func (p *pattern) matched(s states, directory bool) bool {
	return s>>len(p.elements)&1 != 0 && (directory || !p.directory)
}

// open reports whether more elements could match.
func (p *pattern) open(s states) bool { return s&^(1<<len(p.elements)) != 0 }

func (e *element) matches(name string) bool {
	switch e.kind {
	case isAnything:
		return true
	case isLiteral:
		return e.glob == name
	default:
		ok, _ := path.Match(e.glob, name) // Parsed before, so that there is no error.
		return ok
	}
}

var (
	errEmpty   = errors.New(`it is empty: remove it, or write "**" for everything`)
	errLong    = fmt.Errorf("it is longer than %d bytes: shorten it with \"*\" or \"**\"", MaxPattern)
	errNUL     = errors.New("it contains a NUL byte, which no name has: remove it")
	errDots    = errors.New(`it has an element "." or "..": write the path from the root of the tree`)
	errSlashes = errors.New(`it has an empty element: write one "/" between elements`)
	errDeep    = fmt.Errorf(`it has more than %d elements: replace some with "**"`, maxElements)
	errNegated = errors.New(
		`an include pattern cannot begin with "!": move it to exclude without the "!", or write "\!" for the character`,
	)
	errNamed     = errors.New(`a class such as "[:alpha:]" is not known: write a range, such as "[a-zA-Z]"`)
	errBackslash = errors.New(`it ends with "\": write "\\" for the character`)
	errClass     = errors.New(
		`a class is not well formed: end it with "]", write "\[", "\]" and "\-" for the characters, and keep "/" out of it`,
	)
)

func parse(text string) (pattern, error) {
	var p pattern
	switch {
	case text == "":
		return p, errEmpty
	case len(text) > MaxPattern:
		return p, errLong
	case strings.IndexByte(text, 0) >= 0:
		return p, errNUL
	}
	text, p.negated = strings.CutPrefix(text, "!")
	text, rooted := strings.CutPrefix(text, "/")
	text, p.directory = strings.CutSuffix(text, "/")
	if text == "" {
		return p, errEmpty
	}
	if !rooted && !strings.Contains(text, "/") {
		p.elements = append(p.elements, element{kind: anyDepth})
	}
	for name := range strings.SplitSeq(text, "/") {
		e, err := parseElement(name)
		if err != nil {
			return p, err
		}
		n := len(p.elements)
		if e.kind == anyDepth && n > 0 && p.elements[n-1].kind == anyDepth {
			continue
		}
		if n >= maxElements {
			return p, errDeep
		}
		p.elements = append(p.elements, e)
	}
	if p.elements[len(p.elements)-1].kind == anyDepth {
		// What is in a directory is not the directory.
		p.elements = append(p.elements, element{kind: isAnything})
	}
	return p, nil
}

func parseElement(text string) (element, error) {
	switch text {
	case "":
		return element{}, errSlashes
	case ".", "..":
		return element{}, errDots
	case "*":
		return element{kind: isAnything}, nil
	case "**":
		return element{kind: anyDepth}, nil
	}
	if !strings.ContainsAny(text, `*?[\`) {
		return element{glob: text, kind: isLiteral}, nil
	}
	glob, err := translate(text)
	if err != nil {
		return element{}, err
	}
	if _, err := path.Match(glob, ""); err != nil {
		return element{}, errClass
	}
	return element{glob: glob}, nil
}

// translate writes an element for path.Match, which knows only "^" for what is not in a class.
func translate(text string) (string, error) {
	glob := []byte(text)
	class := false
	for i := 0; i < len(glob); i++ {
		switch c := glob[i]; {
		case c == '\\':
			if i++; i == len(glob) {
				return "", errBackslash
			}
		case !class && c == '[':
			class = true
			if i+1 < len(glob) && (glob[i+1] == '!' || glob[i+1] == '^') {
				i++
				glob[i] = '^'
			}
		case class && c == ']':
			class = false
		case class && c == '[' && i+1 < len(glob) && glob[i+1] == ':':
			return "", errNamed
		}
	}
	return string(glob), nil
}
