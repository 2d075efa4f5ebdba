// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package codec

import "fmt"

// Registry is a fixed list of engines in order of preference. It is safe for
// concurrent use.
type Registry struct {
	engines []Engine
}

// NewRegistry returns a registry of the engines, the preferred ones first. It
// panics when two have the same name: which engines a program has is decided
// when it is written.
func NewRegistry(engines ...Engine) *Registry {
	seen := make(map[string]bool, len(engines))
	for _, e := range engines {
		if seen[e.Name()] {
			panic(fmt.Sprintf("codec: two engines are called %q", e.Name()))
		}
		seen[e.Name()] = true
	}
	return &Registry{engines: append([]Engine(nil), engines...)}
}

// ByName returns the engine of that name.
func (r *Registry) ByName(name string) (Engine, bool) {
	for _, e := range r.engines {
		if e.Name() == name {
			return e, true
		}
	}
	return nil, false
}

// ForCodec returns the engines of a codec, the preferred ones first.
func (r *Registry) ForCodec(id ID) []Engine {
	var found []Engine
	for _, e := range r.engines {
		if e.Codec() == id {
			found = append(found, e)
		}
	}
	return found
}

// Best returns the preferred engine of a codec and class that has the level.
func (r *Registry) Best(id ID, class Class, level Level) (Engine, bool) {
	for _, e := range r.engines {
		if e.Codec() == id && e.Class() == class && e.HasLevel(level) {
			return e, true
		}
	}
	return nil, false
}

// Codecs returns the codecs that the engines execute, each once, in order of
// preference.
func (r *Registry) Codecs() []ID {
	var ids []ID
	var seen [256]bool
	for _, e := range r.engines {
		if id := e.Codec(); !seen[id] {
			seen[id] = true
			ids = append(ids, id)
		}
	}
	return ids
}

// Names returns the names of the engines, the preferred ones first.
func (r *Registry) Names() []string {
	names := make([]string, len(r.engines))
	for i, e := range r.engines {
		names[i] = e.Name()
	}
	return names
}
