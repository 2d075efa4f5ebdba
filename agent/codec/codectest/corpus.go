// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package codectest

import "github.com/lighterage/lighterage/test/corpus"

// Corpus is a kind of data that is the same in every run and on every machine.
type Corpus = corpus.Corpus

// Corpora returns the kinds of data that tests use: of the generated ones those
// that differ in what they ask of an engine.
func Corpora() []Corpus {
	var chosen []Corpus
	for _, name := range []string{"zeros", "source", "xml", "json", "records", "base64", "random"} {
		chosen = append(chosen, named(name))
	}
	return chosen
}

func named(name string) Corpus {
	c, ok := corpus.ByName(name)
	if !ok {
		panic("codectest: no corpus is called " + name)
	}
	return c
}

func random(n int) []byte { return named("random").Generate(n) }
