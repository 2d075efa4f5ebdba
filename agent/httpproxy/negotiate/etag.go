// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package negotiate

import (
	"iter"
	"strings"
)

// mark sets the coding apart from the backend's own part of an entity tag. A tag
// that a backend makes hardly ends in it, unlike in "-gzip".
const mark = ";lighterage="

// Tag returns the entity tag of a coding of what the backend calls tag. Strong tags
// stand for bytes, so each coding has one of its own; weak ones, and what is no
// entity tag, stay as they are.
func Tag(tag string, c Coding) string {
	if c == Identity || !strong(tag) {
		return tag
	}
	return tag[:len(tag)-1] + mark + c.String() + `"`
}

// Untag takes apart what Tag made. The coding is Identity, and base the tag itself,
// when Tag did not make it.
func Untag(tag string) (base string, c Coding) {
	if !strong(tag) {
		return tag, Identity
	}
	at := strings.LastIndex(tag, mark)
	if at < 0 {
		return tag, Identity
	}
	c, err := ParseCoding(tag[at+len(mark) : len(tag)-1])
	if err != nil {
		return tag, Identity
	}
	return tag[:at] + `"`, c
}

func strong(tag string) bool {
	return len(tag) >= 2 && tag[0] == '"' && tag[len(tag)-1] == '"'
}

// IfMatch returns the field If-Match as the backend understands it: the tags of
// codings become those of what was coded. Whoever has read a coded response and
// changes what it stands for names the right thing.
func IfMatch(field string) string {
	return mapTags(field, func(string, Coding) bool { return true })
}

// IfNoneMatch returns the field If-None-Match as the backend understands it. Only
// tags of codings that the client still accepts are mapped back: the others stand for
// responses that it could not use any more. What was mapped is remembered in sent, for
// TagOf.
func IfNoneMatch(field string, a Accepted, sent *Sent) string {
	return mapTags(field, func(base string, c Coding) bool {
		if !a.Accepts(c) {
			return false
		}
		sent.add(base, c)
		return true
	})
}

// Sent are the tags of codings that a client has. The zero value is ready.
type Sent struct {
	tags []sentTag
}

type sentTag struct {
	base string
	c    Coding
}

func (s *Sent) add(base string, c Coding) { s.tags = append(s.tags, sentTag{base, c}) }

// TagOf returns the tag that a client knows of a representation that the backend says
// has not changed: the one in the preferred coding if it has that, else any.
func (s *Sent) TagOf(base string, preferred Coding) string {
	found := base
	for _, t := range s.tags {
		if t.base != base {
			continue
		}
		if t.c == preferred {
			return Tag(base, t.c)
		}
		found = Tag(base, t.c)
	}
	return found
}

// mapTags replaces those tags of codings in a list of entity tags that want says yes
// to. A field in which there are none comes back as it is.
func mapTags(field string, want func(base string, c Coding) bool) string {
	if !strings.Contains(field, mark) {
		return field
	}
	var out strings.Builder
	rest := 0
	for at, tag := range tagsIn(field) {
		base, c := Untag(tag)
		if c == Identity || at > 0 && field[at-1] == '/' || !want(base, c) {
			continue
		}
		out.WriteString(field[rest:at])
		out.WriteString(base)
		rest = at + len(tag)
	}
	out.WriteString(field[rest:])
	return out.String()
}

// tagsIn yields the quoted parts of a list of entity tags and where they start. A
// quote that is not closed ends the list.
func tagsIn(field string) iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		at := 0
		for {
			start := strings.IndexByte(field[at:], '"')
			if start < 0 {
				return
			}
			start += at
			end := strings.IndexByte(field[start+1:], '"')
			if end < 0 {
				return
			}
			end += start + 2
			if !yield(start, field[start:end]) {
				return
			}
			at = end
		}
	}
}
